"""What an inventory's ``changes:`` may hold: every key, its type, its range and what it means."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fabric.config.changes_file import PORT_TOOLS
from fabric.config.tool_settings import OPTION_WORD, OneWord
from fabric.model.change import BlastRadius, ChangeSettings, Lease, SubnetManager
from fabric.model.fields.entry import Entry
from fabric.model.fields.quantities import Duration
from fabric.model.fields.scalars import SAFE_NAME, Choice, Decimal, Flag, Whole, Word, refusal

_SETTINGS, _LEASE, _RADIUS, _MANAGER = ChangeSettings(), Lease(), BlastRadius(), SubnetManager("")

SAFE_PATH = Word(
    r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._@+-]{1,255}){1,16}",
    "an absolute path without '.' and '..' (letters, digits, '.', '_', '@', '+', '-')",
)
GUARD_DIRECTORY = Word(
    rf"(?!(?:/tmp|/var/tmp|/var/run|/dev/shm|/run/shm|(?:/var)?(?:/run)?/lock)(?:/|$)){SAFE_PATH.pattern}",
    "an absolute path without '.' and '..', through no link (/var/run is one), below which not every user may write"
    " (what is there is run as root), such as /run/fabric-guard",
)
OPENSM_KEY = Word(r"[a-z][a-z0-9_]{0,63}", "an option of opensm.conf such as routing_engine")
OPENSM_VALUE = OneWord(
    r"(?!.*\.\.)[A-Za-z0-9/][A-Za-z0-9._,:/-]{0,255}",
    "a value of opensm.conf (letters, digits, '.', '_', ',', ':', '/', '-')",
)


class WebAddress(Word):
    """The address of a web service, without an account in it."""

    def parse(self, value: object) -> str:
        """The address; one with an account is refused, because files are shared."""
        if isinstance(value, str) and "@" in value:
            raise refusal("an address without an account (put it into ~/.netrc of 'via')", "…@…")
        return super().parse(value)


UFM_URL = WebAddress(
    r"https?://[A-Za-z0-9][A-Za-z0-9.-]{0,252}(?::[1-9][0-9]{0,4})?(?:/[A-Za-z0-9._~-]{1,255}){0,16}/?",
    "an address such as https://ufm.example.net",
)

HostName = Annotated[str, SAFE_NAME]
Options = Annotated[dict[Annotated[str, OPENSM_KEY], Annotated[str, OPENSM_VALUE]], Field(min_length=1, max_length=32)]
Argv = Annotated[tuple[Annotated[str, OPTION_WORD], ...], Field(min_length=1, max_length=16)]


class LeaseEntry(Entry):
    """How long a change outlives its orchestrator."""

    ttl: Annotated[int, Duration(10, 600)] = Field(
        int(_LEASE.ttl_s), description="A change undoes itself so long after the run was last heard of."
    )
    max_hold: Annotated[int, Duration(10, 86_400)] = Field(
        int(_LEASE.max_hold_s), description="And at the latest so long after it was made, whatever the run says."
    )


class SubnetManagerEntry(Entry):
    """One subnet manager, running or standing by."""

    host: HostName = Field(description="The host it runs on, one of hosts, of any role.")
    config: Annotated[str, SAFE_PATH] = Field(_MANAGER.config, description="Its configuration file (opensm.conf).")
    reload: Argv = Field(_MANAGER.reload, description="The argv that makes it read that file.")


class BlastRadiusEntry(Entry):
    """The most that may be altered at once."""

    changes: Annotated[int, Whole(1, 1000)] = Field(_RADIUS.changes, description="Changes in all.")
    per_switch: Annotated[int, Whole(1, 1000)] = Field(_RADIUS.per_switch, description="Links of one switch.")
    per_host: Annotated[int, Whole(1, 1000)] = Field(_RADIUS.per_host, description="Links of one host.")
    links_fraction: Annotated[float, Decimal(0, 1)] = Field(
        _RADIUS.links_fraction, description="Fraction of all links of the inventory."
    )


class ChangesEntry(Entry):
    """How changes are made on this fabric."""

    via: HostName | None = Field(
        None, description="The host from which switches are reached in-band; without it no switch port is altered."
    )
    port_state: Annotated[str, Choice(PORT_TOOLS)] = Field(
        _SETTINGS.port_state, description="The tool that closes ports: ibportstate, mlxlink, mlxreg or ip."
    )
    sudo: Annotated[bool, Flag()] = Field(_SETTINGS.sudo, description="Commands that need root go through sudo -n.")
    guard_directory: Annotated[str, GUARD_DIRECTORY] = Field(
        _SETTINGS.guard_directory, description="Where guards on the hosts keep what they would undo."
    )
    lease: LeaseEntry = Field(LeaseEntry(), description="How long a change outlives a run that is gone.")
    management: tuple[Annotated[str, SAFE_NAME], ...] = Field(
        (), max_length=1000, description="Never touched: names of interfaces, RDMA devices, hosts and switches."
    )
    subnet_managers: tuple[SubnetManagerEntry, ...] = Field(
        (), max_length=16, description="All subnet managers; without them adaptive routing and SHIELD stay as they are."
    )
    adaptive_on: Options = Field(dict(_SETTINGS.adaptive_on), description="Their options with adaptive routing on.")
    adaptive_off: Options = Field(dict(_SETTINGS.adaptive_off), description="And with adaptive routing off.")
    shield_on: Options = Field(dict(_SETTINGS.shield_on), description="Their options with SHIELD on.")
    shield_off: Options = Field(dict(_SETTINGS.shield_off), description="And with SHIELD off.")
    adaptive_sl: Annotated[int, Whole(0, 15)] | None = Field(
        None, description="The service level that is routed adaptively, for adaptive_routing with scope job."
    )
    ufm_url: Annotated[str, UFM_URL] | None = Field(
        None, description="Where UFM's REST interface is; asked by curl -n from via."
    )
    blast_radius: BlastRadiusEntry = Field(BlastRadiusEntry(), description="What may be altered at once, at the most.")
