"""What our account may do on a host: call programs as root, lock memory, log in to its neighbour, reach switches."""

import re
from collections.abc import Iterator

from fabric.checks.kind import Argv, HostAnswer, HostCheck, HostNeeds, Looked, excuse, problem, quoted, unknown, warning
from fabric.errors import ToolError
from fabric.model.finding import Finding
from fabric.model.text import size_text
from fabric.model.topology import Host
from fabric.tools import infiniband, management
from fabric.tools.driver import word

STATUS = ("cat", "/proc/self/status")
WHO = ("id", "-un")
# sudo's own search path, as it is compiled in and as distributions set secure_path.
_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_UID = re.compile(r"^Uid:\s*[0-9]+\s+([0-9]+)\s", re.MULTILINE | re.ASCII)
_ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}", re.ASCII)
_WHY = "changes of the fabric, and looking at it, need root"
_REFUSED = ("password is required", "not allowed", "may not run", "unknown user", "no tty present", "a terminal is")
_NOT_FOUND = ("command not found", "no such file")

LIMITS = ("cat", "/proc/self/limits", "/proc/self/status")
_LIMIT = re.compile(r"^Max locked memory +(unlimited|[0-9]{1,20}) +(unlimited|[0-9]{1,20}) +bytes", re.M | re.ASCII)
_CAPABILITIES = re.compile(r"^CapEff:\s*([0-9a-f]{16})$", re.MULTILINE | re.ASCII)
_CAP_IPC_LOCK = 1 << 14
"""The capability CAP_IPC_LOCK: its owner is not held to the limit (linux/capability.h; ib_umem_get asks for it)."""

_TROUBLES = (
    ("Host key verification failed", "this account does not know the host key of its neighbour",
     "fill /etc/ssh/ssh_known_hosts (ssh-keyscan), or use host certificates"),
    ("Permission denied", "its neighbour wants a password", "give this account a key, and put it in authorized_keys"),
    ("Could not resolve hostname", "it does not know its neighbour by the name that the inventory has",
     "make the names of the inventory known to the hosts (DNS or /etc/hosts)"),
)  # fmt: skip


def _ask_root(_host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Ask sudo about each program; ``sudo -l PROGRAM`` runs nothing, it only says whether it would."""
    if not _programs(needs):
        return ()
    if not needs.sudo:
        return (STATUS,)
    return (WHO, _where(needs), *(_may(name) for name in _programs(needs)))


def _read_root(looked: Looked) -> Iterator[Finding]:
    """Report programs that sudo refuses (with the line for sudoers), missing programs, and a missing root login."""
    needs = looked.needs
    if not needs.sudo:
        yield from _as_we_are(looked.answers[STATUS])
        return
    refused: list[str] = []
    for name in _programs(needs):
        answer = looked.answers[_may(name)]
        text = answer.text.lower()
        if answer.absent:
            yield problem("sudo is not there", _WHY, "install it, or log in as root")
            return
        if answer.exit_status == 0:
            continue
        if any(words in text for words in _NOT_FOUND):
            yield problem(f"root has no program {name}", _WHY, f"install it, on {':'.join(_FOLDERS)}")
        elif not answer.lost and (any(words in text for words in _REFUSED) or not text.strip()):
            refused.append(name)  # older versions print nothing at all, and exit 1
        else:
            yield unknown(f"whether sudo allows {name} was not said: {excuse(answer)}", _WHY, f"sudo -n -l {name}")
    if refused:
        yield _refusal(looked, refused)


def sudoers_line(account: str, paths: list[str]) -> str:
    """Return one line for sudoers. A path without arguments allows every argument, so no wildcard is needed."""
    return f"{account} ALL=(root) NOPASSWD: {', '.join(paths)}"


def _programs(needs: HostNeeds) -> tuple[str, ...]:
    """
    Return the programs that root must run; ``sh`` is one where a guard is used, because the guard is a shell text.
    """
    return (("sh",) if needs.alters.guarded else ()) + needs.alters.programs


def _may(name: str) -> Argv:
    return ("sudo", "-n", "-l", name)


def _where(needs: HostNeeds) -> Argv:
    return ("ls", *(path for name in _programs(needs) for path in _candidates(name)))


def _candidates(name: str) -> list[str]:
    """Return the paths where a program may be, in the order in which sudo searches them."""
    return [name] if name.startswith("/") else [f"{folder}/{name}" for folder in _FOLDERS]


def _as_we_are(answer: HostAnswer) -> Iterator[Finding]:
    uid = _UID.search(answer.stdout)
    if uid is None:
        yield unknown(f"as whom commands run was not said: {excuse(answer)}", _WHY, "id there")
    elif uid[1] != "0":
        advice = "write 'sudo: true' under changes: in the inventory and check again, or log in as root"
        yield problem(f"commands run as user {uid[1]}, not as root", _WHY, advice)


def _refusal(looked: Looked, refused: list[str]) -> Finding:
    there = looked.answers[_where(looked.needs)].stdout.split()
    known = {name: next((path for path in _candidates(name) if path in there), None) for name in refused}
    paths = [path for path in known.values() if path is not None]
    unplaced = [name for name, path in known.items() if path is None]
    login = looked.answers[WHO].stdout.strip()
    account = login if _ACCOUNT.fullmatch(login) else "ACCOUNT"
    advice = f"visudo -f /etc/sudoers.d/fabric: {sudoers_line(account, paths)}" if paths else "install them"
    if unplaced:
        advice += f" (not found there: {quoted(', '.join(unplaced))})"
    if "sh" in refused:
        advice += " -- sh is the guard that undoes changes; it makes this account as good as root on this host"
    return problem(f"sudo does not let it run without a password: {', '.join(refused)}", _WHY, advice)


ROOT = HostCheck("root", _ask_root, _read_root)


def _read_memlock(looked: Looked) -> Iterator[Finding]:
    """Report a limit below what the largest of the scenario's programs locks."""
    answer, needed = looked.answers[LIMITS], looked.needs.pinned_bytes
    limit = _LIMIT.search(answer.stdout)
    if not limit:
        what = f"the limit of locked memory was not said: {excuse(answer)}"
        yield unknown(what, "RDMA locks its buffers", "ulimit -l there")
        return
    capabilities = _CAPABILITIES.search(answer.stdout)
    free = capabilities is not None and int(capabilities[1], 16) & _CAP_IPC_LOCK
    if limit[1] != "unlimited" and not free and int(limit[1]) < needed:
        yield problem(
            f"programs may lock {size_text(int(limit[1]))}B of memory, {size_text(needed)}B are needed",
            "buffers cannot be registered (Couldn't allocate MR, ibv_reg_mr: Cannot allocate memory)",
            "'* - memlock unlimited' in /etc/security/limits.d, and LimitMEMLOCK=infinity for slurmd and sshd;"
            " log in anew",
        )


MEMLOCK = HostCheck("memlock", lambda _host, needs: (LIMITS,) if needs.pinned_bytes else (), _read_memlock)


def _ask_login(_host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Ask each host to log in to the next one, the last to the first: so every host is tried from one and to one."""
    return () if needs.peer is None else (_log_in(needs.peer),)


def _read_login(looked: Looked) -> Iterator[Finding]:
    """Report that a login without a password, as mpirun makes it, failed, and which part of it failed."""
    peer = looked.needs.peer or ""
    answer = looked.answers[_log_in(peer)]
    why = "mpirun starts its processes over ssh"
    if answer.absent:
        yield problem("cannot log in to another host: ssh is not there", why, "try it by hand")
    elif answer.lost:
        yield unknown(f"cannot log in to another host: {excuse(answer)}", why, "try it by hand")
    elif answer.exit_status != 0:
        nameless = excuse(answer).replace(peer, "HOST")  # so that equal troubles of many hosts are folded
        advice = "try it by hand; plm_rsh_agent under mpirun_options names another way"
        other = (f"it cannot log in to its neighbour: {nameless}", advice)
        what, advice = next(((what, advice) for text, what, advice in _TROUBLES if text in answer.text), other)
        yield problem(what, why, advice)


def _log_in(peer: str) -> Argv:
    return ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", word(peer, "host"), "true")


LOGIN = HostCheck("login", _ask_login, _read_login)


_WHY_IN_BAND = "changes close ports of switches, read their counters, or read UFM's list before and after"


def _read_in_band(looked: Looked) -> Iterator[Finding]:
    """
    Report which of the subnet manager, UFM and its telemetry do not answer, and which inventory key would mend it.
    """
    for argv in looked.needs.in_band:
        answer, ufm = looked.answers[argv], argv[0] == "curl"
        output = (answer.stdout, answer.stderr, answer.exit_status)
        if argv[-1].endswith(management.TELEMETRY):
            if answer.exit_status != 0:
                advice = (
                    "let UFM's telemetry listen on 0.0.0.0, or make UFM's own host via; fine where mlxlink is answered"
                )
                why = "modules and bit errors of switch ports are then asked port by port alone, through the fabric"
                yield warning(f"UFM's telemetry does not answer: {excuse(answer)}", why, advice)
            continue
        if answer.lost or answer.absent:
            yield unknown(f"{argv[-1] if ufm else 'sminfo'}: {excuse(answer)}", _WHY_IN_BAND, "run it by hand there")
            continue
        try:
            management.read_unhealthy(*output) if ufm else infiniband.read_subnet_manager(*output)
        except ToolError as exc:
            advice = "write m_key under changes: where ports are protected, via_device where another port leads there"
            if ufm:
                advice = "write ufm_ca under changes: (a file on this host), and its account into ~/.netrc"
            yield problem(f"{'UFM' if ufm else 'the fabric'} does not answer: {quoted(str(exc))}", _WHY_IN_BAND, advice)


IN_BAND = HostCheck("in-band", lambda _host, needs: needs.in_band, _read_in_band)
