"""What is not cleared yet although nothing accuses it."""

from dataclasses import replace

from fabric.judge.locate.pairs.fitted import fit
from fabric.judge.locate.pairs.rounds import not_crossed
from fabric.judge.locate.structure import UNKNOWN
from tests.judge.locate.pairs.test_findings import measured

ROUTES = {
    (f"leaf{leaf}", f"h{host}"): f"spine{host % 2}" for leaf in range(4) for host in range(16) if host // 4 != leaf
}


def without(samples, drop):
    """Fewer samples."""
    keep = ~drop
    return replace(samples, a=samples.a[keep], b=samples.b[keep], gbps=samples.gbps[keep], via=samples.via[keep])


def good(**slow):
    return measured(lambda a, b, la, lb, s: 0.3 * (a == slow.get("sender") or b == slow.get("receiver")), one_way=True)


def kinds(samples, routes):
    fitted = fit(replace(samples, routes=routes))
    return [(fitted.components.kinds[c], fitted.components.names[c]) for c in not_crossed(fitted)]


def test_all_pairs_both_ways_clear_everything():
    assert kinds(good(), ROUTES) == []


def test_an_uplink_that_nobody_sent_over_is_not_cleared_in_that_direction():
    samples = good()
    drop = (samples.leaf[samples.a] == 2) & (samples.via == 1)
    assert kinds(without(samples, drop), ROUTES) == [("link_up", "leaf2--spine1")]


def test_an_uplink_that_no_route_leads_over_is_not_asked_for():
    samples = good()
    drop = (samples.leaf[samples.a] == 2) & (samples.via == 1)
    other = {key: ("spine0" if key[0] == "leaf2" else spine) for key, spine in ROUTES.items()}
    assert kinds(without(samples, drop), other) == []
    assert kinds(without(samples, drop), {}) == []


def test_a_host_that_never_sent_is_not_cleared_in_that_direction():
    samples = good()
    assert kinds(without(samples, samples.a == 5), ROUTES) == [("host_tx", "h5:tx")]


def test_what_a_bad_part_hides_is_not_asked_for():
    """Nothing that is sent by h5 is good, whichever uplink it takes; h5 is bad, and that is all."""
    assert kinds(good(sender=5), ROUTES) == []


def test_uplinks_to_a_bad_spine_are_not_asked_for():
    samples = measured(lambda a, b, la, lb, s: 0.3 * (s == 1), one_way=True)
    assert kinds(samples, ROUTES) == []


def test_an_uplink_to_a_bad_host_alone_is_not_asked_for():
    """The spine sends down that cable to nobody else, and what it sends is slow for the host's sake."""
    samples = measured(lambda a, b, la, lb, s: 0.3 * (5 in (a, b)), one_way=True)
    into = (samples.leaf[samples.b] == 1) & (samples.via == 1) & (samples.b != 5)
    routes = {key: ("spine1" if key[1] == "h5" else "spine0") for key in ROUTES}
    assert kinds(without(samples, into), routes) == []
    assert ("link_down", "leaf1--spine1") in kinds(without(samples, into), ROUTES)


def test_samples_that_do_not_say_who_sent_have_no_directions():
    samples = measured(lambda a, b, la, lb, s: 0.0)
    assert kinds(without(samples, samples.via == 1), ROUTES) == []
    assert UNKNOWN not in samples.via[samples.crosses]
