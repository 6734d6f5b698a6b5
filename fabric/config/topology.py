"""Decode hosts, switches and cables of a file, and check that every name refers to something."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import product
from typing import Annotated

from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError

from fabric.config.platforms import LineRate, unfolded
from fabric.config.problems import KeyPath, Problems
from fabric.model import gathered
from fabric.model.fields.entry import Entry
from fabric.model.fields.folded import NAMES_MOST, Folded, FoldedNames, some
from fabric.model.fields.scalars import (
    ADDRESS_PATTERN,
    HOST_PATTERN,
    SAFE_NAME,
    USER,
    Choice,
    Scalar,
    Whole,
    refusal,
)
from fabric.model.fields.wording import nearest, one_of, quoted
from fabric.model.inventory import SshSettings
from fabric.model.topology import Host, Login, Platform, Switch, Topology, Uplinks

TIERS = ("leaf", "spine", "core")


_FIELD = re.compile(r"\{([^{}]*)\}")
_KNOWN = re.compile(r"(name|unit|rack|rail)((?<!name):0[1-9])?")
_LITERAL = re.compile(r"[A-Za-z0-9._:-]*")
_TEXT_MOST = 128
_DOTTED = re.compile(r"\d+(?:\.\d+){3}\.?")


@dataclass(frozen=True, slots=True)
class Template:
    """A name with fields in it, ``su{unit:02}-leaf{rail}``; zero padding is the only format."""

    written: str

    @property
    def fields(self) -> frozenset[str]:
        """Return the fields that it uses."""
        return frozenset(field.partition(":")[0] for field in _FIELD.findall(self.written))

    def text(self, values: Mapping[str, str | int]) -> str:
        """Return the text with every field replaced."""
        return self.written.format(**values)


@dataclass(frozen=True)
class TemplateText(Scalar):
    """Reads a template that may use only the given *fields*."""

    fields: tuple[str, ...]

    def parse(self, value: object) -> Template:
        """Return the template, or raise a refusal that names the unknown field."""
        names = one_of("{" + field + "}" for field in self.fields)
        expected = f"text with {names}, such as rack{{rack:02}}"
        if not isinstance(value, str) or not 0 < len(value) <= _TEXT_MOST:
            raise refusal(expected, value)
        for given in _FIELD.findall(value):
            known = _KNOWN.fullmatch(given)
            if known is None or known[1] not in self.fields:
                hint = nearest(given.partition(":")[0], self.fields)
                text = f"field {quoted('{' + given + '}')} is not known here; known are {names}{hint}"
                raise PydanticCustomError("field", text)
        literal = _FIELD.sub("", value)
        if "{" in literal or "}" in literal:
            raise refusal(expected, value, hint=" (a brace has no partner)")
        if not _LITERAL.fullmatch(literal):
            raise refusal("letters, digits, '.', '_', ':', '-' and fields", value)
        return Template(value)

    def json_schema(self) -> JsonSchemaValue:
        """Return the schema of a text with fields in braces."""
        return {"type": "string", "pattern": r"^([A-Za-z0-9._:-]|\{(name|unit|rack|rail)(:0[1-9])?\})+$"}


_LEAF = TemplateText(("rail", "unit", "rack", "name"))


class Leaves(Scalar):
    """Reads one template of leaf switches for all rails, or a list with one for each."""

    def parse(self, value: object) -> tuple[Template, ...]:
        """Return one template, or as many as the list has."""
        return tuple(map(_LEAF.parse, value if isinstance(value, list) and value else [value]))

    def json_schema(self) -> JsonSchemaValue:
        """Return the schema of a template or a list of templates."""
        one = _LEAF.json_schema()
        return {"oneOf": [one, {"type": "array", "minItems": 1, "items": one}]}


class HostsEntry(Entry):
    """Hosts that are alike; racks and units are counted over them in the order written."""

    names: Annotated[Folded, FoldedNames()]
    """Which hosts: gpu[001-016]."""
    role: Annotated[str, Choice(("test", "management"))] = "test"
    """test, or management: a subnet manager's or UFM's host, on which nothing is measured."""
    platform: Annotated[str, SAFE_NAME] | None = None
    """Their layout, one of platforms; required of hosts under test."""
    address: Annotated[Template, TemplateText(("name", "unit", "rack"))] | None = None
    """Where each is reached; {name} when left out."""
    rack: Annotated[Template, TemplateText(("rack", "unit"))] | None = None
    """The rack of each, such as r{rack:02}."""
    hosts_per_rack: Annotated[int, Whole(1, 100_000)] | None = None
    """After so many, {rack} grows by one."""
    leaves: Annotated[tuple[Template, ...], Leaves()] | None = None
    """The leaf switch of each rail, such as su{unit}-leaf{rail}, or a list in rail order."""
    hosts_per_unit: Annotated[int, Whole(1, 100_000)] | None = None
    """After so many, {unit} grows by one."""


class UplinksEntry(Entry):
    """Cables from each of some switches to each of others."""

    to: Annotated[Folded, FoldedNames()]
    """The switches above: spine[00-31]."""
    count: Annotated[int, Whole(1, 1024)] = 1
    """Parallel cables between each two."""
    line_rate_gbps: LineRate
    """What each cable signals, in decimal Gb/s."""


class SwitchesEntry(Entry):
    """Switches that are alike."""

    names: Annotated[Folded, FoldedNames()]
    """Which switches: su0-leaf[0-7]."""
    tier: Annotated[str, Choice(TIERS)]
    """leaf, spine or core."""
    uplinks: UplinksEntry | None = None
    """Their cables upwards."""
    address: Annotated[Template, TemplateText(("name",))] | None = None
    """Where each is reached itself, such as {name}.mgmt; none: it is not."""
    management: Annotated[str, Choice(("nvue",))] | None = None
    """What its system is configured with: nvue (Cumulus Linux)."""
    user: Annotated[str, USER] | None = None
    """The account on it; else that of ssh."""
    port: Annotated[int, Whole(1, 65_535)] | None = None
    """Its SSH port; else that of ssh."""


CABLES_MOST = 1_000_000

_NAME = Template("{name}")


@dataclass(slots=True)
class Names:
    """Collects names of one kind: each once, and at most ``NAMES_MOST`` in one file."""

    what: str
    problems: Problems
    asked: int = 0
    where: dict[str, KeyPath] = field(default_factory=dict)
    """The entry in which each name occurs."""

    def take(self, folded: Folded, path: KeyPath) -> tuple[str, ...]:
        """Return the names that are new and well formed; note what is wrong with the others."""
        self.asked += folded.count
        if self.asked > NAMES_MOST:
            self.problems.add(path, f"more than {NAMES_MOST} {self.what} in one inventory")
            return ()
        names = unfolded(folded, path, self.problems)
        bad = next((name for name in names if not HOST_PATTERN.fullmatch(name)), None)
        if bad is not None:
            self.problems.add(path, f"{quoted(bad)} is not a name of 1 to 63 letters, digits, '.', '_' or '-'")
            return ()
        again = [name for name in names if name in self.where]
        if again:
            self.problems.add(path, f"{self.what} named twice: {some(again)}")
        new = tuple(name for name in names if name not in self.where)
        self.where.update(dict.fromkeys(new, path[:-1]))
        return new

    def usable(self, texts: Iterable[str], path: KeyPath, shape: re.Pattern[str] = ADDRESS_PATTERN) -> None:
        """Note the first text made from a template that does not have the shape its key needs."""
        address = shape is ADDRESS_PATTERN
        bad = next((text for text in texts if not shape.fullmatch(text) or (address and _no_ipv4(text))), None)
        if bad is not None:
            why = ": each number of an IPv4 address is 0 to 255, without leading zeros" * _no_ipv4(bad)
            self.problems.add(path, f"{quoted(bad)} is not usable as {path[-1]}{why}")


def _no_ipv4(text: str) -> bool:
    """Return whether a text is no IPv4 address, but of its form, which no host name has (RFC 1123, 2.1)."""
    try:
        ip_address(text)
    except ValueError:
        return _DOTTED.fullmatch(text) is not None
    return False


def switches(entries: Iterable[tuple[KeyPath, SwitchesEntry]], names: Names) -> dict[str, Switch]:
    """Return every switch by name, in the order written."""
    found: dict[str, Switch] = {}
    for path, entry in entries:
        for key in ("management", "user", "port"):
            if entry.address is None and getattr(entry, key) is not None:
                names.problems.add((*path, key), f"'{key}' needs 'address': where the switch itself is reached")
        made = [Switch(name, entry.tier, _login(entry, name)) for name in names.take(entry.names, (*path, "names"))]
        names.usable((switch.login.address for switch in made if switch.login is not None), (*path, "address"))
        found.update((switch.name, switch) for switch in made)
    return found


def refuse_one_machine_twice(
    topology: Topology, where: Mapping[str, KeyPath], ssh: SshSettings, problems: Problems
) -> None:
    """
    Note names that lead to one machine: equal address (however written), port and account.

    *where*: the entry that made each name. *ssh* gives the port and account that a login leaves open.
    """
    logins = {**{name: Login(host.address) for name, host in topology.hosts.items()}, **topology.logins}
    names = gathered(
        ((_one_spelling(login.address), login.port or ssh.port, login.user or ssh.user), name)
        for name, login in logins.items()
    )
    for (address, _, _), same in names.items():
        entries = dict.fromkeys(where[name] for name in same)
        hint = "; with {name} each has its own" if len(entries) == 1 else ""
        text = f"{some(same)} are reached at one address, {quoted(address)}{hint}: a machine has one name"
        for entry in entries if len(same) > 1 else ():
            problems.add((*entry, "address"), text)


def _one_spelling(address: str) -> str:
    """Return an address in one spelling: IPv6 in its short form, names in lower case."""
    text = address.rstrip(".").lower()
    try:
        return str(ip_address(text))
    except ValueError:
        return text


def _login(entry: SwitchesEntry, name: str) -> Login | None:
    if entry.address is None:
        return None
    return Login(entry.address.text({"name": name}), entry.management, entry.user, entry.port)


def uplinks(
    entries: Iterable[tuple[KeyPath, SwitchesEntry]], known: Mapping[str, Switch], problems: Problems
) -> tuple[Uplinks, ...]:
    """
    Return the cables between switches, lower tiers first; ends are of different tiers, and one end lists each cable.
    """
    found: dict[str, list[Uplinks]] = {tier: [] for tier in TIERS}
    joined: set[tuple[str, str]] = set()
    cables = 0
    for path, entry in entries:
        if entry.uplinks is None:
            continue
        here = (*path, "uplinks")
        cables += entry.names.count * entry.uplinks.to.count * entry.uplinks.count
        if cables > CABLES_MOST:
            problems.add(here, f"more than {CABLES_MOST} cables between switches")
            continue
        lower = unfolded(entry.names, (*path, "names"), problems)
        upper = unfolded(entry.uplinks.to, (*here, "to"), problems)
        _refer((*here, "to"), upper, known, problems)
        own, others = TIERS.index(entry.tier), {TIERS.index(known[name].tier) for name in upper if name in known}
        if own in others:
            problems.add((*here, "to"), f"expected switches of another tier, got {entry.tier} again")
        lowest = min(own, max(others, default=own))
        if lowest < own:  # written from above
            lower, upper = upper, lower
        pairs = set(product(lower, upper))
        if twice := sorted(joined & pairs):
            problems.add(here, f"the cables between {' and '.join(twice[0])} are listed at their other end, too")
        joined |= pairs
        found[TIERS[lowest]].append(Uplinks(lower, upper, entry.uplinks.count, entry.uplinks.line_rate_gbps))
    return tuple(uplinks for tier in TIERS for uplinks in found[tier])


def _refer(path: KeyPath, names: Iterable[str], known: Mapping[str, Switch], problems: Problems) -> None:
    """Note switches that are named but do not exist."""
    absent = sorted({name for name in names if name not in known})
    if absent:
        text = f"no switch {some(absent)} under switches:{nearest(absent[0], known)}"
        problems.add(path, text)


def hosts(
    entries: Iterable[tuple[KeyPath, HostsEntry]],
    platforms: Mapping[str, Platform | None],
    known: Mapping[str, Switch] | None,
    names: Names,
) -> dict[str, Host]:
    """
    Return every host by name, in the order written.

    *platforms* are None if their entries are wrong; *known* are all switches, None if some could not be read.
    """
    found: dict[str, Host] = {}
    for path, entry in entries:
        if entry.platform is None:
            names.problems.add(path, "'platform' is required here")
            names.take(entry.names, (*path, "names"))
            continue
        if entry.platform not in platforms:
            hint = nearest(entry.platform, platforms)
            names.problems.add((*path, "platform"), f"no platform {quoted(entry.platform)} under platforms:{hint}")
        platform = platforms.get(entry.platform)
        members = names.take(entry.names, (*path, "names"))
        if _counted(entry, path, names.problems) and platform is not None:
            made = list(_made(entry, platform, members, _leaf_templates(entry, platform, path, names.problems)))
            _check_made(made, entry, platform, path, names)
            if known is not None:
                _check_leaves(made, (*path, "leaves"), known, names.problems)
            found.update((host.name, host) for host in made)
    return found


def management(entries: Iterable[tuple[KeyPath, HostsEntry]], names: Names) -> dict[str, Login]:
    """Return by name how each machine for management is reached; they have no layout and no cables that we alter."""
    found: dict[str, Login] = {}
    for path, entry in entries:
        for key in ("platform", "rack", "hosts_per_rack", "leaves", "hosts_per_unit"):
            if getattr(entry, key) is not None:
                names.problems.add((*path, key), f"'{key}' goes with role test: nothing is measured on these hosts")
        address = entry.address or _NAME
        members = names.take(entry.names, (*path, "names"))
        made = {name: Login(address.text({"name": name, "unit": 0, "rack": 0})) for name in members}
        if address.fields - {"name"}:
            names.problems.add((*path, "address"), "only {name} is known of hosts for management")
        else:
            names.usable((login.address for login in made.values()), (*path, "address"))
        found.update(made)
    return found


def _counted(entry: HostsEntry, path: KeyPath, problems: Problems) -> bool:
    """Return whether every counter that a template uses can be counted."""
    templates = {"rack": entry.rack, "address": entry.address}
    used = {key: template.fields for key, template in templates.items() if template}
    used["leaves"] = frozenset().union(*(template.fields for template in entry.leaves or ()))
    complete = True
    for key, fields in used.items():
        for counter, each in (("unit", entry.hosts_per_unit), ("rack", entry.hosts_per_rack)):
            if counter in fields and each is None:
                problems.add((*path, key), f"{{{counter}}} needs 'hosts_per_{counter}'")
                complete = False
    return complete


def _leaf_templates(entry: HostsEntry, platform: Platform, path: KeyPath, problems: Problems) -> tuple[Template, ...]:
    """Return one template for each rail; none if their number is wrong, which is noted."""
    given = entry.leaves or ()
    rails = 1 + max((rnic.rail for rnic in platform.rnics), default=0)
    if len(given) > 1 and len(given) != rails:
        text = f"expected {rails} leaves, one for each rail, got {len(given)}; one alone is that of all rails"
        problems.add((*path, "leaves"), text)
        return ()
    return given * rails if len(given) == 1 else given


def _made(
    entry: HostsEntry, platform: Platform, members: Iterable[str], leaf_templates: Sequence[Template]
) -> Iterator[Host]:
    """Yield the hosts of one entry; hosts with equal leaves share one tuple of them."""
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    for position, name in enumerate(members):
        unit, rack = position // (entry.hosts_per_unit or 1), position // (entry.hosts_per_rack or 1)
        values: dict[str, str | int] = {"name": name, "unit": unit, "rack": rack}
        leaves = tuple(template.text(values | {"rail": rail}) for rail, template in enumerate(leaf_templates))
        address = (entry.address or _NAME).text(values)
        rack_name = entry.rack.text(values) if entry.rack else None
        yield Host(name, platform, address, rack_name, shared.setdefault(leaves, leaves))


def _check_made(made: Sequence[Host], entry: HostsEntry, platform: Platform, path: KeyPath, names: Names) -> None:
    """Note wrong names that came out of the templates."""
    if platform.nvlink_domain == "rack" and entry.rack is None:
        names.problems.add(path, "'rack' is required here: NVLink joins the hosts of one (nvlink_domain: rack)")
    names.usable((host.rack or "r0" for host in made), (*path, "rack"), HOST_PATTERN)
    names.usable((host.address for host in made), (*path, "address"))


def _check_leaves(made: Sequence[Host], path: KeyPath, known: Mapping[str, Switch], problems: Problems) -> None:
    """Note leaves that are not leaf switches."""
    leaves = dict.fromkeys(leaf for host in made for leaf in host.leaves)
    _refer(path, leaves, known, problems)
    wrong = next((leaf for leaf in leaves if leaf in known and known[leaf].tier != "leaf"), None)
    if wrong is not None:
        problems.add(path, f"expected switches of tier leaf, got {quoted(wrong)}, a {known[wrong].tier}")
