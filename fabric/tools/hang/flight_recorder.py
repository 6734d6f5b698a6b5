"""Dumps of PyTorch's flight recorder (schema 2.x, pickle or JSON): which collectives a rank called, how far they are.

A dump does not say which rank wrote it: the rank is the number at the end of the file's name (``nccl_trace_rank_3``).
gloo never reports a collective as completed, only as over (``retired``), possibly by an error; and its ``pg_config`` is
that of the last group only.
"""

import math
import operator
import re
from collections import defaultdict
from collections.abc import Callable
from pickletools import genops
from typing import Any

import orjson

from fabric.errors import UnreadableOutput
from fabric.model.hang import Call, CallState, JobEvidence, RankTrace

MOST_RANKS = 1 << 17
"""Most ranks of a job (a choice: the largest published jobs have 100,000)."""

_KEPT = 512
"""How many finished collectives of each group are kept, the last ones (a choice: how far apart ranks may be)."""

_RANK = re.compile(r"(\d{1,6})(?:\.[A-Za-z]{1,8})?$")
_DEFAULT = "default_pg"
_STATES = {"started": CallState.STARTED, "completed": CallState.COMPLETED}
_OWN_INPUT = ("scatter", "all_to_all", "alltoall")
_OWN_OUTPUT = ("gather", "all_to_all", "alltoall")
"""First words of collectives in which ranks may have other inputs, or outputs, than their neighbours."""


def is_dump(document: Any) -> bool:
    """Return whether a JSON document is a dump."""
    return isinstance(document, dict) and "entries" in document and "version" in document


def parse_json(document: Any, file_name: str) -> JobEvidence:
    """Return the evidence in one decoded dump; raise UnreadableOutput for anything else."""
    if not is_dump(document) or not str(document["version"]).startswith("2."):
        raise UnreadableOutput("no dump of PyTorch's flight recorder, schema 2.x")
    found = _RANK.search(file_name)
    if found is None or int(found[1]) >= MOST_RANKS:
        raise UnreadableOutput("expected a rank at the end of a dump's name, as in nccl_trace_rank_3")
    try:
        return _read(document, int(found[1]))
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError) as exc:
        raise UnreadableOutput(f"a damaged dump of PyTorch's flight recorder: {type(exc).__name__}: {exc}") from None


def _read(document: dict[str, Any], rank: int) -> JobEvidence:
    calls: dict[str, dict[int, Call]] = defaultdict(dict)
    names: dict[str, str] = {}  # of each group, by the number that this rank gave it
    waiting = False
    for entry in document["entries"]:
        name, description = entry["process_group"]
        if entry.get("is_p2p"):
            waiting |= not entry["retired"]
            continue
        group = f"{name:.80} ({description:.80})"
        names[str(entry["pg_id"])] = group
        calls[group][int(entry["collective_seq_id"])] = _call(entry)
    configured, listed = _members(document.get("pg_config") or {})
    status = {names.get(str(key)): value for key, value in (document.get("pg_status") or {}).items()}
    if "0" not in names and (default_status := (document.get("pg_status") or {}).get("0")):
        named = (group for group in configured if group.endswith(f"({_DEFAULT})"))
        status[next(named, f"0 ({_DEFAULT})")] = default_status  # all that it called is over and gone from its buffer
    traces = []
    for group in {*calls, *(one for one in status if one)}:
        group_status = status.get(group) or {}
        own = calls.get(group, {})
        called = max([*own, int(group_status.get("last_enqueued_collective", 0))])
        open_ = min((number for number, call in own.items() if call.state.value < CallState.OVER.value), default=None)
        members = configured.get(group, frozenset()) or (listed if group.endswith(f"({_DEFAULT})") else frozenset())
        kept = {number: call for number, call in own.items() if number > min(called, open_ or called) - _KEPT}
        traces.append(RankTrace(rank, group, called, open_ or called + 1, kept, members))
    return JobEvidence(
        tuple(traces), ranks=listed.union(range(rank + 1)), in_exchange=frozenset({rank} if waiting else ())
    )


def _call(entry: dict[str, Any]) -> Call:
    op = str(entry["profiling_name"]).partition(":")[2][:80]
    state = _STATES.get(entry["state"], CallState.CALLED)
    if entry["retired"] and state is not CallState.COMPLETED:
        state = CallState.OVER
    inputs = () if op.lower().startswith(_OWN_INPUT) else _elements(entry["input_sizes"])
    outputs = () if op.lower().startswith(_OWN_OUTPUT) else _elements(entry["output_sizes"])
    dtypes = tuple(str(one)[:40] for one in entry["input_dtypes"][:8])
    return Call(op, (*inputs, *outputs), dtypes, state, int(entry["time_created_ns"]))


def _elements(sizes: list[list[int]]) -> tuple[int, ...]:
    """Return the number of elements of each tensor of a call; for more than eight tensors only their sum."""
    counts = [math.prod(map(operator.index, size[:16])) for size in sizes[:4096]]  # text times a number is no number
    return tuple(counts) if len(counts) <= 8 else (sum(counts),)


def _members(config: dict[str, Any]) -> tuple[dict[str, frozenset[int]], frozenset[int]]:
    """Return the ranks of each named group, and all ranks of any group."""
    named: dict[str, frozenset[int]] = {}
    everyone: frozenset[int] = frozenset()
    for one in config.values():
        ranks = orjson.loads(one["ranks"]) if isinstance(one["ranks"], str) else one["ranks"]
        members = frozenset(int(rank) for rank in ranks)
        if len(members) > MOST_RANKS or not all(0 <= rank < MOST_RANKS for rank in members):
            raise ValueError(f"more than {MOST_RANKS:,} ranks")
        everyone |= members
        if one["name"]:
            named[f"{one['name']:.80} ({one['desc']:.80})"] = members
    return named, everyone


MOST_STEPS = 2_000_000
"""Most steps of one pickle: a full ring of 2,000 collectives takes 240,000 (measured)."""

_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
}
_VALUES = frozenset({
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE",
})  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_STORES = frozenset({"BINPUT", "LONG_BINPUT", "MEMOIZE"})
_LOADS = frozenset({"BINGET", "LONG_BINGET"})
_IGNORED = frozenset({"PROTO", "FRAME"})


def plain_values(data: bytes) -> Any:
    """
    Return the value of a pickle; raise UnreadableOutput if it needs more than plain values, is cut, or is too long.

    A pickle is a program, and Python's own reader can be made to call anything, to fill the memory with one number
    (LONG_BINPUT) or never to end (a key that holds itself a thousand times). Here nothing is executed: only the steps
    that values of JSON and tuples need are allowed, keys are text or numbers, and steps are counted.
    """
    machine = _Machine()
    try:
        for number, (opcode, argument, position) in enumerate(genops(data)):
            if number == MOST_STEPS:
                raise UnreadableOutput(f"a pickle of more than {MOST_STEPS:,} steps")
            if opcode.name == "STOP":
                return machine.stack.pop()
            if not machine.step(opcode.name, argument):
                raise UnreadableOutput(f"a pickle that is no plain data: {opcode.name} at byte {position}")
    except (ValueError, IndexError, KeyError, AttributeError, TypeError) as exc:
        raise UnreadableOutput(f"a pickle that is cut or damaged: {exc}") from None
    raise UnreadableOutput("a pickle without an end")


class _Machine:
    """The stack, its marks and the memo; a step on wrong data raises ValueError or the like."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> bool:
        """Do one step; return False for a step that makes no plain value."""
        stack = self.stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _LOADS:
            stack.append(self._memo[argument])
        elif name in _STORES:
            self._memo[len(self._memo) if argument is None else argument] = stack[-1]
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        elif name == "MARK":
            self._marks.append(len(stack))
        elif name in ("SETITEM", "SETITEMS"):
            items = self._taken(2) if name == "SETITEM" else self._marked()
            _set(stack[-1], items)
        elif name in ("APPEND", "APPENDS"):
            items = self._taken(1) if name == "APPEND" else self._marked()
            list.extend(stack[-1], items)
        elif name in _TUPLES or name == "TUPLE":
            stack.append(tuple(self._marked() if name == "TUPLE" else self._taken(_TUPLES[name])))
        else:
            return name in _IGNORED
        return True

    def _marked(self) -> list[Any]:
        return self._taken(len(self.stack) - self._marks.pop())

    def _taken(self, count: int) -> list[Any]:
        at = len(self.stack) - count
        if count < 0 or at < 0:
            raise ValueError("it takes more than there is")
        taken = self.stack[at:]
        del self.stack[at:]
        return taken


def _set(target: dict[Any, Any], items: list[Any]) -> None:
    """Set keys and values, given in turn. A key must be text or a number: comparing a nested key may take for ever."""
    if not all(isinstance(key, str | int | float | None) for key in items[::2]):
        raise ValueError("a key that is no text and no number")
    for key, value in zip(items[::2], items[1::2], strict=True):
        dict.__setitem__(target, key, value)
