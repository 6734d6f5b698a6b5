"""The nccl-tests programs: one collective after another over a list of sizes."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, log2

from fabric.model.topology import Gpu, Rnic, joined_by_nvlink
from fabric.sim import page
from fabric.sim.hashing import text_hash, word
from fabric.sim.hosts import GPU_MODELS, pci_bus, visible_gpus
from fabric.sim.hosts.capacity import RNIC_EFFICIENCY
from fabric.sim.hosts.site import Flow, Ring, Share, Site
from fabric.sim.hosts.timeline import Process
from fabric.sim.rack import Rack
from fabric.sim.tools.call import Surroundings
from fabric.sim.tools.nccl_tests import model, text
from fabric.sim.tools.nccl_tests.text import CollectiveOptions

Rail = tuple[Site, Rnic, Gpu]
"""An RNIC of a host that a collective uses, and the GPU that it serves."""


@dataclass(frozen=True, slots=True)
class Member:
    """One GPU of a collective: the process that drives it, and its number as that process sees it."""

    pid: int
    site: Site
    gpu: Gpu
    ordinal: int


def _seen_by_hip(site: Site, env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with HIP's own variable in the place of CUDA's on AMD hosts."""
    hip = env.get("HIP_VISIBLE_DEVICES") if site.layout.platform.amd else None
    return env if hip is None else {**env, "CUDA_VISIBLE_DEVICES": hip}


class TooFewGpus(Exception):
    """A process asked for more GPUs than its host shows it; the message is what the program prints."""


def members(sites: tuple[Site, ...], env: Mapping[str, str], bits: int, *, per_process: int) -> tuple[Member, ...]:
    """Return the GPUs of every process, in rank order; *sites* has one entry a process. Raises TooFewGpus."""
    found = []
    local: dict[Site, int] = {}
    for process, site in enumerate(sites):
        first = local.get(site, 0)
        local[site] = first + per_process
        shown = visible_gpus(env.get("CUDA_VISIBLE_DEVICES"), site.present_gpus())
        for ordinal in range(first, first + per_process):
            if ordinal >= len(shown):
                raise TooFewGpus(text.too_few_gpus(first + per_process, len(shown)))
            found.append(Member(_pid(bits, process), site, shown[ordinal], ordinal))
    return tuple(found)


# Seconds before the first row: CUDA contexts and NCCL's set-up. Choice, in the order of what recorded runs took.
START_UP_S = 3.0
START_UP_PER_DOUBLING_S = 1.0  # of the number of hosts: set-up goes by trees
FAIL_S = 8.0  # after start-up: NCCL gives up when its first transfer fails; choice
NOTICE_S = 1.0  # how long CUDA takes to report that a GPU is gone; choice
BROKEN_LINK = "unhandled cuda error (run with NCCL_DEBUG=INFO for details)"


@dataclass(frozen=True, slots=True)
class CollectiveWay:
    """
    The resources that a collective uses, and how fast it is alone; *ring*: the hosts between which it crosses leaves.
    """

    gpus: int
    hosts: int
    shares: tuple[Share, ...]
    bus_gbps: float
    ring: Ring | None


class CollectiveJob:
    """One nccl-tests command line; *operation* is ``alltoall``, ``all_reduce`` and so on."""

    def __init__(self, operation: str, options: CollectiveOptions, setting: Surroundings) -> None:
        self.operation, self.options, self.setting = operation, options, setting
        self.algorithm = setting.env.get("NCCL_ALGO", "")
        self.sizes_bytes = options.sizes_bytes()
        variables = {key: value for key, value in setting.env.items() if key.startswith(("NCCL_", "CUDA_", "HIP_"))}
        variables.pop("NCCL_DEBUG", None)  # it alters only what is printed
        self.hash = text_hash(f"({operation!r}, {options.seed_text}, {sorted(variables.items())!r}, {setting.hosts!r})")

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Set up; then run, fail or hang, depending on the parts that the collective needs."""
        names = self.setting.hosts
        sites = tuple(rack.hosts.site(name) for name in names) if names else (process.site,)
        bits = rack.hosts.chance(process.site, self.hash)
        ready_s = at_s + START_UP_S + START_UP_PER_DOUBLING_S * log2(len(set(sites)))
        try:
            group = members(sites, _seen_by_hip(sites[0], self.setting.env), bits, per_process=self.options.gpus)
        except TooFewGpus as few:
            stdout = self.setting.marked(self._listing(sites[0], ()), 0)
            rack.timeline.exit_later(process, at_s + START_UP_S, status=5, stdout=stdout, stderr=str(few))
            return
        used = self._rails(group)
        listing = self._listing(sites[0], group)
        failure = self._failure(group, used)
        ring = None if failure else self._ring(rack, group, used, bits)
        taking_part = [(site, rnic.device) for site, rnic, _ in used]
        taking_part += [(one.site, f"{one.gpu.name}{of}") for one in group for of in ("", ":nvlink")]
        if any(site.trouble_of(part) == "hanging" for site, part in taking_part):  # a hanging part never answers
            process.printed = self.setting.marked(listing, 0)
        elif failure := failure or self._cut(rack, ring, used, group[0].pid):
            status, message = failure
            stdout = self.setting.marked(listing + message, 0)
            rack.timeline.exit_later(process, ready_s + FAIL_S, status=status, stdout=stdout)
        else:
            left = rack.passing.left([(site.host.name, rnic.device) for site, rnic, _ in used], bits, ready_s)
            running = RunningCollective(self, rack, process, self._plan(group, used, ring, left=left), listing, bits)
            process.work = running
            rack.timeline.at(ready_s, running.start)

    def _rails(self, group: tuple[Member, ...]) -> list[Rail]:
        """
        Return the RNICs in use; none when NVLink joins all GPUs: in one host, or in a rack of them unless MNNVL is off.
        """
        if self._over_nvlink(group):
            return []
        by_site: dict[Site, list[Gpu]] = {}
        for member in group:
            by_site.setdefault(member.site, []).append(member.gpu)
        if len(by_site) == 1:
            return []
        env = self.setting.env
        return [(site, rnic, gpu) for site, gpus in by_site.items() for rnic, gpu in model.rails(site, gpus, env)]

    def _over_nvlink(self, group: tuple[Member, ...]) -> bool:
        hosts = tuple({member.site: member.site.host for member in group}.values())
        return joined_by_nvlink(hosts) and self.setting.env.get("NCCL_MNNVL_ENABLE") != "0"

    def _listing(self, first: Site, group: tuple[Member, ...]) -> str:
        """
        Return the output down to the list of devices; below it the library's version, where the first rank prints it.
        """
        words = {"operation": self.operation, "options": self.options, "told": text.tells_version(self.setting.env)}
        words |= {"amd": first.layout.platform.amd, "models": GPU_MODELS, "bus": pci_bus}
        return page("nccl-tests", **words, host=first.host.name, group=group)

    def _failure(self, group: tuple[Member, ...], used: list[Rail]) -> tuple[int, str] | None:
        """Return exit status and text when a part is broken, None when all work."""
        for member in group:
            host, pid = member.site.host.name, member.pid
            if member.site.trouble_of(member.gpu.name) == "broken":
                return 2, text.cuda_failure(host, pid)
            if member.site.trouble_of(f"{member.gpu.name}:nvlink") == "broken":
                return 3, text.nccl_failure(host, (pid,), BROKEN_LINK)
        sites = {member.site for member in group}
        if len(sites) > 1 and not self._over_nvlink(group) and {site for site, _, _ in used} != sites:
            return 3, text.nccl_failure(group[0].site.host.name, (group[0].pid,), "unhandled system error")
        for site, rnic, _ in used:
            if site.trouble_of(rnic.device) == "broken":
                mine = list(dict.fromkeys(member.pid for member in group if member.site is site))
                peer = next(member.site for member in group if member.site is not site)
                about = {"peer": peer.host.address, "device": rnic.device}
                return 3, text.network_failure(self.setting.env, site.host.name, mine, **about)
        return None

    def _weight(self, group: tuple[Member, ...], used: list[Rail]) -> float:
        """Return bus bandwidth over what one RNIC carries."""
        hosts = len({member.site for member in group})
        tree = model.is_tree(self.operation, hosts, algorithm=self.algorithm)
        counts = Counter(site for site, _, _ in used)
        return model.rail_weight(self.operation, len(group), hosts, rails=min(counts.values()), tree=tree)

    def _ring(self, rack: Rack, group: tuple[Member, ...], used: list[Rail], bits: int) -> Ring | None:
        """Return the hosts in rank order on the rails that all of them use; None where all are on the same leaves."""
        if not used:
            return None
        sites = tuple(dict.fromkeys(member.site for member in group))
        if len({site.host.leaves for site in sites}) == 1:
            return None
        rails = [{rnic.rail for site, rnic, _ in used if site is one} for one in sites]
        common = tuple(sorted(set.intersection(*rails)))
        ratio = self._weight(group, used) * RNIC_EFFICIENCY
        hosts = tuple(site.host.name for site in sites)
        adaptive = model.may_adapt(rack, hosts, self.setting.env)
        level = model.number_of(self.setting.env, "NCCL_IB_SL", most=15)
        every = self.operation == "alltoall"
        return rack.above.ring(Ring(hosts, common, ratio, adaptive, level, every=every, draw=bits))

    def _cut(self, rack: Rack, ring: Ring | None, used: list[Rail], pid: int) -> tuple[int, str] | None:
        """Return exit status and text when the network has no way for some edge of the ring."""
        network = rack.above.network if ring is not None else None
        if ring is None or network is None or not network.is_cut(ring):
            return None
        site, rnic, _ = used[0]
        about = {"peer": rack.topology.hosts[ring.hosts[1]].address, "device": rnic.device}
        return 3, text.network_failure(self.setting.env, site.host.name, (pid,), **about)

    def _plan(self, group: tuple[Member, ...], used: list[Rail], ring: Ring | None, *, left: float) -> CollectiveWay:
        """
        Return the way, with the least rate of NVLink in every host and of every rail between hosts, of which *left* is
        left.
        """
        gpus, hosts = len(group), len({site for site, _, _ in used}) or 1
        rings = hosts == 1 and "RING" in self.algorithm.upper()
        shares: list[Share] = []
        limits = []
        for member in group:
            index = member.site.layout.index[f"{member.gpu.name}:nvlink"]
            weight = model.nvlink_ratio(self.operation, member.site.layout.generation, rings=rings)
            shares.append((member.site, (index,), weight))
            limits.append(member.site.capacities[index] * weight)
        weight = self._weight(group, used) if used else 0.0
        for site, rnic, gpu in used:
            for path in site.layout.for_collective(rnic.device, gpu):
                shares.append((site, path.resources, weight))
                limits.append(site.ceiling_gbps(path) * weight * left)
        return CollectiveWay(gpus, hosts, _merged(shares), min(limits), ring)

    def time_us(self, plan: CollectiveWay, size_bytes: int, bus_gbps: float) -> float:
        """
        Return the time of one call with this size at a bus bandwidth, without noise.

        NCCL's choice of algorithm is modelled on three hosts or more; elsewhere only its low-latency protocols for
        small messages.
        """
        generation = plan.shares[0][0].layout.generation
        job = model.AllReduce(plan.gpus, plan.hosts, bus_gbps, model.PLATFORMS[generation])
        algorithms = model.algorithms_of(self.operation, plan.hosts, generation=generation, algorithm=self.algorithm)
        if algorithms:
            return model.all_reduce_us(size_bytes, job, algorithms)
        tree = model.is_tree(self.operation, plan.hosts, algorithm=self.algorithm)
        share = model.bus_factor(self.operation, plan.gpus) or 1.0
        simple_us = model.latency_us(self.operation, plan.gpus, plan.hosts, tree=tree)
        simple_us += size_bytes * 8 * share / (bus_gbps * 1000)
        if self.operation != "all_reduce":
            return simple_us
        return min(simple_us, model.all_reduce_us(size_bytes, job, ("tree" if tree else "ring",), ("ll", "ll128")))


def _pid(bits: int, number: int) -> int:
    """Return the number of a rank's process."""
    return 2 + word(bits, -2 - number) % 4194300


def _merged(shares: list[Share]) -> tuple[Share, ...]:
    """Return one share per host and weight."""
    merged: dict[tuple[Site, float], list[int]] = {}
    for site, resources, weight in shares:
        merged.setdefault((site, weight), []).extend(resources)
    # A part that two rails run through stays in twice: it carries twice as much.
    return tuple((site, tuple(found), weight) for (site, weight), found in merged.items())


@dataclass(slots=True, eq=False)
class Outage:
    """A time in which nothing gets through, and the retry that will end it: None while there is no path."""

    began_s: float
    retry_s: float | None = None


class RunningCollective(Flow):
    """
    A collective test from its start-up to its last row.

    When its packets vanish it stands still, then goes on at a retry, or NCCL gives up when that takes too long; or it
    goes on over the other of two RNICs that NCCL has merged into one (*moved*).
    """

    def __init__(
        self, job: CollectiveJob, rack: Rack, process: Process, plan: CollectiveWay, listing: str, bits: int
    ) -> None:
        super().__init__(plan.shares, plan.bus_gbps, ring=plan.ring)
        self.job, self.rack, self.process, self.plan, self.listing = job, rack, process, plan, listing
        self.bits, self.gone = bits, False
        hosts = tuple(dict.fromkeys(site.host.name for site, _, _ in plan.shares))
        self.timeout, self.retries = model.patience_of(job.setting.env, least=model.least_timeout(rack, hosts))
        self.outage: Outage | None = None
        self.moved = False

    def start(self, at_s: float) -> None:
        """Begin the first size: set-up is over."""
        if self.gone:
            return
        self.process.printed = self.job.setting.marked(self.listing, 0)
        options = self.job.options
        calls = 2 * (options.warmup + options.iterations)
        bus_gbps = self.plan.bus_gbps
        busy_s = sum(calls * self.job.time_us(self.plan, size, bus_gbps) for size in self.job.sizes_bytes) / 1e6
        self.rack.timeline.sharing.begin(self, at_s, need_gb=busy_s * self.ceiling_gbps)

    def real_rate_gbps(self, rate_gbps: float, at_s: float) -> float:
        """
        Return the rate it really moves at, where its paths would carry *rate_gbps*.

        From the first lost packet on it is 0, until a retry finds paths that work: k * T after that, with T the timeout
        of its queue pairs. A path that works only between two retries does not help.
        """
        outage, timeline = self.outage, self.rack.timeline
        if self.moved:
            self.moved = self.silent = rate_gbps <= 0.0 or not model.comes_back(self.job.setting.env)
            return model.ONE_OF_TWO_SHARE * (rate_gbps or self.plan.bus_gbps) if self.moved else rate_gbps
        if outage is None:
            self._lose(at_s)
            return 0.0
        if rate_gbps <= 0.0:
            outage.retry_s = None
            return 0.0
        if outage.retry_s is None:
            outage.retry_s = outage.began_s + model.stall_s(at_s - outage.began_s, self.timeout)
            if at_s < outage.retry_s < inf:
                timeline.at(outage.retry_s, lambda now_s: self._retry(outage, now_s))
        if at_s < outage.retry_s:
            return 0.0
        self.outage, self.silent = None, False
        timeline.sharing.mark_network_dirty(self)  # others have used its share; at this instant it is shared anew
        return rate_gbps

    def _lose(self, at_s: float) -> None:
        """Begin an outage: the first packets vanish."""
        outage = self.outage = Outage(at_s)
        self.silent = True
        self.rack.timeline.sharing.mark_network_dirty(self)

        def give_up(now_s: float) -> None:
            # The last retry still counts: if paths work again by then, it goes on.
            if not self.live or self.outage is not outage or outage.retry_s is not None:
                return
            port = self._lost_port()
            if port is not None and model.fails_over(self.job.setting.env, port[1]):
                self._move(now_s)
            else:
                self.abandon(self.process, now_s)
                self._give_up(now_s)

        if self.timeout:  # 0 waits for ever
            self.rack.timeline.at(at_s + model.abort_window_s(self.timeout, self.retries), give_up)

    def _move(self, at_s: float) -> None:
        """Move to the other RNIC; the effect on others in the network is left out."""
        sharing = self.rack.timeline.sharing
        if self.ring is not None and sharing.network is not None:
            sharing.network.end(self, self.carried_gb(at_s))
        self.ring, self.limit_gbps = None, inf
        self.moved, self.outage, self.silent = True, None, True  # silent: ``real_rate_gbps`` decides its rate
        sharing.dirty[self.shares[0][0]] = None

    def _retry(self, outage: Outage, at_s: float) -> None:
        """Have the rate computed anew at this instant."""
        if self.live and self.outage is outage and outage.retry_s == at_s:
            self.rack.timeline.sharing.dirty[self.shares[0][0]] = None

    def _give_up(self, at_s: float) -> None:
        site, device, peer = self._lost_port() or self._lost_edge() or (self.process.site, "mlx5_0", "")
        pids = (self._pid_on(site),)
        message = text.network_failure(self.job.setting.env, site.host.name, pids, peer=peer, device=device)
        stdout = self.job.setting.marked(self.listing + message, 0)
        self.rack.timeline.exit(self.process, at_s, status=3, stdout=stdout)

    def _lost_port(self) -> tuple[Site, str, str] | None:
        """Return a host, its RNIC that is down, and another host's address; None when all ports are up."""
        for site, resources, _ in self.shares:
            for device in sorted(site.down):
                if site.layout.index[f"{device}:out"] in resources:
                    others = [where.host.address for where, _, _ in self.shares if where is not site]
                    return site, device, others[0] if others else site.host.address
        return None

    def _lost_edge(self) -> tuple[Site, str, str] | None:
        """Return the same for an edge of the ring that the network does not carry; the sender notices it."""
        edge = self.rack.above.dead_edge(self.ring)
        if edge is None:
            return None
        sender, receiver, rail = edge
        hosts = self.rack.topology.hosts
        return self.rack.hosts.site(sender), hosts[sender].rnic(rail).device, hosts[receiver].address

    def _pid_on(self, site: Site) -> int:
        """Return the process of the first rank on a host."""
        names = self.job.setting.hosts
        return _pid(self.bits, names.index(site.host.name) if site.host.name in names else 0)

    def lost_gpu(self, site: Site, at_s: float) -> None:
        """End the collective: nccl-tests checks every CUDA call, so the rank on that GPU prints the error."""
        self.abandon(self.process, at_s)
        message = text.cuda_failure(site.host.name, self._pid_on(site))
        stdout = self.job.setting.marked(self.listing + message, 0)
        self.rack.timeline.exit_later(self.process, at_s + NOTICE_S, status=2, stdout=stdout)

    def abandon(self, process: Process, at_s: float) -> None:
        """Stop: the process was killed."""
        del process
        self.gone = True
        if self.live:
            self.rack.timeline.sharing.end(self, at_s)

    def finish(self, at_s: float) -> None:
        """Print the table and end, unless packets were lost for good."""
        job, plan, average_gbps = self.job, self.plan, self.average_gbps()
        platform = self.process.site.layout.platform
        traffic_class = model.number_of(job.setting.env, "NCCL_IB_TC", most=255)
        share = average_gbps / plan.bus_gbps
        if plan.hosts > 1 and self.rack.drops(platform, traffic_class, share):
            self._give_up(at_s)
            return
        factor = model.bus_factor(job.operation, plan.gpus)
        hosts = {site.host.name for site, _, _ in self.shares}
        rows: dict[int, list[str]] = {}
        adaptive = self.ring is not None and self.rack.above.forwarding.adapts(self.ring)
        total = 0.0
        for number, size in enumerate(job.sizes_bytes):
            cells = []
            for place in (0, 1):
                noise = self.rack.noise.factor(self.bits, 2 * number + place, hosts)
                noise *= self.rack.noise.reordered(self.bits, 2 * number + place) if adaptive else 1.0
                time_us = job.time_us(plan, size, average_gbps) / noise
                algorithm_gbytes = size / time_us / 1000
                cells.append(text.cell(time_us, algorithm_gbytes, algorithm_gbytes * factor))
                total += algorithm_gbytes * factor
            rows[size] = cells
        table = text.table(job.operation, rows, total / (2 * len(rows)), gpus=plan.gpus, rccl=platform.amd)
        self.rack.timeline.exit(self.process, at_s, status=0, stdout=job.setting.marked(self.listing + table, 0))
