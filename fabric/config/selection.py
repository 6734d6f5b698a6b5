"""Select the hosts that a scenario runs on: ``all``, ``gpu[001-016]``, a list, ``{rack: r1}`` or ``{tor: leaf3}``."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError

from fabric.model.fields.folded import NAMES_MOST, Folded, FoldedNames, some
from fabric.model.fields.scalars import SAFE_NAME, Scalar, refusal
from fabric.model.fields.wording import nearest, quoted, shown
from fabric.model.inventory import Inventory
from fabric.model.text import fold

_EXPECTED = "all, gpu[001-016], a list of those, {rack: r1} or {tor: leaf3}"
_GROUPS = ("rack", "tor")
_HOSTS_SHOWN = 200  # characters of the folded hosts that a message names; a choice


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of hosts: *kind* is ``all``, ``names``, ``rack`` or ``tor``; *group* is the name of a rack or ToR."""

    kind: str
    folded: tuple[Folded, ...] = ()
    group: str = ""


class HostsText(Scalar):
    """Reads a selection of hosts."""

    def parse(self, value: object) -> Selection:
        """Return the selection; names are looked up later, when the inventory is known."""
        if value == "all":
            return Selection("all")
        if isinstance(value, dict):
            return _group(value)
        items = value if isinstance(value, list) else [value]
        if not items:
            raise refusal(_EXPECTED, value)
        if not all(isinstance(item, str) for item in items) or "all" in items:
            raise refusal(_EXPECTED, value if not isinstance(value, list) else items[0])
        folded = tuple(FoldedNames().parse(item) for item in items)
        total = sum(part.count for part in folded)
        if total > NAMES_MOST:
            text = f"expected at most {NAMES_MOST} names, got {total}"
            raise PydanticCustomError("too_many", text)
        return Selection("names", folded)

    def json_schema(self) -> JsonSchemaValue:
        """Return the schema: a text, a list of texts, or one of two mappings."""
        names = FoldedNames().json_schema()
        groups = [
            {
                "type": "object",
                "properties": {key: SAFE_NAME.json_schema()},
                "required": [key],
                "additionalProperties": False,
            }
            for key in _GROUPS
        ]
        return {"oneOf": [names, {"type": "array", "minItems": 1, "items": names}, *groups]}


def _group(value: dict[str, object]) -> Selection:
    """Parse ``{rack: r1}`` or ``{tor: leaf3}``."""
    if len(value) != 1:
        raise refusal(_EXPECTED, value)
    key, group = next(iter(value.items()))
    if key not in _GROUPS:
        text = f"unknown key {quoted(key)}{nearest(key, _GROUPS)}; expected {_EXPECTED}"
        raise PydanticCustomError("group", text)
    return Selection(key, group=SAFE_NAME.parse(group))


def hosts_named(text: object, inventory: Inventory | None, say: Callable[[str], None]) -> tuple[str, ...]:
    """
    Return the hosts that ``--hosts`` or a file selects.

    None without an inventory, or if the text is wrong, which *say* is told.
    """
    try:
        wanted = HostsText().parse(text)
    except PydanticCustomError as exc:
        say(exc.message())
        return ()
    if inventory is None:
        return ()
    hosts = inventory.topology.hosts
    if wanted.kind == "all":
        return tuple(hosts)
    if wanted.kind == "names":
        return _named(wanted.folded, inventory, say)
    groups = {name: host.leaves if wanted.kind == "tor" else (host.rack,) for name, host in hosts.items()}
    found = tuple(name for name, those in groups.items() if wanted.group in those)
    if not found:
        known = {each for those in groups.values() for each in those if each is not None}
        say(f"no host has {wanted.kind} {quoted(wanted.group)}{nearest(wanted.group, sorted(known))}")
    return found


def _named(folded: tuple[Folded, ...], inventory: Inventory, say: Callable[[str], None]) -> tuple[str, ...]:
    """Return the named hosts, each once, in inventory order."""
    topology = inventory.topology
    wanted: set[str] = set()
    for part in folded:
        try:
            wanted.update(part.names())
        except ValueError as exc:
            say(shown(str(exc)))
    unknown = sorted(wanted - topology.hosts.keys())
    managing = [name for name in unknown if name in topology.management]
    if managing:
        say(f"{some(managing)}: role management, nothing is measured there")
        unknown = [name for name in unknown if name not in topology.management]
    if unknown:
        word = "host is" if len(unknown) == 1 else f"{len(unknown)} hosts are"
        there = f" ({shown(inventory.source)} has {shown(fold(topology.hosts), most=_HOSTS_SHOWN)})"
        say(f"{word} not in the inventory: {some(unknown)}{there}{nearest(unknown[0], topology.hosts)}")
    return tuple(name for name in topology.hosts if name in wanted)
