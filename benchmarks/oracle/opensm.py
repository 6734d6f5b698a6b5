"""Regenerate tests/golden/opensm: what a real OpenSM, on ibsim's fake fabric, puts into the forwarding tables.

Needs Debian's opensm and ibsim-utils. `python -m benchmarks.oracle.opensm` writes the files and says how many
entries of ours agree.
"""

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from fabric.sim.net.clos import Clos, ClosSpec, build
from fabric.sim.net.route import routes

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "golden" / "opensm"
UMAD = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
WITHIN_S = 120.0
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

TWO_LEVELS = ClosSpec(512, 1, 16, 16, 2, 0, 0, False, 400.0, 400.0)
TAPERED = ClosSpec(72, 1, 6, 4, 3, 3, 3, False, 400.0, 400.0)
WIDE = ClosSpec(48, 1, 8, 12, 2, 0, 0, False, 400.0, 400.0)
THREE_LEVELS = ClosSpec(128, 1, 4, 4, 3, 4, 4, False, 400.0, 400.0)
CASES = {
    f"{engine}-{name}": (engine, spec, None)
    for name, spec in (
        ("2-levels-512", TWO_LEVELS),
        ("2-levels-48-wide", WIDE),
        ("3-levels-128", THREE_LEVELS),
        ("3-levels-72-tapered", TAPERED),
    )
    for engine in ("ftree", "updn", "minhop")
} | {
    # Without a list of root switches updn no longer takes spine 3 for a root, and leaves all of it unused.
    f"{engine}-2-levels-64-lost": (engine, ClosSpec(64, 1, 8, 8, 2, 0, 0, False, 400.0, 400.0), (2, 3))
    for engine in ("ftree", "minhop", "updn")
}


def netlist(clos: Clos, lost: tuple[int, int] | None) -> str:
    """The network in ibsim's words: hosts on the first ports of a leaf, then uplinks in the order of spines.

    The cable of the leaf and the spine *lost* is not there.
    """
    spec, ports = clos.spec, {}
    for nic in range(clos.nics):
        leaf, port = divmod(nic, spec.down)
        join(ports, f"H{nic:04d}", 1, f"L{leaf:04d}", port + 1)
    for leaf in range(clos.leaves):
        pod, place = divmod(leaf, clos.leaves_per_pod)
        for spine in range(spec.up):
            if (leaf, spine) == lost:
                continue
            join(ports, f"L{leaf:04d}", spec.down + spine + 1, f"S{pod * spec.up + spine:04d}", place + 1)
    for pod in range(clos.pods if clos.spec.core_up else 0):
        for spine in range(spec.up):
            for core in range(clos.spec.core_up):
                above = f"C{spine * clos.spec.core_up + core:04d}"
                join(ports, f"S{pod * spec.up + spine:04d}", clos.leaves_per_pod + core + 1, above, pod + 1)
    lines = []
    for node in sorted(ports, key=lambda name: ("LSCH".index(name[0]), name)):
        kind = "Hca" if node[0] == "H" else "Switch"
        lines.append(f'{kind} {max(ports[node])} "{node}"')
        lines += [f'[{port}] "{far}"[{far_port}]' for port, (far, far_port) in sorted(ports[node].items())]
        lines.append("")
    return "\n".join(lines)


def join(ports: dict[str, dict[int, tuple[str, int]]], one: str, port: int, other: str, other_port: int) -> None:
    """One cable, both ends."""
    ports.setdefault(one, {})[port] = (other, other_port)
    ports.setdefault(other, {})[other_port] = (one, port)


def forwarding(clos: Clos, engine: str, *, lost: tuple[int, int] | None = None) -> dict[str, dict[str, int]]:
    """switch -> host -> port, as OpenSM dumps it after its first sweep."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "net").write_text(netlist(clos, lost))
        with (place / "ibsim.log").open("w") as log:
            fake = subprocess.Popen(
                ["ibsim", "-s", "-n", "-N", "4096", "-S", "1024", "-P", "32768", "net"],
                cwd=place, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(place),
            )  # fmt: skip
        try:
            sweep(place, engine)
            return read(place / "opensm-lfts.dump")
        finally:
            fake.terminate()
            fake.wait(timeout=10)


def environment(place: Path) -> dict[str, str]:
    """A socket name of our own, so that other fake fabrics are not disturbed."""
    name = f"fabric-oracle-{os.getpid()}"
    return {**os.environ, "IBSIM_SOCKNAME": name, "OSM_TMP_DIR": f"{place}/", "OSM_CACHE_DIR": f"{place}/"}


def sweep(place: Path, engine: str) -> None:
    """One sweep of OpenSM from the first host."""
    deadline = time.monotonic() + WITHIN_S
    while "ready" not in (place / "ibsim.log").read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    subprocess.run(
        ["opensm", "-o", "-R", engine, "-D", "0x43", "-f", str(place / "osm.log")],
        cwd=place, check=True, timeout=WITHIN_S, capture_output=True,
        env={**environment(place), "LD_PRELOAD": UMAD, "SIM_HOST": "H0000"},
    )  # fmt: skip


def read(path: Path) -> dict[str, dict[str, int]]:
    """The dump of unicast forwarding tables."""
    tables: dict[str, dict[str, int]] = {}
    for line in path.read_text().splitlines():
        if line.startswith("Unicast lids"):
            name = re.search(r"\(?'?\b([LSC]\d{4})\b", line)
            if not name:
                raise SystemExit(f"unreadable: {line}")
            table = tables.setdefault(name[1], {})
        elif entry := re.match(r"0x[0-9A-Fa-f]+ (\d+) +(?::|#|%).*\b(H\d{4})\b", line):
            table[entry[2]] = int(entry[1])
    return tables


def choices(clos: Clos, tables: dict[str, dict[str, int]]) -> tuple[np.ndarray, np.ndarray]:
    """[leaf, NIC] the spine and [spine, NIC] the core, -1 where the way leads down."""
    spec = clos.spec

    def ups(kind: str, count: int, below: int) -> np.ndarray:
        rows = [[tables[f"{kind}{i:04d}"][f"H{n:04d}"] - below - 1 for n in range(clos.nics)] for i in range(count)]
        return np.maximum(np.array(rows).reshape(count, clos.nics), -1)

    return ups("L", clos.leaves, spec.down), ups(
        "S", clos.pods * spec.up if clos.spec.core_up else 0, clos.leaves_per_pod
    )


def ours(clos: Clos, engine: str, *, lost: tuple[int, int] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The same two tables as this project computes them."""
    spec, dst = clos.spec, np.arange(clos.nics)
    down = frozenset() if lost is None else frozenset({int(clos.leaf_up(*lost)), int(clos.leaf_dn(*lost))})
    spines = np.full((clos.leaves, clos.nics), -1)
    cores = np.full((clos.pods * spec.up if clos.spec.core_up else 0, clos.nics), -1)
    for leaf in range(clos.leaves):
        src = np.full(clos.nics, leaf * spec.down)
        links = routes(clos, src, dst, engine=engine, down=down).links.astype(np.int64)
        away = np.flatnonzero(links[:, 1] < clos.links)
        spines[leaf, away] = (links[away, 1] - int(clos.leaf_up(0, 0))) % spec.up
        across = np.flatnonzero(links[:, 2] < clos.links)
        if len(across):
            spine, core = np.divmod(links[across, 2] - int(clos.spine_up(0, 0, 0)), clos.spec.core_up)
            cores[spine, across] = core
    return spines, cores


def text(engine: str, tables: tuple[np.ndarray, np.ndarray]) -> str:
    """A line for each switch, a character for each NIC; a dot where the way leads down."""
    lines = [
        f"# OpenSM 3.3.23 -R {engine} on ibsim 0.10, Debian 12: uplink of each leaf, then of each spine, for each NIC"
    ]
    for kind, table in zip(("leaf", "spine"), tables, strict=True):
        lines += [f"{kind} {i} " + "".join("." if up < 0 else DIGITS[up] for up in row) for i, row in enumerate(table)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write every golden file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (engine, spec, lost) in CASES.items():
        clos = build(spec)
        theirs = choices(clos, forwarding(clos, engine, lost=lost))
        (FOLDER / f"{name}.txt").write_text(text(engine, theirs))
        mine = ours(clos, engine, lost=lost)
        asked = [table >= 0 for table in mine]  # a spine not on any of our ways to a NIC has no say
        agree = sum(int((a == b)[c].sum()) for a, b, c in zip(mine, theirs, asked, strict=True))
        print(f"{name}: {agree} of {sum(int(c.sum()) for c in asked)} entries agree")


if __name__ == "__main__":
    main()
