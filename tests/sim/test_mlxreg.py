"""``mlxreg`` in the simulated rack: the tool's own tables and refusals, and what injected errors do."""

import re

import pytest

from tests.places import CAPTURES

INDEXES = "local_port=1,lp_msb=0,pnat=0,plane_ind=0,error_page=0"
PTER = f"mlxreg -d mlx5_0 --reg_name PTER --indexes {INDEXES}"


def masked(text):
    """A table without its values and the width that the title line leaves open."""
    return [re.sub(r"0x[0-9a-f]{8}$", "0x", line).rstrip() for line in text.strip().splitlines()]


def recorded(name, command, nth=0):
    """What the real tool printed on stdout after a command that starts so."""
    files = sorted((CAPTURES / "mlxreg").glob(f"{name}*"))
    parts = re.split(r"^\$ ", files[0].read_text(), flags=re.MULTILINE)
    found = [part for part in parts if command in part.partition("\n")[0]][nth]
    return found.partition("\n")[2].partition("[rc=")[0]


def fields(text):
    """Field to value of a table, exact names."""
    return {name: int(value, 16) for name, value in re.findall(r"^(\S+) +\| (0x[0-9a-f]+)$", text, re.MULTILINE)}


@pytest.fixture
def ask(kit):
    """Ask one world on gpu001."""
    world = kit.world()
    return lambda text, at_s, host="gpu001": kit.ask(world, host, text, at_s)


def test_get_and_set_of_pter_look_like_the_recorded_ones(ask):
    """Same lines, same columns, same field order, same prompt."""
    got = ask(f"{PTER} --get", 1.0)
    assert masked(got.stdout) == masked(recorded("11", "--get --reg_name PTER"))
    write = f"{PTER} --set error_type_admin=2,ber_mantissa=1,ber_exp=6,error_injection_time=300"
    said = ask(f"{write} --yes", 2.0)
    assert masked(said.stdout) == masked(recorded("11", "--set"))
    assert fields(said.stdout)["error_injection_time"] == 0x12C
    asked_only = ask(write, 3.0)
    assert asked_only.stdout.endswith("(y/n) [n] : ")
    assert masked(asked_only.stdout) == masked(recorded("14", "--set"))


def test_roce_accl_looks_like_the_recorded_one_and_keeps_what_is_set(ask):
    """Adaptive routing can be forced on and off."""
    get = "mlxreg -d mlx5_0 --get --reg_name ROCE_ACCL"
    first = ask(get, 1.0)
    assert masked(first.stdout) == masked(recorded("13", "--get"))
    assert fields(first.stdout)["adaptive_routing_forced_en"] == 0
    chosen = "adaptive_routing_forced_en=1,adaptive_routing_forced_en_field_select=1"
    assert ask(f"mlxreg -d mlx5_0 --set {chosen} --reg_name ROCE_ACCL --yes", 2.0).exit_status == 0
    assert fields(ask(get, 3.0).stdout)["adaptive_routing_forced_en"] == 1


def test_an_injection_is_written_in_10_ms_read_in_ms_and_ends_by_itself(ask):
    """3 s: 2 s are left after one, nothing after four."""
    ask(f"{PTER} --set error_type_admin=2,ber_mantissa=1,ber_exp=6,error_injection_time=300 -y", 0.0)
    now = fields(ask(f"{PTER} --get", 1.0).stdout)
    assert (now["error_type_oper"], now["error_type_admin"], now["error_type_cap"]) == (1, 2, 3)
    assert now["error_injection_time"] == 2000
    after = fields(ask(f"{PTER} --get", 4.0).stdout)
    assert [after[name] for name in ("error_type_oper", "error_type_admin", "ber_exp", "ber_mantissa")] == [0] * 4


@pytest.mark.parametrize(
    ("rest", "complaint"),
    [
        (f"--reg_name PTER --indexes {INDEXES} --set bogus=1", 'Can\'t find field name: "bogus"'),
        (f"--reg_name PTER --indexes {INDEXES} --set error_type_oper=1", "Field: error_type_oper is ReadOnly"),
        (
            f"--reg_name PTER --indexes {INDEXES} --set ber_mantissa=25",
            "Value: 0x19 exceeds maximum value for field 'ber_mantissa' (4 bits, max: 0xf)",
        ),
        ("--reg_name PTER --indexes local_port=1,bogus_idx=0 --get", 'Can\'t find INDEX name: "bogus_idx"'),
        ("--reg_name PTER --indexes ber_exp=1 --set ber_exp=6", "Field: ber_exp appears twice."),
        (f"--reg_name PTER --indexes {INDEXES} --set ber_exp", "Argument: ber_exp is invalid"),
        (f"--reg_name PTER --indexes {INDEXES} --set ber_exp=abc", "Argument: abc is invalid."),
        ("--reg_name PTERX --get", "Can't find access register name: PTERX"),
        ("--reg_name pter --get", "Can't find access register name: pter"),
    ],
)
def test_refusals_are_the_tools_own(ask, rest, complaint):
    """``-E-`` on stderr, status 1."""
    said = ask(f"mlxreg -d mlx5_0 {rest} --yes", 1.0)
    assert (said.stderr, said.exit_status) == (f"-E- {complaint}\n", 1)


def test_injected_errors_cost_bandwidth_at_once_and_only_while_they_last(kit):
    """An effective BER of 1e-5 on half of a running transfer: link-level retry leaves less than the whole."""
    world = kit.world()
    lines = kit.pair(0.0, "gpu002", "mlx5_0", port=18600)[:1]
    lines.append((1.0, "gpu001", lines[0][2] + " 10.0.0.2"))
    inject = f"{PTER} --set error_type_admin=2,ber_mantissa=1,ber_exp=5,error_injection_time=250 --yes"
    spoiled = kit.played(world, [*lines, (2.0, "gpu001", inject)])
    healthy = kit.played(kit.world(), lines)
    rate = kit.bandwidth_gbps(spoiled[1].stdout) / kit.bandwidth_gbps(healthy[1].stdout)
    cell = 1 - (1 - 1e-5) ** (642 * 8)
    left = (1 - cell) / (1 - cell + cell * (0.3e3 * 400 / (642 * 8) + 1))
    assert rate == pytest.approx((1 + left) / 2, abs=0.02)
    again = kit.played(world, [(at_s + 100, host, text) for at_s, host, text in lines])
    assert kit.bandwidth_gbps(again[1].stdout) == kit.bandwidth_gbps(healthy[1].stdout)
