"""``ib_write_bw`` for hosts without RDMA: the same options, handshake and table over TCP connections.

The two sides meet by the server's name (management network) and exchange their data addresses, as perftest does with
GIDs. A connection that gets nowhere for RETRY_S ends as a queue pair does: status 12. It uses the standard library
only, because it runs without this package.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import random
import select
import socket
import struct
import sys
import time
from typing import Any

RETRY_S = 1.5  # a choice: an RNIC gives up after 0.5 to 2 s; TCP connects anew after 1 s, sends after 0.2, 0.6, 1.4
AWAKE_S = 0.2  # between two looks no more time counts as standing still: a busy machine may delay a look
MEET_S = 20.0
LEAD = 0.4  # share of the duration not counted: connections reach their rate and recover from the first full queue
ROCE_PORT, SOURCE_PORTS = 4791, 0xC000
SIOCGIFADDR, SIOCOUTQ = 0x8915, 0x5411
RULE = "-" * 87
PORTS = {"mlx5_0": "eth1"}
Message = dict[str, Any]

HEAD = """\
{rule}
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : {device}
 Number of qps   : {pairs}\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 PCIe relax order: OFF
 TX depth        : 128
 CQ Moderation   : 1
 Mtu             : 1024[B]
 Link type       : Ethernet
 GID index       : {gid}
 Max inline data : 0[B]
 rdma_cm QPs\t : OFF
 Data ex. method : Ethernet
{rule}"""


def options() -> argparse.Namespace:
    """Read the options of perftest that are known here; any other is refused as in perftest."""
    parser = argparse.ArgumentParser(prog="ib_write_bw", allow_abbrev=False)
    parser.add_argument("-d", "--ib-dev", default="mlx5_0")
    for name, default in (("ib-port", 1), ("port", 18515), ("size", 65536), ("duration", 5), ("qp", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--gid-index", type=int, default=1)
    parser.add_argument("--tclass", type=int, default=0)
    parser.add_argument("--flow_label", type=int, default=0)
    parser.add_argument("--report_gbits", action="store_true")
    parser.add_argument("--CPU-freq", "-F", action="store_true")
    parser.add_argument("--version", "-V", action="store_true")
    parser.add_argument("peer", nargs="?")
    return parser.parse_args()


def main() -> int:
    """Run one side of a test; return the exit status."""
    asked = options()
    with contextlib.suppress(OSError):  # an RNIC moves its bytes whatever else a machine does
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))
    if asked.version:
        print("Version: 6.29")
        return 1
    if asked.ib_dev not in PORTS:
        return fail(f" IB device {asked.ib_dev} not found\n Unable to find the Infiniband/RoCE device")
    try:
        own = address_of(PORTS[asked.ib_dev])
    except OSError:
        return fail(f" Port number {asked.ib_port} state is Down\n Couldn't set the link layer")
    return serve(asked, own) if asked.peer is None else write(asked, own)


def fail(text: str) -> int:
    """Complain as perftest does, and return the exit status."""
    print(text, file=sys.stderr)
    return 1


def address_of(interface: str) -> str:
    """Return the IPv4 address of an interface; raises OSError where it has none, or no carrier."""
    with open(f"/sys/class/net/{interface}/carrier") as file:
        if file.read().strip() != "1":
            raise OSError
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        answer = fcntl.ioctl(asking, SIOCGIFADDR, struct.pack("256s", interface.encode()))
    return socket.inet_ntoa(answer[20:24])


def serve(asked: argparse.Namespace, own: str) -> int:
    """Wait for a client, read what it writes, and print the table that it made."""
    with socket.create_server(("", asked.port)) as listener, socket.socket() as data:
        data.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        data.bind((own, ROCE_PORT if asked.flow_label else 0))
        data.listen(asked.qp)
        print("\n" + "*" * 36 + "\n* Waiting for client to connect... *\n" + "*" * 36, flush=True)
        meeting, _ = listener.accept()
        here, there = exchange(meeting, asked, own, data.getsockname()[1])
        line = take(data, meeting)
    if not line:
        return fail(" Couldn't read remote address")
    table(asked, here, there, json.loads(line))
    return 0


def take(data: socket.socket, meeting: socket.socket) -> str:
    """
    Read until the client reports what it measured; return the report, empty when the client went away without one.
    """
    poll, buffer = select.poll(), bytearray(1 << 18)
    sockets = {sock.fileno(): sock for sock in (data, meeting)}
    for number in sockets:
        poll.register(number, select.POLLIN)
    while True:
        for number, _ in poll.poll():
            sock = sockets[number]
            if sock is meeting:
                return meeting.makefile().readline()
            if sock is data:
                pair = data.accept()[0]
                sockets[pair.fileno()] = pair
                poll.register(pair, select.POLLIN)
                continue
            try:
                gone = not sock.recv_into(buffer)
            except OSError:
                gone = True
            if gone:
                poll.unregister(number)


def write(asked: argparse.Namespace, own: str) -> int:
    """Connect, write for the duration, and report the result to the server."""
    try:
        meeting = socket.create_connection((asked.peer, asked.port), timeout=MEET_S)
        here, there = exchange(meeting, asked, own, 0)
    except (OSError, ValueError):
        return fail(f" Couldn't connect to {asked.peer}:{asked.port}")
    try:
        pairs = [connected(there, own, asked.flow_label) for _ in range(asked.qp)]
        row = flood(pairs, asked)
    except OSError:
        row = None
    if row is None:
        head(asked, here, there)
        print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]", flush=True)
        return fail(
            " Completion with error at client\n"
            " Failed status-transport retry counter exceeded (12): wr_id 0 syndrom 0x81\n"
            " Failed to complete run_iter_bw function successfully"
        )
    meeting.sendall(json.dumps(row).encode() + b"\n")
    table(asked, here, there, row)
    return 0


def connected(there: Message, own: str, label: int) -> socket.socket:
    """
    Return a connection for one queue pair; raises OSError.

    With a flow label a hash sends it the same way each time: its ports are those of RoCE (rdma-core
    ibv_flow_label_to_udp_sport). When it is closed, nothing is left that would keep the next one from the same ports.
    """
    source = SOURCE_PORTS | (label & 0x3FFF) ^ (label >> 14) if label else 0
    sock = socket.create_connection((there["address"], there["port"]), RETRY_S, (own, source))
    if label:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return sock


def flood(pairs: list[socket.socket], asked: argparse.Namespace) -> Message | None:
    """Write on every connection; return seconds and acknowledged bytes, None when a connection got nowhere."""
    chunk = bytes(min(asked.size, 1 << 16))
    poll = select.poll()
    sockets = {sock.fileno(): sock for sock in pairs}
    for number, sock in sockets.items():
        sock.setblocking(False)
        poll.register(number, select.POLLOUT)
    sent = dict.fromkeys(sockets, 0)
    acknowledged, still_s = dict(sent), dict.fromkeys(sockets, 0.0)
    began_s = now_s = time.monotonic()
    start_s, start, until_s = began_s, -1, began_s + asked.duration
    while now_s < until_s:
        looked_s = now_s
        for number, event in poll.poll(100):
            if event & ~select.POLLOUT:
                return None
            with contextlib.suppress(BlockingIOError):
                sent[number] += sockets[number].send(chunk)
        now_s = time.monotonic()
        for number in sockets:
            through = sent[number] - queued(number)
            still_s[number] += min(now_s - looked_s, AWAKE_S)
            if through > acknowledged[number]:
                acknowledged[number], still_s[number] = through, 0.0
            elif still_s[number] > RETRY_S:
                return None
        if start < 0 and now_s >= began_s + LEAD * asked.duration:
            start_s, start = now_s, sum(acknowledged.values())
            until_s = now_s + (1 - LEAD) * asked.duration  # also where a busy machine woke us late
    lasted_s, moved = now_s - start_s, sum(acknowledged.values()) - start
    if not moved or any(one > max(1.0, 0.5 * asked.duration) for one in still_s.values()):
        return None  # a queue pair that stands still to the end would have been retried to its end
    return {"seconds": lasted_s, "bytes": moved}


def queued(number: int) -> int:
    """Return the bytes of a connection that the other side has not acknowledged."""
    waiting: int = struct.unpack("i", fcntl.ioctl(number, SIOCOUTQ, b"\0" * 4))[0]
    return waiting


def exchange(meeting: socket.socket, asked: argparse.Namespace, own: str, port: int) -> tuple[Message, Message]:
    """Send the other side our addresses; return both sides' addresses."""
    here: Message = {"address": own, "port": port, "qpn": [random.randrange(1 << 24) for _ in range(asked.qp)]}
    here |= {"psn": [random.randrange(1 << 24) for _ in range(asked.qp)]}
    meeting.sendall(json.dumps(here).encode() + b"\n")
    return here, json.loads(meeting.makefile().readline())


def head(asked: argparse.Namespace, here: Message, there: Message) -> None:
    """Print everything above the table."""
    print(HEAD.format(rule=RULE, device=asked.ib_dev, pairs=asked.qp, gid=asked.gid_index))
    for side, end in (("local", here), ("remote", there)):
        gid = ":".join(
            f"{int(part):02d}" for part in ("0 " * 10 + "255 255 " + end["address"].replace(".", " ")).split()
        )
        for qpn, psn in zip(end["qpn"], end["psn"], strict=True):
            print(f" {side} address: LID 0000 QPN 0x{qpn:04x} PSN 0x{psn:x} RKey 0x000100 VAddr 0x007f0000000000")
            print(f" GID: {gid}")
    print(RULE)


def table(asked: argparse.Namespace, here: Message, there: Message, row: Message) -> None:
    """Print the whole page: head, one row, rule."""
    head(asked, here, there)
    unit, per_s = ("Gb/sec", 8e-9) if asked.report_gbits else ("MiB/sec", 1 / (1 << 20))
    rate = row["bytes"] / row["seconds"]
    iterations = max(1, row["bytes"] // asked.size)
    print(f" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]")
    counted = f" {asked.size:<10} {iterations:<15}0.00               {rate * per_s:.6f}"
    print(f"{counted} \t\t     {rate / asked.size / 1e6:.6f}")
    print(RULE)


if __name__ == "__main__":
    sys.exit(main())
