"""SimGrid's answer to the same flows, and what it costs.

`python -m benchmarks.oracle.simgrid` regenerates tests/golden/simgrid and says how far ours is from it. Needs Debian's
libsimgrid-dev and g++. SimGrid runs with CM02 and optim Full: its default, Lazy, gives other rates here.
"""

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fabric.sim.net.clos import Clos, ClosSpec, build
from fabric.sim.net.maxmin import max_min
from fabric.sim.net.route import mixed, routes

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "golden" / "simgrid"
SOURCE = Path(__file__).parent / "simgrid_solve.cpp"
RATE_GBPS = 400.0
SIZE_BYTES = 1e12
WITHIN_S = 600.0
SETTINGS = (
    "network/model:CM02", "network/optim:Full", "network/TCP-gamma:0", "network/crosstraffic:0", "network/weight-S:0",
    "network/bandwidth-factor:1", "network/latency-factor:1", "surf/precision:1e-12",
)  # fmt: skip
TWO_LEVELS = ClosSpec(512, 1, 16, 16, 2, 0, 0, False, RATE_GBPS, RATE_GBPS)
THREE_LEVELS = ClosSpec(4096, 1, 16, 16, 3, 16, 16, False, RATE_GBPS, RATE_GBPS)
CASES = (("2-levels", TWO_LEVELS, 1), ("2-levels-8-each", TWO_LEVELS, 8), ("3-levels", THREE_LEVELS, 1))


@dataclass(frozen=True, slots=True)
class Answer:
    """What one run of SimGrid said."""

    routes: tuple[tuple[int, ...], ...]  # its own link ids
    end_s: np.ndarray
    cpu_s: dict[str, float]  # build, start, solve, finish


def flows(nics: int, each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """*each* permutations one after another, by the integer mix: the same with every numpy."""
    src = np.tile(np.arange(nics), each)
    dst = np.concatenate([np.argsort(mixed(seed + i, np.arange(nics)), kind="stable") for i in range(each)])
    apart = src != dst
    return src[apart], dst[apart]


def compiled(folder: Path) -> Path | None:
    """The program, or None where SimGrid or a compiler is not installed."""
    if not shutil.which("g++") or not Path("/usr/include/simgrid/s4u.hpp").exists():
        return None
    program = folder / "simgrid_solve"
    subprocess.run(["g++", "-O2", "-std=c++17", "-w", str(SOURCE), "-lsimgrid", "-o", str(program)], check=True)
    return program


def ask(program: Path, clos: Clos, src: np.ndarray, dst: np.ndarray, *, mode: str) -> Answer:
    """Run one question through SimGrid; the mode is routes, solve or finish."""
    spec = clos.spec
    down, up = [spec.down, clos.leaves_per_pod], [1, spec.up]
    if clos.spec.core_up:
        down, up = [*down, clos.pods], [*up, spec.core_up]
    words = [",".join(map(str, part)) for part in (down, up)]
    argv = [str(program), str(spec.levels), *words, str(RATE_GBPS * 1e9 / 8), str(SIZE_BYTES), mode]
    argv += ["--log=root.thresh:critical", *(f"--cfg={setting}" for setting in SETTINGS)]
    told = "\n".join(f"{a} {b}" for a, b in zip(src, dst, strict=True))
    said = subprocess.run(argv, input=told, capture_output=True, text=True, timeout=WITHIN_S, check=True).stdout
    lines = [line.split() for line in said.splitlines()]
    return Answer(
        tuple(tuple(map(int, line[1:])) for line in lines if line[0] == "route"),
        np.array([float(line[1]) for line in lines if line[0] == "end"]),
        {line[0].removeprefix("cpu_").removesuffix("_s"): float(line[1]) for line in lines if line[0][:4] == "cpu_"},
    )


def same_routes(clos: Clos, mine: np.ndarray, theirs: tuple[tuple[int, ...], ...]) -> bool:
    """Whether both cross the same links, whatever they call them."""
    known: dict[int, int] = {}
    for row, other in zip(mine.tolist(), theirs, strict=True):
        hops = [link for link in row if link < clos.links]
        if len(hops) != len(other) or any(known.setdefault(a, b) != b for a, b in zip(hops, other, strict=True)):
            return False
    return len(set(known.values())) == len(known)


def completion(links: np.ndarray, capacity_gbps: np.ndarray, size_bytes: np.ndarray) -> np.ndarray:
    """When each flow has moved its bytes, in seconds, all starting at 0: every rate is found anew when one ends."""
    left, ends_s, now_s, going = size_bytes * 8e-9, np.full(len(links), np.inf), 0.0, np.arange(len(links))
    while len(going):
        rate = max_min(links[going], capacity_gbps)
        if not rate.any():
            break
        left_s = np.divide(left[going], rate, out=np.full(len(going), np.inf), where=rate > 0)
        now_s += left_s.min()
        left[going] -= rate * left_s.min()
        done = left_s <= left_s.min() * (1 + 1e-9)
        ends_s[going[done]] = now_s
        going = going[~done]
    return ends_s


def main() -> None:
    """Write every golden file and say how far ours is from it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder))
        if program is None:
            raise SystemExit("libsimgrid-dev or g++ is not installed")
        for name, spec, each in CASES:
            write(program, name, spec, each)


def write(program: Path, name: str, spec: ClosSpec, each: int) -> None:
    """Ask SimGrid, compare, and keep what it said where each NIC sends once."""
    clos = build(spec)
    src, dst = flows(clos.nics, each, 1)
    paths = routes(clos, src, dst, engine="ftree")
    same = same_routes(clos, paths.links, ask(program, clos, src, dst, mode="routes").routes)
    end_s = ask(program, clos, src, dst, mode="finish").end_s
    ours = completion(paths.links, clos.capacity_gbps, np.full(len(src), SIZE_BYTES))
    off = np.abs(ours / end_s - 1).max()
    print(f"{name}: {len(src)} flows, same routes: {same}, largest relative difference {off:.1e}")
    if each == 1:
        head = (
            f"# SimGrid 3.32, CM02, optim:Full: {len(src)} flows of {SIZE_BYTES:g} B on links of {RATE_GBPS:g} Gb/s\n"
        )
        rows = "".join(f"{a} {b} {t:.15g}\n" for a, b, t in zip(src, dst, end_s, strict=True))
        (FOLDER / f"{name}-{clos.nics}.txt").write_text(f"{head}# source, destination, end in s\n{rows}")


if __name__ == "__main__":
    main()
