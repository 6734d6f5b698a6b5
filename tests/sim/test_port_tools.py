"""Whatever is typed, every tool of the simulated rack answers, and the same way each time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.sim.tools.command_line import TOOLS

TYPED = (
    "-d mlx5_0 lid-1 lid-18 lid-999 lid-x lid- ² 1 2 99999999999999999999 -1 0x1 0,1 0,x --reg_name PTER PAOS "
    "ROCE_ACCL --get --set --indexes -o clr=1 local_port=1 local_port=1,grp=0x16 admin_status=2,ase=1 "
    "admin_status=1,ase=1 admin_status=9,ase=1 error_type_admin=2,ber_mantissa=1,ber_exp=6,error_injection_time=300 "
    "error_type_admin=1,ber_exp=255,ber_mantissa=15,error_injection_time=0xffff --yes -w -c "
    "--json -p -a UP DN TG --pc query enable disable reset on off down arm -C -P -D -x -R -r -l -S link show set dev "
    "eth0 eth1 ib0 up -i topo -m -L /sys/class/infiniband/*/ports/*/* /sys/class/infiniband/[ mlx5_9 --bogus -- ="
)
WORDS = tuple(TYPED.split(" "))


@settings(max_examples=50, deadline=None)
@given(
    lines=st.lists(st.tuples(st.sampled_from(sorted(TOOLS)), st.lists(st.sampled_from(WORDS), max_size=8)), max_size=6),
    layer=st.sampled_from(["infiniband", "ethernet"]),
)
def test_every_command_line_is_answered_and_the_same_twice(kit, lines, layer):
    """No tool falls over; two worlds with the same history say the same."""
    worlds = [kit.world(hosts=2, platform=kit.platform_like(link_layer=layer)) for _ in range(2)]
    for number, (tool, words) in enumerate(lines):
        said = [kit.ask(world, "gpu001", " ".join([tool, *words]), float(number)) for world in worlds]
        assert (said[0].stdout, said[0].stderr, said[0].exit_status) == (
            (said[1].stdout, said[1].stderr, said[1].exit_status)
        )


@pytest.mark.parametrize(
    "line",
    [
        "mlxreg -d lid-² --get --reg_name PAOS --indexes local_port=1",
        "mlxreg -d lid-1,mlx5_9 --get --reg_name PAOS --indexes local_port=1",
        "mlxreg -d lid-18 --set ack_dscp=1 --reg_name ROCE_ACCL --yes",
        f"mlxreg -d mlx5_0 --get --reg_name PAOS --indexes local_port={'9' * 5000}",
        "mlxlink -d mlx5_0 -p ²",
        "mlxlink -d mlx5_0 -p 7",
        "mlxlink -d mlx5_0 -a SIDEWAYS",
        "ibportstate 1 ²",
        "ibportstate 1 999",
        f"ibportstate {'9' * 5000} 1",
        "ibportstate -D 0,² 1",
        "ibportstate -C mlx5_9 1 1",
        "perfquery 1 ²",
        "perfquery ² 1",
        "ip link set eth0 down",
        "ip address",
        "ethtool -S lo",
        "nvidia-smi -q",
    ],
)
def test_nonsense_is_refused(kit, line):
    """With a status that is not 0 and a word about it on stderr."""
    said = kit.ask(kit.world(), "gpu001", line, 1.0)
    assert said.exit_status != 0
    assert said.stderr


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_a_tool_without_words_answers(kit, tool):
    """Help, a complaint or a listing: never nothing at all but for the silent ones."""
    said = kit.ask(kit.world(), "gpu001", tool, 1.0)
    assert said.stdout or said.stderr or tool == "cat"


def test_a_tool_that_is_killed_changes_nothing(kit):
    """Killed before it sends, it has sent nothing."""
    world = kit.world()
    pid = world.start("gpu001", ("ibportstate", "1", "1", "disable"), {}, 1.0)
    world.kill(pid, 1.01)
    world.advance(2.0)
    assert kit.ask(world, "gpu001", "cat /sys/class/infiniband/mlx5_0/ports/1/state", 3.0).stdout == "4: ACTIVE\n"
