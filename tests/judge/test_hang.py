"""Who a job waits for, from what its ranks tell."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.judge.hang import ANOTHER_JOB_NS, FROZEN_S, judge_hang
from fabric.model.hang import Call, CallState, HangKind, HangSuspect, JobEvidence, Place, RankTrace
from fabric.model.outcome import Outcome

WORLD = "0 (default_pg)"
FAIL, MAYBE, PASS = Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS


def call(state=CallState.OVER, op="all_reduce", elements=32, at_ns=None):
    return Call(op, (elements,), ("Float",), state, at_ns)


def rank(number, *calls, group=WORLD, ranks=4, first=1):
    """A rank that called these, in this order, in a group of so many ranks."""
    own = dict(enumerate(calls, start=first))
    called = first + len(calls) - 1
    waits = [at for at, one in own.items() if one.state.value < CallState.OVER.value]
    return RankTrace(number, group, called, min(waits, default=called + 1), own, frozenset(range(ranks)))


def judged(*traces, **others):
    return judge_hang(JobEvidence(traces, **others))


def suspects(hang):
    return [(one.rank, one.kind, one.outcome) for one in hang.suspects]


WAITS = call(CallState.CALLED)
OVER = call()


def test_the_rank_that_did_not_call_what_the_others_wait_in_is_certain():
    found = judged(rank(0, OVER, WAITS), rank(1, OVER, WAITS), rank(2, OVER), rank(3, OVER, WAITS))
    assert (found.outcome, suspects(found)) == (FAIL, [(2, HangKind.ABSENT, FAIL)])
    (standing,) = found.standstills
    assert (standing.number, standing.op, standing.absent, standing.unfinished) == (2, "all_reduce", (2,), (0, 1, 3))


def test_nothing_is_wrong_where_all_that_was_called_is_over():
    assert judged(*(rank(number, OVER, OVER) for number in range(4))).outcome is PASS


def test_it_is_no_pass_where_nothing_says_how_many_ranks_there_are():
    found = judged(RankTrace(0, WORLD, 1, 2, {1: OVER}), RankTrace(1, WORLD, 1, 2, {1: OVER}))
    assert (found.outcome, found.all_known) == (MAYBE, False)


def test_an_absent_rank_is_not_certain_where_nothing_says_how_many_ranks_there_are():
    found = judged(RankTrace(0, WORLD, 2, 2, {1: OVER, 2: WAITS}), RankTrace(1, WORLD, 1, 2, {1: OVER}))
    assert suspects(found) == [(1, HangKind.ABSENT, MAYBE)]


def test_a_rank_that_others_left_behind_and_nobody_waits_for_has_an_old_dump():
    after = [rank(number, OVER, OVER, OVER, WAITS) for number in (0, 1, 3)]
    assert suspects(judged(*after, rank(2, OVER))) == [(2, HangKind.ABSENT, MAYBE)]
    done = call(CallState.COMPLETED)
    assert suspects(judged(*(rank(number, done, done) for number in (0, 1, 3)), rank(2, done))) == [
        (2, HangKind.ABSENT, MAYBE)
    ]


def test_nothing_told_is_no_pass():
    assert judged().outcome is MAYBE


def test_no_rank_is_named_where_all_wait_in_the_same_collective():
    found = judged(*(rank(number, OVER, WAITS) for number in range(4)))
    assert (found.outcome, suspects(found)) == (MAYBE, [])
    assert found.standstills[0].unfinished == (0, 1, 2, 3)


def test_a_rank_that_only_was_not_collected_is_never_certain():
    found = judged(*(rank(number, OVER, WAITS) for number in (0, 1, 3)))
    assert suspects(found) == [(2, HangKind.SILENT, MAYBE)]


def test_a_rank_without_a_dump_is_named_also_where_all_others_gave_up():
    found = judged(*(rank(number, OVER, OVER) for number in (0, 1, 3)))
    assert (found.outcome, suspects(found)) == (MAYBE, [(2, HangKind.SILENT, MAYBE)])


def test_an_absent_rank_is_not_certain_beside_one_that_tells_nothing():
    found = judged(rank(0, OVER, WAITS), rank(1, OVER), rank(3, OVER, WAITS))
    assert suspects(found) == [(1, HangKind.ABSENT, MAYBE), (2, HangKind.SILENT, MAYBE)]


def test_the_one_of_four_that_called_something_else_is_certain():
    other = call(CallState.OVER, "broadcast")
    found = judged(rank(0, OVER, WAITS), rank(1, OVER, WAITS), rank(2, OVER, other), rank(3, OVER, WAITS))
    assert suspects(found) == [(2, HangKind.DIFFERENT, FAIL)]
    assert found.suspects[0].said.startswith("broadcast")
    assert found.suspects[0].others.startswith("all_reduce")


def test_two_against_one_are_not_certain_where_the_fourth_is_silent_and_nothing_was_called_before():
    odd = call(CallState.CALLED, elements=40)
    found = judged(rank(0, WAITS), rank(1, odd), rank(3, WAITS))
    assert suspects(found) == [(1, HangKind.DIFFERENT, MAYBE)]


def test_they_are_certain_where_the_job_called_the_same_before():
    odd = call(CallState.CALLED, elements=40)
    found = judged(rank(0, OVER, WAITS), rank(1, OVER, odd), rank(3, OVER, WAITS))
    assert suspects(found) == [(1, HangKind.DIFFERENT, FAIL)]


def test_of_two_ranks_the_one_that_called_what_was_never_called_may_be_wrong():
    odd = call(CallState.CALLED, elements=40)
    found = judged(rank(0, OVER, WAITS, ranks=2), rank(1, OVER, odd, ranks=2))
    assert suspects(found) == [(1, HangKind.DIFFERENT, MAYBE)]


def test_both_may_be_wrong_where_nothing_tells_which():
    found = judged(rank(0, WAITS, ranks=2), rank(1, call(CallState.CALLED, elements=40), ranks=2))
    assert suspects(found) == [(0, HangKind.DIFFERENT, MAYBE), (1, HangKind.DIFFERENT, MAYBE)]


def test_unequal_parts_of_what_was_completed_are_nothing():
    done = [call(CallState.COMPLETED, "all_gather", 10 + number) for number in range(4)]
    found = judged(*(rank(number, done[number], OVER) for number in range(4)))
    assert found.outcome is PASS


def test_a_difference_before_the_standstill_is_its_cause():
    traces = [rank(number, OVER, OVER, WAITS) for number in (0, 1, 3)]
    found = judged(*traces, rank(2, OVER, call(elements=40), OVER))
    assert suspects(found) == [(2, HangKind.DIFFERENT, FAIL)]
    assert found.standstills[0].number == 2


def test_a_rank_that_waits_in_another_group_is_a_consequence():
    pair = {"group": "1 (half)", "ranks": 2}
    found = judged(
        *(rank(number, OVER, WAITS) for number in (2, 3)),
        *(rank(number, OVER) for number in (0, 1)),
        rank(0, WAITS, **pair),
        RankTrace(1, "1 (half)", 0, 1, {}, frozenset({0, 1})),
    )
    assert suspects(found) == [(1, HangKind.ABSENT, FAIL)]


def test_a_rank_that_gave_up_because_a_peer_went_away_is_a_consequence():
    traces = [rank(0, OVER, WAITS), rank(1, OVER), rank(3, OVER, WAITS)]
    found = judged(*traces, gave_up=frozenset({1}))
    assert suspects(found) == [(2, HangKind.SILENT, MAYBE)]


def test_ranks_that_wait_for_each_other_may_all_be_wrong():
    pairs = {"ranks": 2}
    found = judged(
        rank(0, WAITS, group="a", **pairs),
        RankTrace(1, "a", 0, 1, {}, frozenset({0, 1})),
        rank(1, WAITS, group="b", **pairs),
        RankTrace(0, "b", 0, 1, {}, frozenset({0, 1})),
    )
    assert suspects(found) == [(0, HangKind.ABSENT, MAYBE), (1, HangKind.ABSENT, MAYBE)]


def test_a_rank_that_did_not_begin_what_others_began_may_be_behind():
    begun = call(CallState.STARTED)
    found = judged(*(rank(number, begun) for number in (0, 1, 3)), rank(2, WAITS))
    assert suspects(found) == [(2, HangKind.UNFINISHED, MAYBE)]


def test_a_dump_of_another_job_is_left_out():
    def at(number, *times):
        return rank(number, *(call(CallState.OVER, at_ns=one) for one in times))

    traces = [at(number, 0, 10) for number in (0, 1, 3)]
    found = judged(*traces, at(2, -2 * ANOTHER_JOB_NS))
    assert suspects(found) == [(2, HangKind.SILENT, MAYBE)]
    assert found.notes == ("rank 2: its dump is of another time, and left out",)


def test_clocks_that_are_hours_apart_leave_no_pass():
    """Half of the ranks on a machine with another clock, or each on its own: the others are not told of."""

    def at(number, hours, state):
        at_ns = hours * ANOTHER_JOB_NS
        return rank(number, call(at_ns=at_ns), call(state, at_ns=at_ns + 1))

    for state in (CallState.OVER, CallState.CALLED):
        for clocks in ((5, 5, 0, 0), (0, 0, 5, 5), (0, 5, 10, 15)):
            found = judged(*(at(number, hours, state) for number, hours in enumerate(clocks)))
            assert found.outcome is MAYBE
            assert len(found.notes) == 4 - clocks.count(max(clocks))
    found = judged(*(at(number, 5 * (number > 1), CallState.CALLED) for number in range(3)), rank(3, OVER))
    assert (3, HangKind.ABSENT, MAYBE) in suspects(found)


def counted(*launched, at_s=None):
    return [
        RankTrace(number, "communicator 1", count, count + 1, at_s=at_s, counted=True)
        for number, count in enumerate(launched)
    ]


def test_one_answer_of_ras_is_never_certain_and_two_alike_are():
    once = judged(*counted(7, 7, 6, 7, at_s=0.0))
    assert suspects(once) == [(2, HangKind.ABSENT, MAYBE)]
    twice = judged(*counted(7, 7, 6, 7, at_s=0.0), *counted(7, 7, 6, 7, at_s=FROZEN_S))
    assert suspects(twice) == [(2, HangKind.ABSENT, FAIL)]


def test_a_job_that_goes_on_between_two_answers_of_ras_does_not_hang():
    found = judged(*counted(7, 7, 6, 7, at_s=0.0), *counted(8, 8, 8, 7, at_s=FROZEN_S))
    assert found.outcome is PASS


def test_what_ras_gave_up_is_certain_and_what_it_did_not_reach_is_not():
    found = judged(*counted(7, 7), lost=frozenset({2, 3}), dead=frozenset({3}))
    assert suspects(found) == [(3, HangKind.DEAD, FAIL), (2, HangKind.SILENT, MAYBE)]


STATES = st.sampled_from(CallState)
CALLS = st.builds(Call, st.sampled_from(["a", "b"]), st.just((1,)), st.just(()), STATES, st.none() | st.integers(0, 9))
TRACES = st.builds(
    RankTrace,
    st.integers(0, 5),
    st.sampled_from([WORLD, "g"]),
    st.integers(0, 6),
    st.integers(0, 7),
    st.dictionaries(st.integers(0, 6), CALLS, max_size=4),
    st.frozensets(st.integers(0, 5)),
)


@given(st.lists(TRACES, max_size=8, unique_by=lambda one: (one.rank, one.group)), st.frozensets(st.integers(0, 5)))
@settings(deadline=None)
def test_whatever_is_told_fail_names_somebody_and_a_pass_nobody(traces, gave_up):
    found = judged(*traces, gave_up=gave_up, places={0: Place("a"), 1: Place("b")})
    assert (found.outcome is FAIL) == any(one.outcome is FAIL for one in found.suspects)
    assert found.outcome is not PASS or not (found.suspects or found.standstills)


def test_the_hosts_of_certain_suspects_are_tested_with_their_neighbours_in_the_ring():
    places = {number: Place(f"gpu{number // 2}", number % 2) for number in range(8)}
    traces = [rank(number, OVER, *([] if number == 4 else [WAITS]), ranks=8) for number in range(8)]
    found = judged(*traces, places=places)
    assert found.hosts == ("gpu2",)
    assert [(one.a, one.b) for one in found.next_tests] == [("gpu2", "gpu1"), ("gpu2", "gpu3")]


def test_both_ends_of_what_failed_are_tested_with_each_other():
    failures = tuple(HangSuspect(HangKind.FAILED, MAYBE, host=a, said="x", others=b) for a, b in ("ab", "ba"))
    found = judged(failures=failures)
    assert [(one.a, one.b) for one in found.next_tests] == [("a", "b")]
