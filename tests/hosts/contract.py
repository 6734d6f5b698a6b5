"""What every executor must do; subclass it once per executor, with an ``executor`` fixture."""

import json

import pytest

from benchmarks.lab.processes import until
from fabric.errors import CommandTimeout, HostUnreachable
from fabric.ports import Ended, Executor, Lost, Ready, run_once
from tests.hosts.programs import Programs, collected


class ExecutorContract(Programs):
    """Every test holds for every backend, but for programs that it does not have."""

    @pytest.mark.parametrize("status", [0, 1, 124, 255])
    def test_exit_status_is_an_answer(self, executor: Executor, status: int) -> None:
        """A tool's own status is reported, even one that other programs use for timeouts and signals."""
        assert run_once(executor, self.command(self.exits(status))).exit_status == status

    @pytest.mark.parametrize("number", [9, 15])
    def test_death_by_signal_is_128_plus_its_number(self, executor: Executor, number: int) -> None:
        """A tool ended by a signal has the status a shell gives it."""
        result = run_once(executor, self.command(self.signalled(number)))
        assert (result.exit_status, result.stderr) == (128 + number, "")

    def test_missing_tool_is_127(self, executor: Executor) -> None:
        """A tool that is not installed is an answer, as in a shell."""
        assert run_once(executor, self.command(("fabric-no-such-tool", "-x"))).exit_status == 127

    def test_output_is_kept_apart(self, executor: Executor) -> None:
        """Stdout and stderr come back each by itself, complete."""
        result = run_once(executor, self.command(self.floods(5, 7)))
        assert (result.stdout, result.stderr, result.truncated) == ("ooooo", "eeeeeee", False)

    def test_result_knows_its_command_and_times(self, executor: Executor) -> None:
        """A result names its command, and started before it ended."""
        command = self.command(self.says("hello"))
        before_s = executor.now()
        result = run_once(executor, command)
        assert (result.command, result.stdout) == (command, "hello\n")
        assert before_s <= result.started_s <= result.ended_s <= executor.now()

    def test_argv_arrives_unsplit(self, executor: Executor) -> None:
        """Spaces, quotes, dollars, newlines, other alphabets, nothing, and dashes reach the tool as they are."""
        words = (
            "a b",
            "it's",
            'say "x"',
            "$HOME `id` $(id)",
            "two\nlines",
            "grün 光",
            "",
            "-n",
            "--",
            "\\n*?[!",
            "a;b&c|d",
        )
        result = run_once(executor, self.command(self.repeats(words)))
        assert json.loads(result.stdout) == list(words)

    def test_nul_is_refused(self, executor: Executor) -> None:
        """A NUL, which would cut an argument short unseen, is a ValueError of the caller."""
        with pytest.raises(ValueError, match="NUL"):
            executor.start(self.command(("echo", "a\0b")))

    def test_environment_reaches_the_tool(self, executor: Executor) -> None:
        """Environment variables arrive unsplit too."""
        command = self.command(self.shows_variable("NCCL_IB_HCA"), env=(("NCCL_IB_HCA", "=mlx5_1:1 $x 'y'"),))
        assert run_once(executor, command).stdout == "=mlx5_1:1 $x 'y'"

    def test_a_tool_speaks_the_language_in_which_it_is_read(self, executor: Executor) -> None:
        """In another locale of the account, cat says of a missing file what no reader knows."""
        assert run_once(executor, self.command(self.shows_variable("LC_ALL"))).stdout == "C"
        chosen = self.command(self.shows_variable("LC_ALL"), env=(("LC_ALL", "POSIX"),))
        assert run_once(executor, chosen).stdout == "POSIX"

    def test_much_stderr_and_no_stdout_does_not_hang(self, executor: Executor) -> None:
        """Three megabytes of stderr, beyond every window and pipe, arrive whole."""
        result = run_once(executor, self.command(self.floods(0, 3_000_000), output_cap_bytes=8 << 20))
        assert (len(result.stdout), len(result.stderr), result.truncated) == (0, 3_000_000, False)

    def test_output_beyond_the_cap_is_cut_and_marked(self, executor: Executor) -> None:
        """Only the beginning is kept, and the result says so."""
        result = run_once(executor, self.command(self.floods(3_000_000, 1_000_000), output_cap_bytes=1000))
        assert (result.stdout, result.stderr, result.truncated) == ("o" * 1000, "e" * 1000, True)

    def test_output_of_exactly_the_cap_is_whole(self, executor: Executor) -> None:
        """The cap itself is still allowed."""
        result = run_once(executor, self.command(self.floods(1000, 1000), output_cap_bytes=1000))
        assert (result.stdout, result.stderr, result.truncated) == ("o" * 1000, "e" * 1000, False)

    def test_deadline_is_a_command_timeout_with_what_was_printed(self, executor: Executor) -> None:
        """A command that exceeds its deadline is lost, but what it had said is not."""
        with pytest.raises(CommandTimeout) as caught:
            run_once(executor, self.command(self.lingers(), timeout_s=0.5))
        assert (caught.value.stdout, caught.value.timeout_s, caught.value.host) == (self.begun, 0.5, self.host)

    def test_deadline_ends_even_what_ignores_term(self, executor: Executor) -> None:
        """At the deadline all descendants are ended, also those that ignore TERM."""
        token, command = self.marked(self.stubborn(), timeout_s=0.3)
        with pytest.raises(CommandTimeout):
            run_once(executor, command)
        assert until(lambda: not self.left(token)), self.left(token)

    def test_child_left_behind_does_not_hang_and_is_ended(self, executor: Executor) -> None:
        """A command is over when it ends, and what it left behind ends with it."""
        token, command = self.marked(self.leaves_child(), timeout_s=30)
        result = run_once(executor, command)
        assert (result.exit_status, result.stdout) == (3, "begun\n")
        assert until(lambda: not self.left(token)), self.left(token)

    def test_cancel_ends_a_command(self, executor: Executor) -> None:
        """A cancelled command answers with what it had said; nothing of it is left."""
        token, command = self.marked(self.lingers(), timeout_s=50)
        ticket = executor.start(command)
        self.let_begin(executor, token)
        executor.cancel(ticket)
        (last,) = collected(executor, [ticket])[ticket]
        assert isinstance(last, Ended)
        assert (last.result.stdout, last.result.exit_status) == (self.begun, self.cancelled)
        assert until(lambda: not self.left(token)), self.left(token)

    def test_cancel_at_once_still_tells_the_end_once(self, executor: Executor) -> None:
        """A command cancelled before it began also has exactly one end."""
        tickets = [executor.start(self.command(self.lingers(), timeout_s=50)) for _ in range(3)]
        for ticket in tickets:
            executor.cancel(ticket)
            executor.cancel(ticket)
        for happened in collected(executor, tickets).values():
            assert [type(one) in (Ended, Lost) for one in happened] == [True]

    def test_cancelling_what_has_ended_or_never_was_is_nothing(self, executor: Executor) -> None:
        """Unknown tickets are passed over."""
        ticket = executor.start(self.command(self.nothing()))
        collected(executor, [ticket])
        executor.cancel(ticket)
        executor.cancel(987_654_321)
        assert run_once(executor, self.command(self.nothing())).exit_status == 0

    def test_close_ends_everything(self, executor: Executor) -> None:
        """Letting go of the executor leaves no process behind, and closing twice is no harm."""
        token, command = self.marked(self.lingers(), timeout_s=50)
        executor.start(command)
        self.let_begin(executor, token)
        executor.close()
        assert until(lambda: not self.left(token)), self.left(token)
        executor.close()

    def test_server_is_ready_when_it_listens_and_not_before(self, executor: Executor) -> None:
        """Ready comes once the port is listened on; then the server runs on until cancelled."""
        port = self.free_port()
        token, command = self.marked(self.serves(port, self.listen_s), timeout_s=40, ready_port=port)
        begun_s = executor.now()
        ticket = executor.start(command)
        (ready,) = executor.wait(begun_s + 30)
        assert isinstance(ready, Ready)
        assert ready.ticket == ticket
        assert ready.at_s >= begun_s + self.listen_s
        executor.cancel(ticket)
        (last,) = collected(executor, [ticket])[ticket]
        assert isinstance(last, Ended)
        assert until(lambda: not self.left(token)), self.left(token)

    def test_server_that_never_listens_is_never_ready(self, executor: Executor) -> None:
        """A server that ends before it listens only ends."""
        ticket = executor.start(self.command(self.exits(7), ready_port=self.free_port()))
        (last,) = collected(executor, [ticket])[ticket]
        assert isinstance(last, Ended)
        assert last.result.exit_status == 7

    def test_twenty_four_commands_at_once_on_one_host(self, executor: Executor) -> None:
        """A host may need many commands at once; each gets its own answer, once."""
        asked = {executor.start(self.command(self.says(f"number {n}"))): f"number {n}\n" for n in range(24)}
        for ticket, happened in collected(executor, asked).items():
            (last,) = happened
            assert isinstance(last, Ended), last
            assert last.result.stdout == asked[ticket]

    def test_unreachable_host_is_lost_while_others_go_on(self, executor: Executor) -> None:
        """A dead host costs its own commands and nobody else's."""
        if self.dead_host is None:
            pytest.skip(self.absent)
        dead = [executor.start(self.command(self.nothing(), host=self.dead_host)) for _ in range(3)]
        alive = executor.start(self.command(self.says("alive")))
        happened = collected(executor, [*dead, alive])
        assert [type(one) for one in happened[alive]] == [Ended]
        for ticket in dead:
            (last,) = happened[ticket]
            assert isinstance(last, Lost)
            assert isinstance(last.error, HostUnreachable)
            assert last.error.host == self.dead_host

    def test_wait_returns_at_its_time_when_nothing_happens(self, executor: Executor) -> None:
        """Waiting ends by the clock, which never goes back."""
        begun_s = executor.now()
        assert list(executor.wait(begun_s + 0.05)) == []
        assert executor.now() >= begun_s + 0.05
        assert list(executor.wait(begun_s)) == []
