"""The simulated hosts: which exist, which answer, their addresses and serial numbers, and their random bits."""

from collections.abc import Sequence
from functools import cache

from fabric.model.inventory import Fault
from fabric.model.topology import Gpu, Host, Platform, Topology
from fabric.sim.faults import WELL, faults_by_host
from fabric.sim.hashing import mix64, text_hash
from fabric.sim.hosts.capacity import Layout
from fabric.sim.hosts.site import Site

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "localhost.localdomain"})

_SWITCH = Platform("switch", (), (), 1, (), "ethernet", "switch")  # a machine on which commands run: no RNIC, no GPU


class Hosts:
    """
    Every host, and every switch that has an address; *faults* are those from the beginning.

    The attribute *faults* holds what is wrong with each host now; life.py alters it and informs the programs that run.
    """

    def __init__(self, topology: Topology, faults: tuple[Fault, ...], *, seed: int) -> None:
        self.topology = topology
        self.faults = faults_by_host(topology, faults)
        self._dead_switches = {fault.component for fault in faults if fault.kind == "broken"} & topology.logins.keys()
        self._seed_hash = mix64(seed)
        self.sites: dict[str, Site] = {}
        """The sites that a command has reached."""
        self._layout = cache(Layout)
        self._names = {host.address: name for name, host in topology.hosts.items()} | {
            name: name for name in topology.hosts
        }

    def unreachable(self, host: str) -> str | None:
        """Return why no session with a host, or with a switch that has an address, is possible; None when it is."""
        if host in self.topology.logins:
            return "No route to host" if host in self._dead_switches else None
        kind = self.kind(host)
        if host not in self.topology.hosts or kind == "absent":
            return "Name or service not known"
        return "No route to host" if kind == "broken" else None

    def kind(self, host: str) -> str | None:
        """Return the host's own fault: ``hanging``, ``garbage`` and so on."""
        return self.faults.get(host, WELL).host_kind

    def site(self, name: str) -> Site:
        """Return the state of a host, or of a switch with an address; raises KeyError for any other name."""
        site = self.sites.get(name)
        if site is None:
            login = self.topology.logins.get(name)
            host = self.topology.hosts[name] if login is None else Host(name, _SWITCH, login.address, None, ())
            site = self.sites[name] = Site(host, self._layout(host.platform), self.faults.get(name, WELL))
        return site

    def reached(self, site: Site, peer: str) -> Site | None:
        """Return the host that a program on *site* means by *peer*; None when no such host answers."""
        if peer in LOCAL_NAMES:
            return site
        name = self._names.get(peer)
        return None if name is None or self.unreachable(name) else self.site(name)

    def chance(self, site: Site, command_hash: int) -> int:
        """Return the 64 bits that decide everything accidental about this start of a command on this host."""
        nth = site.starts[command_hash]
        site.starts[command_hash] += 1
        return mix64(self._seed_hash ^ site.name_hash ^ mix64(command_hash + nth))


# An HGX H100's bus numbers (recorded nccl-tests runs); beyond eight GPUs they are a choice, all different.
_GPU_BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df", *(f"{number:02x}" for number in range(0x63, 0x9B)))

GPU_MODELS = {"a100": "NVIDIA A100-SXM4-80GB", "h100": "NVIDIA H100 80GB HBM3", "b200": "NVIDIA B200"}
GPU_MODELS |= {"mi300x": "AMD Instinct MI300X"}
"""The names that CUDA and HIP give GPUs, by generation."""


# An HGX H100's RNICs (DGX H100 user guide); beyond eight a choice: the next PCI domain.
_RNIC_BUSES = ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc")


def pci_address(number: int) -> str:
    """Return the PCI address of the *number*-th RNIC of a host."""
    return f"{number // 8:04x}:{_RNIC_BUSES[number % 8]}:00.0"


def interface_name(platform: Platform, number: int) -> str:
    """
    Return the kernel's name for the interface of the *number*-th RNIC: ``eth1`` and on (RoCE), ``ib0`` and on (IPoIB).
    """
    return f"eth{number + 1}" if platform.link_layer == "ethernet" else f"ib{number}"


def gpu_pci_address(number: int) -> str:
    """Return the PCI address of a GPU."""
    return f"0000:{pci_bus(number)}:00.0"


def pci_bus(index: int) -> str:
    """Return the PCI bus number of a GPU, two hexadecimal digits."""
    return _GPU_BUSES[index % len(_GPU_BUSES)]


def visible_gpus(text: str | None, there: Sequence[Gpu]) -> list[Gpu]:
    """
    Return the GPUs that a program may use, in its order, by CUDA_VISIBLE_DEVICES.

    As in CUDA, the list ends at the first entry that is not a GPU.
    """
    if text is None:
        return list(there)
    found: list[Gpu] = []
    for number in map(str.strip, text.split(",")):
        if not number.isdigit() or int(number) >= len(there) or there[int(number)] in found:
            break
        found.append(there[int(number)])
    return found


FIRMWARE, OLDER_FIRMWARE = "28.41.1000", "28.39.3560"
"""The firmware of every RNIC, and of an outdated one (ConnectX-7, NVIDIA's release notes)."""
VBIOS = "96.00.74.00.0D"


def serial_of_rnic(site: Site, device: str) -> str:
    """Return a serial number as NVIDIA prints them, ``MT2314X07512``: year, week, a letter and a number."""
    bits = _bits(site, device)
    return f"MT23{bits % 52 + 1:02d}X{(bits >> 8) % 100_000:05d}"


def serial_of_gpu(site: Site, gpu: str) -> str:
    """Return a serial number of thirteen digits."""
    return f"165{_bits(site, gpu) % 10**10:010d}"


def firmware_of(site: Site, device: str) -> str:
    """Return the firmware version of an RNIC."""
    return OLDER_FIRMWARE if site.feels("outdated", device) else FIRMWARE


def _bits(site: Site, part: str) -> int:
    return mix64(text_hash(f"serial {site.host.name}/{part}{' as replaced' if site.feels('replaced', part) else ''}"))
