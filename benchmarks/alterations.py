"""What is wrong with the text of a tool that answers another question, by the tool: each a function of the text."""

import re
from collections.abc import Callable

Alter = Callable[[str], str]


def swap(pattern: str, by: str, count: int = 0) -> Alter:
    """Every match, or the first *count*, replaced."""
    return lambda text: re.sub(pattern, by, text, count=count, flags=re.MULTILINE)


def without(pattern: str) -> Alter:
    """Without the lines that match."""
    return lambda text: "".join(line for line in text.splitlines(keepends=True) if re.search(pattern, line) is None)


def until(pattern: str) -> Alter:
    """Cut in the middle of the last line that matches."""

    def alter(text: str) -> str:
        found = list(re.finditer(rf"^.*(?:{pattern}).*$", text, re.MULTILINE))
        return text[: (found[-1].start() + found[-1].end()) // 2] if found else text

    return alter


def then(line: str) -> Alter:
    """With a line more at the end."""
    return lambda text: text + line


ROW = r"^ (\d+)( +)(\d+)( +)(\S+)( +)(\S+)(\s+)(\S+)$"


def _row(make: Callable[[int, int, float, float], tuple[int, int, str, float, float]]) -> Alter:
    """Another row of ib_write_bw that agrees with itself: of size, iterations, average and message rate."""

    def alter(text: str) -> str:
        def again(found: re.Match[str]) -> str:
            size, iterations, peak, average, rate = make(int(found[1]), int(found[3]), float(found[7]), float(found[9]))
            return f" {size}{found[2]}{iterations}{found[4]}{peak}{found[6]}{average:.2f}{found[8]}{rate:.6f}"

        return re.sub(ROW, again, text, flags=re.MULTILINE)

    return alter


PERFTEST: dict[str, Alter] = {
    "title: Read": swap("RDMA_Write BW", "RDMA_Read BW"),
    "title: Send": swap("RDMA_Write BW", "Send BW"),
    "title: Atomic": swap("RDMA_Write BW", "Atomic FETCH_AND_ADD BW"),
    "title: Bidirectional": swap("RDMA_Write BW", "RDMA_Write Bidirectional BW"),
    "title: Post List": swap("RDMA_Write BW", "RDMA_Write Post List BW"),
    "title: latency": swap("RDMA_Write BW", "RDMA_Write Latency"),
    "title: none": without("BW Test"),
    "device: another": swap(r"(Device +: )\S+", r"\g<1>mlx5_7"),
    "device: a longer name": swap(r"(Device +: \S+)", r"\g<1>0"),
    "device: none": swap(r"\t\tDevice +: \S+", ""),
    "queue pairs: more": swap(r"(Number of qps +: )\d+", r"\g<1>16"),
    "queue pairs: none": without("Number of qps"),
    "queue pairs: addresses of one more": swap(r"^( local address.*\n)", r"\1\1", 1),
    "link type: the other": lambda text: (
        text.replace("Link type       : IB", "Link type       : Ethernet")
        if "Link type       : IB" in text
        else text.replace("Link type       : Ethernet", "Link type       : IB")
    ),
    "link type: unknown": swap(r"(Link type +: )\S+", r"\g<1>Unknown"),
    "link type: none": without("Link type"),
    "connection: UC": swap(r"(Connection type : )RC", r"\g<1>UC"),
    "connection: UD": swap(r"(Connection type : )RC", r"\g<1>UD"),
    "connection: none": without("Connection type"),
    "GID index: another": swap(r"(GID index +: )3", r"\g<1>1"),
    "dual port": swap(r"(Dual-port +: )OFF", r"\g<1>ON"),
    "transport: iWARP": swap(r"(Transport type : )IB", r"\g<1>IW"),
    "rdma_cm": swap(r"(rdma_cm QPs\s+: )OFF", r"\g<1>ON"),
    "unit: MiB/sec": swap("Gb/sec", "MiB/sec"),
    "size: half": _row(lambda size, n, average, rate: (size // 2, 2 * n, "0.00", average, 2 * rate)),
    "size: all sizes": swap(r"^( \d+ .*\n)", r" 2  5000  0.00  0.16  10.000000\n\1", 1),
    "row: twice": swap(r"^( \d+ .*\n)", r"\1\1", 1),
    "row: none": without(r"^ \d+ "),
    "iterations: by number, with a peak": _row(
        lambda size, _n, average, rate: (size, 1000, f"{average + 1:.2f}", average, rate)
    ),
    "iterations: by number, without": _row(lambda size, _n, average, rate: (size, 1000, "0.00", average, rate)),
    "iterations: of ten times as long": _row(lambda size, n, average, rate: (size, 10 * n, "0.00", average, rate)),
    "iterations: of a tenth of the time": _row(lambda size, n, average, rate: (size, n // 10, "0.00", average, rate)),
    "two tables": lambda text: text + text,
    "two tables, the other of Send": lambda text: text.replace("RDMA_Write BW", "Send BW") + text,
    "GPU: another": swap(r"(Picking device No\. )\d+", r"\g<1>7"),
    "GPU: none": without("Picking device No"),
    "GPU: one that nobody asked for": lambda text: text if "Picking" in text else f"\nPicking device No. 0\n{text}",
    "complaint: status 12": then("Completion with error at client\n  Failed status 12: wr_id 0 syndrom 0x81\n"),
    "complaint: status 4": then("Completion with error at client\n  Failed status 4: wr_id 0 syndrom 0x51\n"),
    "complaint: no status": then("Completion with error at client\n"),
    "complaint: CQ": then(" poll CQ failed -1\n"),
    "complaint: Couldn't": then(" Couldn't post send: qp 0 scnt=12\n"),
    "complaint: Failed to": then(" Failed to complete run_iter_bw function successfully\n"),
    "complaint: Unable to": then(" Unable to write to socket/rdma_cm\n"),
    "complaint: peer": then("ethernet_read_keys: Couldn't read remote address\n"),
    "complaint: glued to the row": swap(r"^( \d+ .*\d)$", r"\1Completion with error at client", 1),
    "cut: no last line": lambda text: text[: text.rstrip().rfind("\n---")] + "\n",
    "cut: in the row": until(r"^ \d+  "),
    "cut: in the names of the columns": until("#bytes"),
    "cut: in the addresses": until("remote address"),
    "cut: after the head": lambda text: text[: text.find(" local address")],
    "cut: nothing left": lambda _text: "",
    "cut: no addresses": without("(local|remote) address"),
}  # fmt: skip


def _some(text: str, at: int) -> str:
    """The host of the rank *at*."""
    found = re.findall(r"Pid +\d+ on +(\S+)", text)
    return found[at] if found else "?"


def _on(make: Callable[[int, str], str]) -> Alter:
    """The host of each rank, made of its number and its host."""

    def alter(text: str) -> str:
        return re.sub(
            r"(Rank +)(\d+)( .* on +)(\S+)( device)",
            lambda found: f"{found[1]}{found[2]}{found[3]}{make(int(found[2]), found[4])}{found[5]}",
            text,
        )

    return alter


def _recomputed(alter: Alter) -> Alter:
    """With an average that agrees with the rows that are left."""

    def both(text: str) -> str:
        text = alter(text)
        rows = re.findall(r"^(?:\d+: |\[1,0\]<stdout>:)? *\d+ +\d+ +\w+ .*$", text, re.MULTILINE)
        busbw = [float(cells[at]) for cells in (row.split()[-8:] for row in rows) for at in (2, 6)]
        mean = sum(busbw) / len(busbw) if busbw else 0.0
        return re.sub(r"(Avg bus bandwidth +: )\S+", rf"\g<1>{mean:g}", text)

    return both


def _packed(text: str) -> str:
    """One rank of the last host moved to the first."""
    first, ranks = _some(text, 0), text.count("Rank ")
    return _on(lambda rank, host: first if rank == ranks - 1 else host)(text)


def _one_gpu_twice(text: str) -> str:
    """The second rank of the first host has the first one's GPU, by number and by place."""
    gpus = re.findall(r"device +\d+ +(?:\[\S+\])?", text)
    return text.replace(gpus[1], gpus[0], 1)


NCCL: dict[str, Alter] = {
    "hosts: all on the first": lambda text: _on(lambda _rank, _host: _some(text, 0))(text),
    "hosts: nobody asked for these": _on(lambda _rank, host: f"x{host}"),
    "hosts: one nobody asked for": lambda text: text.replace(f" {_some(text, -1)} ", " gpu099 "),
    "hosts: one called as another begins": lambda text: text.replace(f" {_some(text, -1)} ", f" {_some(text, -1)}0 "),
    "hosts: packed unevenly": _packed,
    "hosts: localhost": _on(lambda _rank, _host: "localhost"),
    "devices: one twice": _one_gpu_twice,
    "ranks: one missing": without(r"Rank +1 "),
    "ranks: one twice": swap(r"Rank +1 ", "Rank  0 "),
    "ranks: the last half missing": lambda text: without(
        rf"Rank +(?:{'|'.join(str(n) for n in range(text.count('Rank ') // 2, text.count('Rank ')))}) "
    )(text),
    "ranks: in two groups": swap(r"(Rank +\d*[13579] Group +)0", r"\g<1>1"),
    "ranks: no list": without("Rank "),
    "ranks: more": swap(r"(# +Rank +)0( .*\n)", r"\g<1>0\2\g<1>99\2", 1),
    "test: another starts": swap(r"(test starting: )\w+", r"\g<1>all_gather_perf"),
    "test: another concluded": swap(r"(test concluded: )\w+", r"\g<1>sendrecv_perf"),
    "test: another": swap(r"(test \w+: )\w+", r"\g<1>reduce_scatter_perf"),
    "test: none starts": without("test starting"),
    "test: none concluded": without("test concluded"),
    "results: validation 0": swap("validation: 1", "validation: 0"),
    "results: N/A": swap(r"^((?:.*: ?)? *\d+ +\d+ +\w+ .*) 0( .*) 0( *)$", r"\1 N/A\2 N/A\3"),
    "results: out of place N/A": swap(
        r"^((?:.*: ?)? *\d+ +\d+ +\w+ +\S+ +\S+ +\S+ +\S+ +\S+ +)0 ", r"\g<1>N/A "
    ),
    "results: wrong elements": swap(r"^((?:.*: ?)? *\d+ +\d+ +\w+ +\S+ +\S+ +\S+ +\S+ +\S+ +)0 ", r"\g<1>12 ", 1),
    "results: out of bounds": swap("values : 0 OK", "values : 3 FAILED"),
    "results: out of bounds, and OK": swap("values : 0 OK", "values : 3 OK"),
    "results: not told": without("Out of bounds"),
    "iterations: 1": swap(r"(?<!warmup )(?<!agg )iters: 20", "iters: 1"),
    "iterations: warm-up": swap("warmup iters: 5", "warmup iters: 0"),
    "iterations: aggregated": swap("agg iters: 1 ", "agg iters: 10 "),
    "graph": swap("graph: 0", "graph: 1"),
    "threads": swap("nThread 1", "nThread 2"),
    "GPUs a process": swap(r"nGpus (\d)", r"nGpus \g<1>0"),
    "sizes: other least": swap(r"minBytes \d+", "minBytes 8"),
    "sizes: other most": swap(r"maxBytes \d+", "maxBytes 8589934592000"),
    "sizes: other step": swap(r"step: \d", "step: 4"),
    "sizes: the first row missing": _recomputed(swap(r"^(?:\d+: |\[1,0\]<stdout>:)? *\d+ +\d+ +float .*\n", "", 1)),
    "options: no line": without("nThread"),
    "type: half": swap(r" float ", " half "),
    "type: of one row": swap(r" float ", " bfloat16 ", 1),
    "reduction: max": swap(r" (?:sum|none) ", " max "),
    "root: 0": swap(r"( (?:sum|none) +)-1 ", r"\g<1>0 "),
    "complaint: status 12": then(
        "gpu001:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.1<5> with status=12 vendor err 129\n"
    ),
    "complaint: NCCL": then("gpu001: Test NCCL failure common.cu:1279 'unhandled system error / '\n"),
    "complaint: launcher": then("mpirun noticed that process rank 3 with PID 0 on node gpu002 exited on signal 9\n"),
    "two tests": lambda text: text + text,
    "two tests, the other of other sizes": lambda text: text.replace("minBytes", "minBytes 1 maxBytes 2") + text,
    "average: altered": swap(r"(Avg bus bandwidth +: )\d", r"\g<1>9"),
    "average: none": without("Avg bus"),
    "cut: in a row": until(" float "),
    "cut: in the average": until("Avg bus"),
    "cut: in the list": until("Rank "),
    "cut: in the last line": until("Out of bounds"),
    "cut: nothing left": lambda _text: "",
}  # fmt: skip
