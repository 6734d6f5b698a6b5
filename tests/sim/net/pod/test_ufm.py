"""A UFM that isolates switch ports with many bit errors, and keeps them so."""

from __future__ import annotations

import json

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
    lines = one.ask("gpu001", "ibportstate 1 3", at_s).stdout.splitlines()
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
    one.ask("gpu001", "ibportstate 1 3 enable", 64.0)
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
    for number, body in enumerate(("nonsense", "{}", '{"ports": ["feed_1"], "ports_policy": "HEALTHY"}', "[1]")):
        said = one.say("gpu002", "curl", "-k", "-f", "-X", "PUT", "-d", body, URL, at_s=1.0 + number)
        assert said.exit_status == 22
        assert one.say("gpu002", "curl", "-k", "-X", "PUT", "-d", body, URL, at_s=1.5 + number).stdout
    assert one.say("gpu002", "curl", "-k", "-f", "-X", "POST", "-d", "x", URL, at_s=20.0).exit_status == 22
