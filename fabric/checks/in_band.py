"""Whether ``via`` reaches the switches, and UFM, as changes will: by its port, the M_Key and the certificate."""

from __future__ import annotations

from collections.abc import Iterator

from fabric.checks.ask import Argv, excuse, quoted
from fabric.checks.kind import HostCheck, Looked, problem, unknown
from fabric.checks.needs import HostNeeds
from fabric.errors import ToolError, UnreadableOutput
from fabric.model.finding import Finding
from fabric.model.topology import Host
from fabric.tools import infiniband, management

_WHY = "changes close ports of switches, read their counters, or read UFM's list before and after"


def _ask(_host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """The subnet manager that the port knows, and UFM's list of unhealthy ports; neither alters anything."""
    return needs.in_band


def _read(looked: Looked) -> Iterator[Finding]:
    """What does not answer, and which key of the inventory would mend it."""
    for argv in looked.needs.in_band:
        answer, ufm = looked.answers[argv], argv[0] == "curl"
        said = (answer.stdout, answer.stderr, answer.exit_status)
        if answer.lost or answer.absent:
            yield unknown(f"{argv[-1] if ufm else 'sminfo'}: {excuse(answer)}", _WHY, "run it by hand there")
            continue
        try:
            management.read_unhealthy(*said) if ufm else infiniband.read_subnet_manager(*said)
        except (ToolError, UnreadableOutput) as exc:
            advice = (
                "write m_key under changes: where ports are protected, via_device where it goes out of another port"
            )
            advice = (
                "write ufm_ca under changes: (a file on this host), and its account into ~/.netrc" if ufm else advice
            )
            yield problem(f"{'UFM' if ufm else 'the fabric'} does not answer: {quoted(str(exc))}", _WHY, advice)


IN_BAND = HostCheck("in-band", _ask, _read)
