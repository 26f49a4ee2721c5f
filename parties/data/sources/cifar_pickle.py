"""A reader of pickled CIFAR batches that runs nothing: it walks the pickle as a list of words.

A pickle is a program for a small stack machine, and two of its words, GLOBAL and REDUCE, can name
and call any function. Here a name stays a word on the stack and a call stays a note of it; only the
words that Python 2 wrote into these files are known, and any other name or word ends the reading.
What is left is one dictionary, in which the note that spells a uint8 array becomes that array.
"""

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from math import prod
from typing import Any

import numpy as np

from parties.common.errors import DataError
from parties.data.sources.records import Array

LARGEST = 256 << 20  # bytes of a pickle; CIFAR-100's largest has 155 MB
_FIRST = b"\x80\x02"  # the word PROTO, and the protocol of Python 2
_RECONSTRUCT, _NDARRAY, _DTYPE = (
    "numpy.core.multiarray _reconstruct",
    "numpy ndarray",
    "numpy dtype",
)
_NAMES = (_RECONSTRUCT, _NDARRAY, _DTYPE)
_AGAIN = "fetch the file again from where CIFAR is published, or take the binary form"


@dataclass(frozen=True, slots=True)
class _Name:
    """A function or class that a pickle names; it is never looked up."""

    text: str


@dataclass(slots=True, eq=False)
class _Call:
    """What a pickle would have built: whose call, with what, and the state given to it."""

    name: _Name
    arguments: tuple[Any, ...]
    state: Any = None


class _Mark:
    """Where a list of words begins on the stack."""


def is_pickle(content: bytes) -> bool:
    """Whether ``content`` begins as a pickle; no CIFAR label is as large as its first byte."""
    return content[:1] == _FIRST[:1]


def read_pickle(file: str, content: bytes) -> dict[str, Any]:
    """The dictionary of a batch: strings, lists of integers and uint8 arrays.

    Raises:
        DataError: it names or holds what no CIFAR batch needs, or is damaged or too large.
    """
    if len(content) > LARGEST:
        raise DataError(f"{file} has more than {LARGEST >> 20} MiB", "no batch of CIFAR has")
    walk = _Walk(file)
    try:
        for word, argument, _ in pickletools.genops(BytesIO(content)):
            walk.step(word.name, argument)
        (batch,) = walk.stack
        return {str(key): _meant(value) for key, value in batch.items()}
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{file} is no pickled batch as CIFAR has it", _AGAIN) from error


class _Walk:
    """The stack and the memory of one walk."""

    def __init__(self, file: str) -> None:
        self._file, self.stack, self._memo = file, list[Any](), dict[int, Any]()

    def step(self, word: str, argument: Any) -> None:
        """Take one word."""
        if word in _LITERAL:
            self.stack.append(argument)
        elif word in _CONSTANT:
            self.stack.append(_CONSTANT[word])
        elif word in _EMPTY:
            self.stack.append(_EMPTY[word]())
        elif word in _TUPLE:
            self._push_tuple(_TUPLE[word])
        elif word == "GLOBAL":
            self._name(argument)
        elif word in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = self.stack[-1]
        elif word in ("BINGET", "LONG_BINGET"):
            self.stack.append(self._memo[argument])
        elif word in _GROWTH:
            _GROWTH[word](self)
        elif word not in ("PROTO", "STOP"):
            raise DataError(f"{self._file} holds {word}, which no CIFAR batch needs", _AGAIN)

    def _name(self, text: str) -> None:
        if text not in _NAMES:
            said = text.replace(" ", ".")
            raise DataError(
                f"{self._file} names {said!r:.80}, which no CIFAR batch needs",
                "such a pickle may run any program when it is loaded: do not load it elsewhere",
            )
        self.stack.append(_Name(text))

    def _push_tuple(self, size: int) -> None:
        parts = [self.stack.pop() for _ in range(size)]
        self.stack.append(tuple(reversed(parts)))

    def marked(self) -> list[Any]:
        """What lies above the newest mark, which goes too."""
        above: list[Any] = []
        while not isinstance(top := self.stack.pop(), _Mark):
            above.append(top)
        return above[::-1]

    def tuple_from_mark(self) -> None:
        """TUPLE."""
        self.stack.append(tuple(self.marked()))

    def append(self) -> None:
        """APPEND: one item to a list."""
        item = self.stack.pop()
        self.stack[-1].append(item)

    def append_all(self) -> None:
        """APPENDS: all above the mark to a list."""
        items = self.marked()
        self.stack[-1].extend(items)

    def set_item(self) -> None:
        """SETITEM: one pair into a dictionary."""
        value, key = self.stack.pop(), self.stack.pop()
        self.stack[-1][key] = value

    def set_all(self) -> None:
        """SETITEMS: pairs above the mark into a dictionary."""
        items = self.marked()
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def note_call(self) -> None:
        """REDUCE: a call is noted."""
        arguments, name = self.stack.pop(), self.stack.pop()
        if not isinstance(name, _Name) or not isinstance(arguments, tuple):
            raise TypeError("a call of something that is no name")
        self.stack.append(_Call(name, arguments))

    def note_state(self) -> None:
        """BUILD: the state of what a call would have built is noted."""
        state, call = self.stack.pop(), self.stack[-1]
        if not isinstance(call, _Call) or call.state is not None:
            raise TypeError("a state for something that was not called")
        call.state = state


_LITERAL = {"BININT", "BININT1", "BININT2", "LONG1", "SHORT_BINSTRING", "BINSTRING"}
_CONSTANT = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "MARK": _Mark,
}  # fmt: skip
_TUPLE = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_GROWTH: dict[str, Callable[[_Walk], None]] = {
    "TUPLE": _Walk.tuple_from_mark,
    "APPEND": _Walk.append,
    "APPENDS": _Walk.append_all,
    "SETITEM": _Walk.set_item,
    "SETITEMS": _Walk.set_all,
    "REDUCE": _Walk.note_call,
    "BUILD": _Walk.note_state,
}


def _meant(value: Any) -> Any:
    """The array that a note spells; anything else as it is."""
    return _array(value) if isinstance(value, _Call) else value


def _array(call: _Call) -> Array:
    """``_reconstruct(ndarray, (0,), 'b')`` with state (version, shape, dtype, by column, bytes)."""
    _, shape, kind, by_column, content = call.state
    uint8 = isinstance(kind, _Call) and kind.name == _Name(_DTYPE) and kind.arguments[0] == "u1"
    if call.name != _Name(_RECONSTRUCT) or not uint8 or len(shape) > 2 or min(shape) < 0:
        raise ValueError("an array of another kind")
    pixels = content.encode("latin-1")  # as the walk decodes the strings of Python 2
    if len(pixels) != prod(shape):
        raise ValueError("an array of another size")
    return np.frombuffer(pixels, np.uint8).reshape(shape, order="F" if by_column else "C")
