"""Pickles in the form in which Python 2 wrote CIFAR's batches, opcode by opcode."""

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def string(text: bytes) -> bytes:
    """SHORT_BINSTRING or BINSTRING."""
    short = len(text) < 256
    return b"U%c" % len(text) + text if short else b"T" + struct.pack("<i", len(text)) + text


def integer(number: int) -> bytes:
    """BININT1 or BININT2."""
    return b"K%c" % number if number < 256 else b"M" + struct.pack("<H", number)


def integers(numbers: Sequence[int]) -> bytes:
    """A list."""
    return b"](" + b"".join(map(integer, numbers)) + b"e"


def strings(texts: Sequence[bytes]) -> bytes:
    """A list."""
    return b"](" + b"".join(map(string, texts)) + b"e"


def array(pixels: npt.NDArray[np.uint8], kind: bytes = b"u1", by_column: bool = False) -> bytes:
    """A NumPy array as its ``__reduce__`` wrote it, with memory words as in the originals."""
    shape = b"".join(map(integer, pixels.shape))
    size = {1: b"\x85", 2: b"\x86", 3: b"\x87"}[pixels.ndim]
    content = pixels.tobytes("F" if by_column else "C")
    return (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\x09"
        b"(K\x01" + shape + size + b"cnumpy\ndtype\nq\x0a" + string(kind) + b"K\x00K\x01\x87Rq\x0b"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        + (b"\x88" if by_column else b"\x89") + string(content) + b"tb"
    )  # fmt: skip


def batch(**parts: bytes) -> bytes:
    """A dictionary of parts that are words already."""
    items = b"".join(string(name.encode()) + part for name, part in parts.items())
    return b"\x80\x02}q\x01(" + items + b"u."
