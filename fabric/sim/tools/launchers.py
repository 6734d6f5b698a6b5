"""The launchers ``mpirun`` and ``srun``: one program on several hosts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabric.model.text import unfold
from fabric.sim import page
from fabric.sim.hashing import text_hash
from fabric.sim.hosts.timeline import Process
from fabric.sim.rack import Rack
from fabric.sim.tools.call import BadOption, Program, number, options, parse_options
from fabric.sim.tools.host_programs import garbage

CONNECT_S = 10.0  # time until a launcher gives up on a dead host: choice
LAUNCH_S = 1.0  # time until its daemons run on every host: choice

_MPIRUN = options("""
    ranks=  -n --n -c --np
    hosts=  -H --host
    tag     --tag-output
    plain=  -N --map-by --bind-to --rank-by --npernode --prefix --timeout --wdir --output-filename --ppr --launch-agent
    as_root --allow-run-as-root
    flag    -q --quiet -v --verbose --oversubscribe --report-bindings --display-map --nolocal
    flag    --merge-stderr-to-stdout --bind-to-none --use-hwthread-cpus --get-stack-traces
""")
_SRUN = options("""
    nodes=     -N --nodes
    ranks=     -n --ntasks
    hosts=     -w --nodelist
    per_host=  --ntasks-per-node
    export=    --export
    tag        -l --label
    plain=     -t --time -p --partition -J --job-name -A --account -c --cpus-per-task --mpi --cpu-bind --chdir -D
    gpus=      --gres -G --gpus --gpus-per-node --gpus-per-task
    plain=     --gpu-bind --mem --mem-bind --distribution -m --qos
    plain=     --jobid --reservation --container-image --container-mounts --kill-on-bad-exit --immediate
    plain      -K -I
    flag       -u --unbuffered -Q --quiet --exclusive --overlap -O --overcommit -v --verbose
""")


@dataclass(frozen=True, slots=True)
class Launch:
    """
    A launcher's command line, read: *slots* has a host name for each rank that fits; empty: the launcher's own host.

    *ranks* None means one a slot. *as_root*: root may use it; *shows_gpus*: it asked Slurm for GPUs.
    """

    launcher: str
    slots: tuple[str, ...]
    ranks: int | None
    env: Mapping[str, str]
    tag: bool
    words: tuple[str, ...]
    as_root: bool = True
    shows_gpus: bool = True


def mpirun(words: Sequence[str], env: Mapping[str, str]) -> Launch:
    """Read Open MPI 4's command line; raises BadOption."""
    plain, exported = _without_pairs(words, env)
    fields, rest = parse_options(plain, _MPIRUN, stop_early=True)
    slots = list[str]()
    for entry in filter(None, fields.get("hosts", "").split(",")):
        name, _, count = entry.partition(":")
        slots += [name] * (int(count) if count.isdigit() else 1)
    merged = {**env, **exported}
    allowed = "as_root" in fields or {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"} <= env.keys()
    ranks, tag = _count(fields, "ranks"), "tag" in fields
    return Launch("mpirun", tuple(slots), ranks, merged, tag, tuple(rest), as_root=allowed)


def _without_pairs(words: Sequence[str], env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Rewrite Open MPI's own spellings: ``-np``, ``--mca NAME VALUE``, and ``-x``, which may be repeated."""
    plain: list[str] = []
    exported: dict[str, str] = {}
    left = list(words)
    while left and left[0].startswith("-"):
        text = left.pop(0)
        if text in ("-mca", "--mca", "-gmca", "--gmca"):
            del left[:2]
        elif text == "-x":
            name, equals, value = "".join(left[:1]).partition("=")
            del left[:1]
            if equals or name in env:
                exported[name] = value if equals else env[name]
        else:
            plain.append(f"-{text}" if text[1:2] != "-" and f"-{text}" in _MPIRUN and len(text) > 2 else text)
            values = int(_MPIRUN.get(plain[-1], "").endswith("="))
            plain += left[:values]
            del left[:values]
    return plain + left, exported


def srun(words: Sequence[str], env: Mapping[str, str]) -> Launch:
    """Read Slurm's command line; raises BadOption."""
    fields, rest = parse_options(words, _SRUN, stop_early=True)
    try:
        names = unfold(fields["hosts"]) if "hosts" in fields else ()
    except ValueError as exc:
        raise BadOption(f"Invalid node name specified: {exc}") from exc
    exported = dict(entry.split("=", 1) for entry in fields.get("export", "").split(",") if "=" in entry)
    ranks, per_host = _count(fields, "ranks"), _count(fields, "per_host")
    if ranks is None:
        ranks = max(1, len(names)) * (per_host or 1)
    per_host = per_host or -(-ranks // max(1, len(names)))
    slots = tuple(name for name in names for _ in range(per_host))
    shows, tag = "gpus" in fields, "tag" in fields
    return Launch("srun", slots, ranks, {**env, **exported}, tag, tuple(rest), shows_gpus=shows)


def _count(fields: Mapping[str, str], field: str) -> int | None:
    return number(fields[field], least=1) if field in fields else None


class Launched:
    """
    A program that a launcher starts on other hosts, or on its own host where none are named.

    *blind* is the same program in a step whose device cgroup has no GPU. *many*: it runs once a rank; a program that
    knows nothing of ranks runs on the host of its one rank.
    """

    def __init__(self, launch: Launch, names: tuple[str, ...], inner: Program, blind: Program, *, many: bool) -> None:
        self._launch, self._inner, self._blind, self._many = launch, inner, blind, many
        self._names = tuple(dict.fromkeys(names))

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Refuse root where the site does; else reach every host, then start the program."""
        if not self._launch.as_root and "root" in rack.mock.site:
            rack.timeline.exit_later(process, at_s + LAUNCH_S, status=1, stderr=page("mpirun-as-root"))
            return
        inner = self._blind if "gres" in rack.mock.site else self._inner
        if not self._names:
            inner.begin(rack, process, at_s)
            return
        kinds = set()
        for name in self._names:
            reason = rack.hosts.unreachable(name)
            if reason is not None:
                complaint = page(f"{self._launch.launcher}-no-daemon", host=name, reason=reason)
                rack.timeline.exit_later(process, at_s + CONNECT_S, status=1, stderr=complaint)
                return
            kinds.add(rack.hosts.kind(name))
        if "hanging" in kinds:
            return
        if "garbage" in kinds:
            rack.timeline.exit_later(process, at_s + LAUNCH_S, status=0, stdout=garbage(text_hash(self._names[0])))
            return
        if not self._many:
            process.site = rack.hosts.site(self._names[0])
        inner.begin(rack, process, at_s + LAUNCH_S)
