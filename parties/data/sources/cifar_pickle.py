"""Safe reader of pickled CIFAR batches: interprets the opcodes without calling any function.

A pickle is a program for a stack machine. The opcodes GLOBAL and REDUCE of a pickle can name and
call any function. This reader calls no function: it pushes each name as text, and each call as a
record, onto the stack. This reader accepts only the opcodes and names that occur in CIFAR batches;
any other opcode or name is an error. The result is one dictionary; each recorded call that builds a
uint8 array is replaced by the array.
"""

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from math import prod
from typing import Any

import numpy as np

from parties.common.errors import DataError
from parties.data.sources.arrays import Array

LARGEST = 256 << 20  # bytes of a pickle; CIFAR-100's largest has 155 MB
_FIRST = b"\x80\x02"  # opcode PROTO with protocol 2
_RECONSTRUCT, _NDARRAY, _DTYPE = (
    "numpy.core.multiarray _reconstruct",
    "numpy ndarray",
    "numpy dtype",
)
_NAMES = (_RECONSTRUCT, _NDARRAY, _DTYPE)
_AGAIN = "download the file again from the website of CIFAR, or use the binary form"


@dataclass(frozen=True, slots=True)
class _Name:
    """Name of a function or class in a pickle; the name is never resolved."""

    text: str


@dataclass(slots=True, eq=False)
class _Call:
    """A recorded call: name, arguments, and the state that the pickle sets on the result."""

    name: _Name
    arguments: tuple[Any, ...]
    state: Any = None


class _Mark:
    """Mark on the stack: the start of a list of items."""


def is_pickle(content: bytes) -> bool:
    """Return whether the first byte of ``content`` is that of a pickle.

    A batch in binary form begins with a label, and no label equals the first byte of a pickle.
    """
    return content[:1] == _FIRST[:1]


def read_pickle(file: str, content: bytes) -> dict[str, Any]:
    """Return the dictionary of a batch: strings, lists of integers and uint8 arrays.

    Raises:
        DataError: the pickle is damaged or too large, or contains a name or opcode that does not
            occur in CIFAR batch files.
    """
    if len(content) > LARGEST:
        raise DataError(
            f"{file} has more than {LARGEST >> 20} MiB",
            "choose a CIFAR batch; every batch is smaller",
        )
    machine = _StackMachine(file)
    try:
        for opcode, argument, _ in pickletools.genops(BytesIO(content)):
            machine.step(opcode.name, argument)
        (batch,) = machine.stack
        return {str(key): _resolve(value) for key, value in batch.items()}
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{file} is not a pickled CIFAR batch", _AGAIN) from error


class _StackMachine:
    """Stack and memo of the interpreter for one pickle."""

    def __init__(self, file: str) -> None:
        self._file, self.stack, self._memo = file, list[Any](), dict[int, Any]()

    def step(self, opcode: str, argument: Any) -> None:
        """Interpret one opcode. Raises ``DataError`` if no CIFAR batch needs it."""
        if opcode in _LITERAL:
            self.stack.append(argument)
        elif opcode in _CONSTANT:
            self.stack.append(_CONSTANT[opcode])
        elif opcode in _EMPTY:
            self.stack.append(_EMPTY[opcode]())
        elif opcode in _TUPLE:
            self._push_tuple(_TUPLE[opcode])
        elif opcode == "GLOBAL":
            self._name(argument)
        elif opcode in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = self.stack[-1]
        elif opcode in ("BINGET", "LONG_BINGET"):
            self.stack.append(self._memo[argument])
        elif opcode in _GROWTH:
            _GROWTH[opcode](self)
        elif opcode not in ("PROTO", "STOP"):
            raise DataError(
                f"{self._file} contains the pickle opcode {opcode}, which does not occur in CIFAR "
                "batch files; the file was not loaded",
                _AGAIN,
            )

    def _name(self, text: str) -> None:
        if text not in _NAMES:
            dotted = text.replace(" ", ".")
            raise DataError(
                f"{self._file} names the function {dotted!r:.80}, which does not occur in CIFAR "
                "batch files; the file was not loaded",
                "do not load this file with another program: the pickle could run any code",
            )
        self.stack.append(_Name(text))

    def _push_tuple(self, size: int) -> None:
        parts = [self.stack.pop() for _ in range(size)]
        self.stack.append(tuple(reversed(parts)))

    def pop_to_mark(self) -> list[Any]:
        """Remove the newest mark with all items above it, and return the items."""
        above: list[Any] = []
        while not isinstance(top := self.stack.pop(), _Mark):
            above.append(top)
        return above[::-1]

    def tuple_from_mark(self) -> None:
        """TUPLE: put the items above the mark on the stack as a tuple."""
        self.stack.append(tuple(self.pop_to_mark()))

    def append(self) -> None:
        """APPEND: append one item to a list."""
        item = self.stack.pop()
        self.stack[-1].append(item)

    def append_all(self) -> None:
        """APPENDS: append all items above the mark to a list."""
        items = self.pop_to_mark()
        self.stack[-1].extend(items)

    def set_item(self) -> None:
        """SETITEM: set one item of a dictionary."""
        value, key = self.stack.pop(), self.stack.pop()
        self.stack[-1][key] = value

    def set_all(self) -> None:
        """SETITEMS: set all items above the mark in a dictionary."""
        items = self.pop_to_mark()
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def record_call(self) -> None:
        """REDUCE: record a call. Raises ``TypeError`` for a call of anything but a name."""
        arguments, name = self.stack.pop(), self.stack.pop()
        if not isinstance(name, _Name) or not isinstance(arguments, tuple):
            raise TypeError(
                "the pickle contains a call without a function name or without a tuple of arguments"
            )
        self.stack.append(_Call(name, arguments))

    def record_state(self) -> None:
        """BUILD: record the state of a call.

        Raises:
            TypeError: the item below is not a call, or has a state already.
        """
        state, call = self.stack.pop(), self.stack[-1]
        if not isinstance(call, _Call) or call.state is not None:
            raise TypeError(
                "the pickle sets the state of an object that is not a call, or sets a state twice"
            )
        call.state = state


_LITERAL = {"BININT", "BININT1", "BININT2", "LONG1", "SHORT_BINSTRING", "BINSTRING"}
_CONSTANT = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "MARK": _Mark,
}  # fmt: skip
_TUPLE = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_GROWTH: dict[str, Callable[[_StackMachine], None]] = {
    "TUPLE": _StackMachine.tuple_from_mark,
    "APPEND": _StackMachine.append,
    "APPENDS": _StackMachine.append_all,
    "SETITEM": _StackMachine.set_item,
    "SETITEMS": _StackMachine.set_all,
    "REDUCE": _StackMachine.record_call,
    "BUILD": _StackMachine.record_state,
}


def _resolve(value: Any) -> Any:
    """Return the array of a recorded call; any other value unchanged."""
    return _array(value) if isinstance(value, _Call) else value


def _array(call: _Call) -> Array:
    """Return the array of a call ``_reconstruct(ndarray, (0,), 'b')``.

    Its state is (version, shape, dtype, column-major order, bytes).
    """
    _, shape, kind, by_column, content = call.state
    uint8 = isinstance(kind, _Call) and kind.name == _Name(_DTYPE) and kind.arguments[0] == "u1"
    if call.name != _Name(_RECONSTRUCT) or not uint8 or len(shape) > 2 or min(shape) < 0:
        raise ValueError(
            "the pickle contains an array that is not uint8, or has more than two dimensions"
        )
    pixels = content.encode("latin-1")  # the encoding with which Python 2 strings were decoded
    if len(pixels) != prod(shape):
        raise ValueError("an array in the pickle has too few or too many bytes for its shape")
    return np.frombuffer(pixels, np.uint8).reshape(shape, order="F" if by_column else "C")
