"""Three parties whose frames are recorded, and the content of the frames."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from dataclasses import replace as changed
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import three_parties
import torch
from numpy.typing import NDArray
from scipy.stats import kstest
from torch import Tensor

from parties.vertical.engine.split_model import SplitModel
from parties.vertical.passive import PassiveSession
from parties.vertical.privacy.ledger import PrivacyLedger
from protocol import vfl_pb2
from protocol.frames import decode_message
from protocol.line import MemoryLine
from protocol.message import Message

Numbers = NDArray[np.float64]


def entropy(name: str) -> Any:
    """Bytes of a seeded generator, so that no test fails by chance."""
    count = [0]

    def draw(size: int) -> bytes:
        count[0] += 1
        return sha256(f"{name} {count[0]}".encode()).digest()[:size].ljust(size, b"\0")

    return draw


@dataclass
class Wire:
    """The recorded messages, with their senders."""

    frames: dict[int, list[bytes]] = field(default_factory=dict)

    def messages(self, sender: str, kind: str) -> list[Message]:
        """All messages of one kind that one party sent."""
        return [m for who, m in self._messages() if who == sender and m.kind == kind]

    def embeddings(self, sender: str) -> list[Numbers]:
        """Every embedding that one party sent, [rows, width]."""
        return [
            message.tensors[0].astype(np.float64) for message in self.messages(sender, "Embedding")
        ]

    def _messages(self) -> Iterator[tuple[str, Message]]:
        for frames in self.frames.values():
            coming = iter(frames)
            while True:
                try:
                    envelope, message = decode_message(coming.__next__)
                except StopIteration:
                    break
                yield envelope.sender, message


@contextmanager
def recorded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, seed: str = "", hub: str = "", **changes: Any
) -> Iterator[tuple[SplitModel, dict[str, PassiveSession], Wire]]:
    """Three parties whose messages are recorded.

    ``seed`` fixes the entropy of all parties, ``hub`` also that of the hub. In a folder that was
    used before, the run resumes.
    """
    wire, send, take = Wire(), MemoryLine.send, three_parties.party

    def recording(line: MemoryLine, frame: bytes, timeout: float) -> None:
        wire.frames.setdefault(id(line), []).append(bytes(frame))
        send(line, frame, timeout)

    def party(folder: Path, name: str, *others: Any) -> Any:
        return changed(
            take(folder, name, *others),
            entropy=entropy(name + (hub if name == "hub" else "") + seed),
        )

    with monkeypatch.context() as patch:
        patch.setattr(MemoryLine, "send", recording)
        patch.setattr(three_parties, "party", party)
        if (folder / "certs").exists():
            patch.setattr(three_parties, "certify", lambda folder: None)
        three_parties.public_statistics(folder)
        with three_parties.open_split_model(folder, **changes) as (split_model, sessions):
            three_parties.start_training(split_model, "original")
            yield split_model, sessions, wire


def raw(session: PassiveSession, rows: vfl_pb2.Rows) -> Tensor:
    """A passive party's embeddings of a row set, before noise and clipping."""
    model, chosen = session.state.local_model.model, session.state.rows.select(rows)
    assert model.inputs is not None
    with torch.no_grad():
        embeddings: Tensor = model.network(model.inputs.values[chosen])
    return embeddings


def released(folder: Path, name: str, kind: str = "once") -> int:
    """The largest number of releases of a row, according to a party's ledger on disk."""
    return PrivacyLedger(folder / "runs" / "trio" / name, bytes).spent_of_any(kind).releases


def is_gaussian(noise: Numbers, sigma: float) -> None:
    """Check samples, [rows, width]: mean 0, the given σ, normal and independent.

    Each test has the level 1e-3.
    """
    flat, count = noise.ravel(), noise.size
    assert count >= 100_000
    assert abs(flat.mean()) < 3.3 * sigma / count**0.5
    assert flat.std() == pytest.approx(sigma, rel=0.0074)
    assert kstest(flat / sigma, "norm").pvalue > 1e-3
    for one, two in (
        (noise[1:], noise[:-1]),  # rows
        (noise[:, 1:], noise[:, :-1]),  # coordinates
        (noise[: len(noise) // 2], noise[len(noise) // 2 :][: len(noise) // 2]),  # steps
    ):
        correlation = np.corrcoef(one.ravel(), two.ravel())[0, 1]
        assert abs(correlation) < 3.3 / one.size**0.5
