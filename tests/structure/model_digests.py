"""SHA-256 digests of the models that a finished run left in its folder.

``python tests/structure/model_digests.py runs/digits`` prints a digest per saved model and one of
all of them. With ``--run digits --as before`` the digest of all goes to ``docs/house-models.json``.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

MODEL = "model.safetensors"  # the name under which every mode saves a party's model
MODELS = Path("docs", "house-models.json")


def model_digests(folder: Path) -> dict[str, str]:
    """Digest of each saved model of a run, by path in the run's folder."""
    files = sorted(folder.rglob(MODEL))
    return {file.relative_to(folder).as_posix(): tensors_digest(file) for file in files}


def tensors_digest(file: Path) -> str:
    """Digest of names, types, shapes and bytes of the tensors in a file, in order of names."""
    digest = sha256()
    for name, about, content in _tensors(file.read_bytes()):
        head = json.dumps([name, about["dtype"], about["shape"], len(content)])
        digest.update(head.encode() + b"\n" + content)
    return digest.hexdigest()


def _tensors(content: bytes) -> Iterator[tuple[str, dict[str, Any], bytes]]:
    """Name, header entry and bytes of each tensor; the format is 8 bytes, a JSON header, data."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header.pop("__metadata__", None)
    for name in sorted(header):
        first, end = header[name]["data_offsets"]
        yield name, header[name], content[start + first : start + end]


def combined(digests: dict[str, str]) -> str:
    """One digest of all models of a run."""
    return sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def merge(path: Path, run: str, when: str, digest: str) -> None:
    """Write a run's digest into the file of digests; other runs stay as they are."""
    runs = json.loads(path.read_text()) if path.exists() else {}
    runs.setdefault(run, {})[when] = digest
    path.write_text(json.dumps(runs, indent=1, sort_keys=True) + "\n")


def main() -> None:
    """Print the digests of a run's models, and write them where that is asked for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path, help="folder of a finished run")
    options.add_argument("--run", help="name of the run in the file of digests")
    options.add_argument("--as", dest="when", choices=("before", "after"), help="side to write")
    options.add_argument("--into", type=Path, default=MODELS, help="file of digests")
    given = options.parse_args()
    digests = model_digests(given.folder)
    if not digests:
        sys.exit(f"no {MODEL} in {given.folder}")
    if bool(given.run) is not bool(given.when):
        options.error("--run and --as go together")
    for name, digest in digests.items():
        print(digest, name)
    print(combined(digests), "all models")
    if given.run:
        merge(given.into, given.run, given.when, combined(digests))


if __name__ == "__main__":
    main()
