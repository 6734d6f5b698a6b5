"""Whose file counts, when it is read and felt; and a UFM that isolates ports with many bit errors."""

import json

import pytest

from fabric.model.change import SubnetManager

A, B = ("gpu000", "gpu002"), ("gpu001", "gpu003")
SMS = (SubnetManager("gpu000"), SubnetManager("gpu001"))
RESTART = ("systemctl", "restart", "opensm")
HANG_UP = ("pkill", "-HUP", "-x", "opensm")


def governed(pod, engine=None, **settings):
    """A pod with a manager on gpu000, the master, and one on gpu001."""
    return pod(engine, subnet_managers=SMS, **settings)


def forwarding(one):
    """What is programmed into the switches."""
    return one.world.rack.above.forwarding


def priority(one, host, value, at_s):
    """Give a manager another priority, at run time."""
    one.conf(host, "set", f"sm_priority={value}", at_s=at_s)
    one.say(host, *HANG_UP, at_s=at_s + 0.5)


def test_adaptive_routing_on_both_managers_is_felt_after_the_sweep(pod):
    """Edited and restarted one after the other: 15 s after the last the rings share a trunk; then back as before."""
    one = governed(pod)
    a, b = one.run(*A), one.run(*B)
    one.to(20.0)
    for at_s, host in ((20.0, "gpu000"), (22.0, "gpu001")):
        assert one.conf(host, "set", "routing_engine=ar_updn", at_s=at_s).exit_status == 0
        one.say(host, *RESTART, at_s=at_s + 1)
    assert one.shares(a, 37.9, 38.2) == pytest.approx([1.0, 0.95], rel=0.001)
    for at_s, host in ((50.0, "gpu000"), (52.0, "gpu001")):
        assert one.conf(host, "undo", "routing_engine=x", at_s=at_s).stdout == f"undone {one.config}\n"
        one.say(host, *RESTART, at_s=at_s + 1)
    assert one.shares(b, 67.9, 68.2) == pytest.approx([0.95, 1.0], rel=0.001)
    assert forwarding(one).engine == "ftree"


def test_the_standby_alone_changes_nothing_until_it_is_master(pod):
    """Its own file counts when the master ends, for whatever reason."""
    one = governed(pod)
    one.conf("gpu001", "set", "routing_engine=ar_updn", at_s=1.0)
    one.say("gpu001", *RESTART, at_s=2.0)
    one.to(100.0)
    assert not forwarding(one).adaptive
    assert one.ask("gpu002", "sminfo", 100.0).stdout.startswith("sminfo: sm lid 19 ")
    one.say("gpu000", *RESTART, at_s=101.0)
    assert one.ask("gpu002", "sminfo", 102.0).stdout.startswith("sminfo: sm lid 27 ")
    one.to(115.9)
    assert not forwarding(one).adaptive
    one.to(116.2)
    assert forwarding(one).adaptive
    one.to(300.0)
    assert forwarding(one).adaptive  # at equal priority the restarted one stays behind


@pytest.mark.parametrize("how", ["pkill -HUP -x opensm", "systemctl reload opensm", "pkill -1 opensm"])
def test_a_signal_reads_shield_mode_but_not_the_routing_engine(pod, how):
    """OpenSM rereads only options that it can update."""
    one = governed(pod)
    one.conf("gpu000", "set", "routing_engine=ar_updn", "shield_mode=1", at_s=1.0)
    said = one.ask("gpu000", how, 2.0)
    assert said.exit_status == 0
    one.to(17.0)
    assert not forwarding(one).shield
    one.to(17.2)
    assert (forwarding(one).shield, forwarding(one).adaptive) == (True, False)


def test_shield_switched_on_moves_the_next_dead_port_in_time(pod):
    """One retry; before it was on, the manager's 15 s."""
    one = governed(pod)
    a = one.run(*A)
    one.ask("gpu001", "ibportstate 1 3 disable", 20.0)
    one.ask("gpu001", "ibportstate 1 3 on", 20.2)
    assert [end_s for _, end_s in one.silences(a, 50.0)] == [pytest.approx(20.05 + 4.295, abs=0.001)]
    one.conf("gpu000", "set", "shield_mode=1", at_s=60.0)
    one.say("gpu000", *HANG_UP, at_s=61.0)
    one.ask("gpu001", "ibportstate 1 3 disable", 80.0)
    assert [end_s for _, end_s in one.silences(a, 110.0)] == [pytest.approx(80.05 + 4.295, abs=0.001)]


def test_a_job_without_adaptive_routing_is_static_on_an_adaptive_fabric(pod):
    """NCCL_IB_ADAPTIVE_ROUTING=0: it meets the black hole, the one beside it does not. 1 adds nothing elsewhere."""
    one = governed(pod, "ar")
    static = one.run(*A, env={"NCCL_IB_ADAPTIVE_ROUTING": "0"})
    adaptive = one.run(*B)
    one.ask("gpu001", "ibportstate 1 3 disable", 20.0)
    assert one.shares(static, 20.1) == [0.0]
    assert one.shares(adaptive, 20.2)[0] > 0.9
    plain = governed(pod)
    asked = plain.run(*A, env={"NCCL_IB_ADAPTIVE_ROUTING": "1"})
    plain.ask("gpu001", "ibportstate 1 3 disable", 20.0)
    assert plain.shares(asked, 20.1) == [0.0]


def test_without_a_manager_nobody_reroutes(pod):
    """Both stopped: a dead link stays in the routes until one is back and has swept."""
    one = governed(pod)
    a = one.run(*A, env={"NCCL_IB_TIMEOUT": "22"})
    one.to(10.0)
    managers = one.world.rack.managers
    for host in ("gpu000", "gpu001"):
        managers.stop(host, 10.0)
    assert one.ask("gpu002", "sminfo", 13.0).exit_status == 255
    one.ask("gpu001", "ibportstate 1 3 disable", 20.0)
    assert one.shares(a, 60.0) == [0.0]
    managers.start("gpu001", 60.05)
    # Up at 61.05, swept at 76.05; the ring's retries are 17.2 s apart.
    assert [end_s for _, end_s in one.silences(a, 120.0)] == [pytest.approx(20.05 + 4 * 17.18, abs=0.01)]


URL = "https://ufm.example/ufmRest/app/unhealthy_ports"
GET = ("curl", "-n", "-k", "-sS", "-f", URL)


def inject(one, at_s, *, exponent=6, time=60000, port=3, kind=2):
    """Errors that the first leaf sends out of a port."""
    told = f"error_type_admin={kind},ber_mantissa=1,ber_exp={exponent},error_injection_time={time}"
    line = f"mlxreg -d lid-1 --reg_name PTER --indexes local_port={port},error_page=0 --yes --set {told}"
    assert one.ask("gpu001", line, at_s).exit_status == 0


def listed(one, at_s):
    """UFM's list."""
    return json.loads(one.say("gpu002", *GET, at_s=at_s).stdout)


def healthy(one, names, at_s):
    """Tell UFM that ports are healthy."""
    body = json.dumps({"ports": names, "ports_policy": "HEALTHY"})
    argv = ("curl", "-k", "-n", "-f", "-X", "PUT", "-H", "Content-Type: application/json", "-d", body, URL)
    return one.say("gpu002", *argv, at_s=at_s)


def state(one, at_s):
    """The logical state of the port that errs."""
    lines = one.ask("gpu001", "smpquery portinfo 1 3", at_s).stdout.splitlines()
    return next(line for line in lines if line.startswith("LinkState")).rpartition(".")[2]


def test_a_port_with_errors_is_isolated_after_a_minute_and_stays_so(pod):
    """Listed with its partner; opening it does not help, nor does the end of the errors; only telling UFM does."""
    one = pod(ufm_isolates=True)
    inject(one, 1.0, time=9000)
    assert listed(one, 60.0) == []
    (entry,) = listed(one, 62.0)
    assert entry["UnhealthyPort"] == f"{entry['UnhealthyGUID']}_{entry['UnhealthyPortNumber']}"
    assert (entry["UnhealthyNode"], entry["UnhealthyPortNumber"]) == ("spine0", 1)
    assert (entry["PeerNode"], entry["PeerPort"].rpartition("_")[2]) == ("u0-leaf0", "3")
    assert (entry["Condition"], entry["State"]) == ("HIGH_BER", "isolated")
    assert state(one, 63.0) == "Down"
    one.ask("gpu001", "ibportstate 1 3 on", 64.0)
    assert state(one, 80.0) == "Down"
    assert state(one, 120.0) == "Down"
    said = healthy(one, [entry["UnhealthyPort"]], 121.0)
    assert (said.exit_status, listed(one, 122.0)) == (0, [])
    assert state(one, 126.0) == "Active"


def test_short_errors_small_errors_and_host_ports_are_left_alone(pod):
    """Gone before a minute; 1e-13; an RNIC's cable. And a raw BER that the FEC takes away."""
    one = pod(ufm_isolates=True)
    inject(one, 1.0, time=3000)
    inject(one, 2.0, port=4, exponent=13)
    inject(one, 3.0, port=1)
    inject(one, 40.0, exponent=5, kind=1)
    assert listed(one, 200.0) == []


def test_what_ufm_does_not_understand_it_refuses(pod):
    """22 with ``-f``; its reason without."""
    one = pod(ufm_isolates=True)
    body = json.dumps({"ports": ["feed_1"], "ports_policy": "HEALTHY"})
    assert one.say("gpu002", "curl", "-k", "-f", "-X", "PUT", "-d", body, URL, at_s=1.0).exit_status == 22
    assert one.say("gpu002", "curl", "-k", "-X", "PUT", "-d", body, URL, at_s=1.5).stdout
