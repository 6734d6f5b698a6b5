"""
Pickles of plain values, read without executing anything: there is no Unpickler, only the few steps that make a value.

A pickle is a program, and Python's own reader can be made to call what it likes, to fill the memory with one number
(LONG_BINPUT) or never to end (a key that holds itself a thousand times). Here each step is one of those that values of
JSON and tuples need, keys are text or numbers, and steps are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from pickletools import genops
from typing import Any

from fabric.errors import UnreadableOutput

MOST_STEPS = 2_000_000
"""Steps of one pickle: a full ring of 2,000 collectives takes 240,000 (measured)."""

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
    """The value of a pickle; UnreadableOutput for any that needs more than plain values, is cut, or is too long."""
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
    """The stack, its marks and the memo; what a step cannot take is a ValueError or the like."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> bool:
        """Do one step; false for one that makes no plain value."""
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
    """Keys with values in turn; a key is text or a number, for a nested one may take for ever to compare."""
    if not all(isinstance(key, str | int | float | None) for key in items[::2]):
        raise ValueError("a key that is no text and no number")
    for key, value in zip(items[::2], items[1::2], strict=True):
        dict.__setitem__(target, key, value)
