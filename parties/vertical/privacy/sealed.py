"""Sealed files: tensors with a digest, written atomically and verified when they are read."""

from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save

from parties.common.atomic_file import make_folder, write_atomically
from parties.common.errors import IntegrityError, StorageError
from parties.common.json_codec import Tensors

_SEAL = 32  # bytes


def write_sealed(path: Path, tensors: Tensors) -> None:
    """Write named tensors of any shape.

    Raises:
        StorageError: the folder or the file cannot be written.
    """
    try:
        make_folder(path.parent)
    except OSError as error:
        raise StorageError(f"cannot create the folder {path.parent}: {error.strerror}") from error
    content = save(tensors)
    write_atomically(path, sha256(content).digest() + content)


def read_sealed(path: Path, hint: str) -> Tensors | None:
    """Read named tensors of any shape; None if the file does not exist.

    Raises:
        StorageError: the file cannot be read.
        IntegrityError: the file is damaged. The error has the hint ``hint``.
    """
    try:
        whole = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    seal, content = whole[:_SEAL], whole[_SEAL:]
    if not compare_digest(sha256(content).digest(), seal):
        raise IntegrityError(f"{path} is damaged: its digest is wrong", hint)
    try:
        tensors: Tensors = load(content)
    except SafetensorError as error:
        raise IntegrityError(f"{path} is damaged: its tensors cannot be read", hint) from error
    return tensors
