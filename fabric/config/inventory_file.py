"""The inventory file as it is written: every key, its type, its range and what it means."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fabric.config.templates import Template, TemplateOrList, TemplateText
from fabric.config.tool_settings import OptionWords, ToolsEntry
from fabric.model.change import ChangeSettings
from fabric.model.fields.entry import Entry
from fabric.model.fields.folded import Folded, FoldedNames
from fabric.model.fields.quantities import Indexes
from fabric.model.fields.scalars import (
    BASELINE_NAME,
    DEVICE,
    SAFE_NAME,
    USER,
    Choice,
    Decimal,
    Whole,
)
from fabric.model.inventory import MockSettings, ProcessSettings, SshSettings
from fabric.model.scenario import Env

BACKENDS = ("mock", "ssh", "process")
LINK_LAYERS = ("infiniband", "ethernet")
TIERS = ("leaf", "spine", "core")
MANAGEMENT = ("nvue",)
ROLES = ("test", "management")

LineRate = Annotated[float, Decimal(1, 10_000)]


class PcieSwitchEntry(Entry):
    """One PCIe switch of a host, or several alike."""

    name: Annotated[Folded, FoldedNames(64)] = Field(description="Its name; pcie[0-1] makes two alike.")
    numa: Annotated[int, Whole(0, 63)] = Field(description="The NUMA node it hangs off.")


class GpuEntry(Entry):
    """One GPU of a host, or several alike."""

    index: Annotated[tuple[int, ...], Indexes()] = Field(description="Its CUDA index; 0-3 makes four alike.")
    numa: Annotated[int, Whole(0, 63)] | None = Field(None, description="Its NUMA node; else that of its PCIe switch.")
    pcie_switch: Annotated[str, SAFE_NAME] | None = Field(
        None, description="Its PCIe switch; none: straight off the CPU."
    )


class RnicEntry(Entry):
    """One RDMA port of a host."""

    device: Annotated[str, DEVICE] = Field(description="Its RDMA device, as ibv_devices lists it.")
    port: Annotated[int, Whole(1, 8)] = Field(1, description="The port of that device.")
    rail: Annotated[int, Whole(0, 63)] = Field(description="Its rail, counted from 0; decides its leaf switch.")
    numa: Annotated[int, Whole(0, 63)] | None = Field(None, description="Its NUMA node; else that of its PCIe switch.")
    pcie_switch: Annotated[str, SAFE_NAME] | None = Field(
        None, description="Its PCIe switch; none: straight off the CPU."
    )
    line_rate_gbps: LineRate = Field(description="What the link signals, in decimal Gb/s: 400 for NDR, 200 for HDR.")
    nearest_gpus: tuple[Annotated[int, Whole(0, 99)], ...] | None = Field(
        None, description="The GPUs it serves; else those on its PCIe switch."
    )


class PlatformEntry(Entry):
    """A host layout, described once."""

    baseline: Annotated[str, BASELINE_NAME] = Field(description="What is normal for it: baselines/<this>.yaml.")
    link_layer: Annotated[str, Choice(LINK_LAYERS)] = Field(description="infiniband or ethernet (RoCE).")
    numa_nodes: Annotated[int, Whole(1, 64)] = Field(description="How many memory nodes a host has.")
    pcie_switches: tuple[PcieSwitchEntry, ...] = Field((), max_length=64, description="The PCIe switches of a host.")
    gpus: tuple[GpuEntry, ...] = Field((), max_length=64, description="The GPUs of a host.")
    rnics: tuple[RnicEntry, ...] = Field(min_length=1, max_length=64, description="The RDMA ports of a host.")
    gid_index: Annotated[int, Whole(0, 255)] | None = Field(
        None, description="RoCE: which entry of the GID table packets carry (show_gids); else the tools choose."
    )
    tools: ToolsEntry = Field(ToolsEntry(), description="Programs that are not on the path, as absolute paths.")
    env: Env = Field({}, max_length=64, description="Variables that every collective is given: NCCL_SOCKET_IFNAME.")
    mpirun_options: OptionWords = Field(
        (), max_length=64, description="Words put right after mpirun, such as --allow-run-as-root."
    )


class HostsEntry(Entry):
    """Hosts that are alike; racks and units are counted over them in the order written."""

    names: Annotated[Folded, FoldedNames()] = Field(description="Which hosts: gpu[001-016].")
    role: Annotated[str, Choice(ROLES)] = Field(
        "test", description="test, or management: a subnet manager's or UFM's host, on which nothing is measured."
    )
    platform: Annotated[str, SAFE_NAME] | None = Field(
        None, description="Their layout, one of platforms; required of hosts under test."
    )
    address: Annotated[Template, TemplateText(("name", "unit", "rack"))] | None = Field(
        None, description="Where each is reached; {name} when left out."
    )
    rack: Annotated[Template, TemplateText(("rack", "unit"))] | None = Field(
        None, description="The rack of each, such as r{rack:02}."
    )
    hosts_per_rack: Annotated[int, Whole(1, 100_000)] | None = Field(
        None, description="After so many, {rack} grows by one."
    )
    leaves: Annotated[tuple[Template, ...], TemplateOrList(TemplateText(("rail", "unit", "rack", "name")))] | None = (
        Field(None, description="The leaf switch of each rail, such as su{unit}-leaf{rail}, or a list in rail order.")
    )
    hosts_per_unit: Annotated[int, Whole(1, 100_000)] | None = Field(
        None, description="After so many, {unit} grows by one."
    )


class UplinksEntry(Entry):
    """Cables from each of some switches to each of others."""

    to: Annotated[Folded, FoldedNames()] = Field(description="The switches above: spine[00-31].")
    count: Annotated[int, Whole(1, 1024)] = Field(1, description="Parallel cables between each two.")
    line_rate_gbps: LineRate = Field(description="What each cable signals, in decimal Gb/s.")


class SwitchesEntry(Entry):
    """Switches that are alike."""

    names: Annotated[Folded, FoldedNames()] = Field(description="Which switches: su0-leaf[0-7].")
    tier: Annotated[str, Choice(TIERS)] = Field(description="leaf, spine or core.")
    uplinks: UplinksEntry | None = Field(None, description="Their cables upwards.")
    address: Annotated[Template, TemplateText(("name",))] | None = Field(
        None, description="Where each is reached itself, such as {name}.mgmt; none: it is not."
    )
    management: Annotated[str, Choice(MANAGEMENT)] | None = Field(
        None, description="What its system is configured with: nvue (Cumulus Linux)."
    )
    user: Annotated[str, USER] | None = Field(None, description="The account on it; else that of ssh.")
    port: Annotated[int, Whole(1, 65_535)] | None = Field(None, description="Its SSH port; else that of ssh.")


class InventoryFile(Entry):
    """A whole inventory file."""

    name: Annotated[str, SAFE_NAME] = Field(description="What this fabric is called.")
    backend: Annotated[str, Choice(BACKENDS)] = Field(
        description="How hosts are reached: mock (simulated), ssh or process."
    )
    platforms: dict[Annotated[str, SAFE_NAME], PlatformEntry] = Field(min_length=1, description="Host layouts by name.")
    hosts: tuple[HostsEntry, ...] = Field(min_length=1, description="The machines under test.")
    switches: tuple[SwitchesEntry, ...] = Field((), description="The switches between them.")
    ssh: SshSettings = Field(SshSettings(), description="With backend ssh: how hosts are reached.")
    process: ProcessSettings = Field(
        ProcessSettings(), description="With backend process: what carries a command to a host."
    )
    changes: ChangeSettings = Field(
        ChangeSettings(), description="How changes are made on this fabric, and how many at once."
    )
    mock: MockSettings = Field(MockSettings(), description="With backend mock: how the simulated rack behaves.")
