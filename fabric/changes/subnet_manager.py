"""Keys in the configuration files of all subnet managers, which reload them; fabric-wide, for everybody who uses it.

Every manager's file is changed, those of standby managers first and that of the master last, so that a handover
meanwhile finds the new values. SHIELD is only such a key; adaptive routing is one on InfiniBand
(``adaptive_routing.py``).
"""

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from shlex import join, quote
from typing import Annotated, ClassVar

from pydantic import Field

from fabric.changes import one_line
from fabric.changes.kind import FABRIC, Alters, Context, KeyProblem, Kind
from fabric.changes.ports import fabric_ports
from fabric.changes.procedure import Procedure, Text, awaited, pause, plainly
from fabric.errors import ExecutorError, NotInForce, Refused, ToolError
from fabric.model.change import Alteration, Alterations, Argv, Change, Check, SubnetManager
from fabric.model.fields.scalars import Choice, OnOff
from fabric.tools import infiniband, management

ABSENT = "absent"
"""What ``absent`` prints when none of the keys is there."""

WHOLE = "\n# fabric-conf: whole\n"
"""The last line of ``show``: a key counts as absent only in a file that was seen to its end."""

_TEXT = one_line("opensm_conf.sh")

MASTER_S = 60.0
"""A restarted manager must be seen as master within this time (seconds; choice: a first sweep takes 10 to 20)."""
POLL_S = 1.0

_SPECIAL, _ESCAPED = re.compile(r"[\\/&]"), r"\\\g<0>"
"""What sed would not take literally in a replacement."""

SETTLE_S = 20.0
"""
How long after a manager was seen as master its routes count as in force (seconds).

A sweep takes 10 to 20 s on very large fabrics (enterpriseai.news, 2017). The engine that routes is read back as well.
"""

ENGINE = "routing_engine"
FLUSHED = {"force_log_flush": "TRUE"}
"""Otherwise OpenSM buffers the line that names its engine (osm_log.c writes only errors and state changes at once)."""

SM_NEEDED = "the subnet managers must be known: 'subnet_managers' under changes: in the inventory"


class Toggle(Kind):
    """Base of kinds that switch a sort of routing on or off, by keys in the subnet managers' files."""

    is_fault: ClassVar[bool] = False

    on: Annotated[bool, OnOff()]
    scope: str

    def __str__(self) -> str:
        return f"{self.kind} {'on' if self.on else 'off'}"

    def params(self, component: str) -> Mapping[str, str | int | float]:
        """Return 1 for on, 0 for off."""
        return {"on": int(self.on)}

    def problems(self, context: Context | None) -> Iterator[KeyProblem]:
        """Yield managers that would only be sent a signal, although OpenSM reads the option at its start only."""
        wanted = {} if context is None else self.sets(context)
        fixed = sorted(management.AT_START_ONLY & wanted.keys())
        for manager in context.settings.subnet_managers if context is not None and fixed else ():
            if management.only_signals(manager.reload):
                problem = (
                    f"'{join(manager.reload)}' does not make OpenSM take {fixed[0]}, which it reads at its start only"
                )
                yield ("scope",), f"{manager.host}: {problem}: its 'reload' must restart it (changes: in the inventory)"

    def targets(self, context: Context) -> Iterator[tuple[str, str, Kind]]:
        """Yield the fabric as a whole, or each host."""
        for component in {"fabric": (FABRIC,), "host": context.hosts}.get(self.scope, ()):
            yield component, self.scope, self

    def needs(self, context: Context) -> Iterator[tuple[str | None, Alters]]:
        """For a whole fabric, yield every manager's file and the query for the master."""
        managers = context.settings.subnet_managers if self.scope == "fabric" else ()
        for manager in managers:
            yield manager.host, Alters(("cat", manager.reload[0]), guarded=True)
        for manager in managers[:1]:
            yield context.settings.via or manager.host, Alters(("sminfo",))

    def prepare(self, change: Change, context: Context) -> Procedure[Alterations]:
        """Return one Alteration for each manager whose file differs; none when all have the values already."""
        wanted = self.sets(context)
        found = []
        for manager in (yield from _master_last(context.settings.subnet_managers, context)):
            alteration = yield from _alteration(manager, change, wanted, context)
            if alteration is not None:
                found.append(alteration)
        return tuple(found)

    def confirm(self, change: Change, alterations: Alterations, context: Context) -> Procedure[None]:
        """Check that the keys are in every manager's file, a master is at work, and the wanted engine routes."""
        wanted = self.sets(context)
        for manager in context.settings.subnet_managers:
            there = yield from _keys(manager, context)
            for key, value in wanted.items():
                if there.get(key) != value:
                    raise NotInForce(f"{manager.host}: {manager.config}: {key} is {there.get(key)!r}, not {value!r}")
        if alterations:
            yield from _settled(context, until_s=(yield from pause(0.0)) + MASTER_S)
        if ENGINE in wanted:
            yield from _need_engine(wanted[ENGINE], context, altered=bool(alterations))

    def recovered(self, change: Change, alterations: Alterations, context: Context, until_s: float) -> Procedure[None]:
        """Wait until a master is at work again, and has routed."""
        if alterations:
            yield from _settled(context, until_s=until_s)


def _alteration(
    manager: SubnetManager, change: Change, wanted: Mapping[str, str], context: Context
) -> Procedure[Alteration | None]:
    before = yield from _keys(manager, context)
    if all(before.get(key) == value for key, value in wanted.items()):
        return None
    backup = backup_of(manager.config, change.change_id)
    _, _, status = yield from context.look(manager.host, ("cat", backup))
    if status == 0:
        raise Refused(
            f"{manager.host}: {backup} is there: an earlier change of this file was not taken back (fabric restore)"
        )
    values = {**FLUSHED, **wanted} if ENGINE in wanted else wanted
    was = {key: before.get(key) for key in values}
    undo, checks = _way_back(manager.config, backup, was)
    seen = ", ".join(f"{key} {before.get(key, '(not there)')}" for key in wanted)
    return Alteration(
        host=manager.host,
        apply=(conf_call("set", manager.config, backup, values), manager.reload),
        undo=(undo, conf_call("drop", manager.config, backup), manager.reload),
        checks=checks,
        prior=f"{manager.host}:{manager.config}: {seen}",
        manual=_by_hand(manager, backup, was),
        outlives=True,
    )


def _way_back(config: str, backup: str, before: Mapping[str, str | None]) -> tuple[Argv, tuple[Check, ...]]:
    """
    Return the undo that gives the keys their old lines, and the checks that show it.

    Only the keys' own lines are touched, so that changes of other keys of the same file may come and go, in any order.
    """
    there = {key: value for key, value in before.items() if value is not None}
    seen = Check(("cat", config), tuple(management.conf_equals(key, value) for key, value in there.items()))
    gone = {key: None for key, value in before.items() if value is None}
    absent = (Check(conf_call("absent", config, backup, gone), (f"^{ABSENT}",)),) if gone else ()
    return conf_call("undo", config, backup, before), (seen, *absent)


def _by_hand(manager: SubnetManager, backup: str, before: Mapping[str, str | None]) -> str:
    """Return what a person would type: it restores the keys' lines and touches nothing else in the file."""
    edits = (
        f"/^[[:space:]]*{key}[[:space:]]/d"
        if value is None
        else f"s/^[[:space:]]*{key}[[:space:]].*/{key} {_SPECIAL.sub(_ESCAPED, value)}/"
        for key, value in before.items()
    )
    script = "; ".join(edits)
    return f"sed -i {quote(script)} {quote(manager.config)} && rm -f {quote(backup)} && {join(manager.reload)}"


def _keys(manager: SubnetManager, context: Context) -> Procedure[dict[str, str]]:
    stdout, stderr, status = yield from context.look(manager.host, conf_call("show", manager.config, ""))
    if status != 0:
        raise ToolError(f"{manager.host}: {manager.config} cannot be read: {stderr.strip()[:200]}")
    if not stdout.endswith(WHOLE):
        raise ToolError(f"{manager.host}: {manager.config} was not read to its end: {stdout[-80:]!r}")
    return management.parse_conf(stdout)


def _master_last(managers: tuple[SubnetManager, ...], context: Context) -> Procedure[tuple[SubnetManager, ...]]:
    """Return the managers as listed, with the master last if the fabric shows which host it is on."""
    if context.settings.via is None or len(managers) == 1:
        return managers
    try:
        master = infiniband.read_subnet_manager(*(yield from _asked(context)))
        fabric = yield from fabric_ports(context)
    except ToolError:
        return managers
    ends = [line.end for line in fabric if line.end.lid == master.lid or line.end.guid == master.guid]
    names = {end.description.partition(" ")[0] for end in ends}
    return tuple(sorted(managers, key=lambda manager: manager.host in names))


def _asked(context: Context) -> Procedure[Text]:
    """Run ``sminfo`` on ``via``, else on the first manager's own host."""
    host = context.settings.via or context.settings.subnet_managers[0].host
    words = () if context.settings.via is None else context.in_band()
    argv = infiniband.subnet_manager(through=words)
    return (yield from context.look(host, argv))


def _settled(context: Context, *, until_s: float) -> Procedure[None]:
    """Wait until the fabric has a master that has routed. Raises NotInForce with what was seen instead."""

    def look() -> Procedure[str]:
        state = infiniband.read_subnet_manager(*(yield from _asked(context))).state
        return "" if state == "MASTER" else state

    state, asked_s = yield from awaited(look, until_s=until_s, pause_s=POLL_S)
    if state:
        raise NotInForce(f"no subnet manager is master after {MASTER_S:g} s: {state}")
    yield from pause(asked_s + SETTLE_S)


def _need_engine(wanted: str, context: Context, *, altered: bool) -> Procedure[None]:
    """
    Wait until one of the wanted engines routes; raises NotInForce with what was seen instead.

    Where nothing was *altered* and nobody reports the engine, the managers' files are all that is known, and count.
    """
    engines = tuple(re.split(r"[,\s]+", wanted))

    def look() -> Procedure[str]:
        try:
            engine, sentence = yield from _engine(context)
        except (ToolError, ExecutorError) as exc:
            engine, sentence = None, f"nobody tells what routes: {str(exc).partition(chr(10))[0]}"
        return "" if engine in engines or (engine is None and not altered) else sentence

    end_s = (yield from pause(0.0)) + MASTER_S
    seen, _ = yield from awaited(look, until_s=end_s, pause_s=POLL_S)
    if seen:
        raise NotInForce(f"{ENGINE} {wanted} was asked for, and {seen}")


def _engine(context: Context) -> Procedure[tuple[str | None, str]]:
    """Return the engine that routes, and a sentence: by UFM if there is one, else by the log of the master."""
    settings = context.settings
    if (ufm := management.UfmAccess.of(settings)) is not None:
        engine = management.read_engine(*(yield from plainly(ufm.via, management.ask_engine(ufm))))
        return engine, f"UFM says that {engine} routes"
    sentence = "nobody tells what routes: no manager's log says that it is master"
    for manager in settings.subnet_managers:
        keys = yield from _keys(manager, context)
        path = keys.get("log_file", management.LOG)
        log = management.read_log(*(yield from context.look(manager.host, management.ask_log(path))))
        if log.master and log.engine is not None:
            unknown = f" (it does not know {', '.join(log.unknown)})" if log.unknown else ""
            return log.engine, f"{manager.host}:{path} says that {log.engine} routes{unknown}"
        if log.master:
            sentence = f"{manager.host}:{path} does not say what routes"
    return None, sentence


def conf_call(verb: str, config: str, backup: str, keys: Mapping[str, str | None] | None = None) -> Argv:
    """Return a call of ``sh/opensm_conf.sh``; ValueError when a key or its value would not stay on its line."""
    return ("sh", "-c", _TEXT, "fabric-conf", verb, config, backup, *management.conf_words(keys or {}))


def backup_of(config: str, change_id: str) -> str:
    """Return the path that keeps the original file: beside it, named by the change."""
    return f"{config}.fabric-{sha256(change_id.encode()).hexdigest()[:12]}"


class Shield(Toggle):
    """The change shield."""

    kind: ClassVar[str] = "shield"
    why: ClassVar[Mapping[str, str]] = {
        "scope": "fabric, because it is the subnet managers' setting, for everyone on this fabric"
    }

    on: Annotated[bool, OnOff()] = Field(alias="shield")
    """SHIELD (switches reroute around dead ports) on or off."""
    scope: Annotated[str, Choice(("fabric",))]
    """fabric: it is the subnet managers' setting, for everyone on this fabric."""

    def problems(self, context: Context | None) -> Iterator[KeyProblem]:
        """Yield a problem when the inventory names no subnet managers."""
        yield from super().problems(context)
        if context is not None and not context.settings.subnet_managers:
            yield ("shield",), f"to switch SHIELD {SM_NEEDED}"

    def sets(self, context: Context) -> Mapping[str, str]:
        """Return the keys that the inventory gives for SHIELD on or off."""
        return dict(context.settings.shield_on if self.on else context.settings.shield_off)
