"""The ledger: written before each release, kept after each end, and a hard stop at the budget."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from privacy_wire import recorded, released
from three_parties import agreement, certify, party, public_statistics, write_data

from configs.privacy import EmbedTrain
from models.noise import Keystream
from parties.common.errors import IntegrityError, PolicyError
from parties.common.progress import ProgressReporter
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.privacy.ledger import Mechanism, PrivacyLedger, PrivacySpending
from parties.vertical.privacy.one_time_release import FrozenBottom, OneTimeEmbeddings
from parties.vertical.privacy.release_cache import (
    ReleaseCache,
    TaggedRows,
    erase_marked_values,
)
from parties.vertical.privacy.visit_noise import VisitNoise, VisitNoiseSettings
from protocol import vfl_pb2
from protocol.line import MemoryLine

ONCE = Mechanism("once", sigma=4.0, clip=1.0)
VISIT = Mechanism("visit", sigma=4.0, clip=1.0)
IDS = [b"anna", b"berta", b"carla"]


def ledger(folder: Path) -> PrivacyLedger:
    return PrivacyLedger(folder, lambda size: bytes(range(size)))


def allow(spent: PrivacySpending) -> None:
    """Allow any cost."""


def times(*counts: int) -> np.ndarray:
    return np.array(counts, np.int64)


def test_spending_is_that_of_the_most_released_row(tmp_path: Path) -> None:
    ledger_ = ledger(tmp_path)
    tags = ledger_.tags(IDS)
    ledger_.charge(tags[:2], ONCE, times(1, 1), allow)
    ledger_.charge(tags[1:], Mechanism("once", sigma=2.0, clip=1.0), times(2, 1), allow)
    assert ledger_.spent(tags[:1], "once") == PrivacySpending(1, 1 / 16)
    assert ledger_.spent(tags, "once") == PrivacySpending(3, 1 / 16 + 2 / 4)
    assert ledger_.spent(ledger_.tags([b"nobody"]), "once") == PrivacySpending()
    ledger_.charge(tags[:1], VISIT, times(1), allow)
    assert ledger_.spent(tags, "once").square == math.inf  # this noise bounds nothing


def test_flipped_labels_and_gradient_noise_are_counted_separately(tmp_path: Path) -> None:
    ledger_ = ledger(tmp_path)
    tags = ledger_.tags(IDS)
    ledger_.charge(tags, Mechanism("response", epsilon=2.0), times(1, 1, 1), allow)
    ledger_.charge(tags, VISIT, times(5, 5, 5), allow)
    assert ledger_.spent(tags, "response") == PrivacySpending(1, 0.0, 2.0)
    assert ledger_.spent(tags, "visit").releases == 5


def test_new_process_reads_the_earlier_spending(tmp_path: Path) -> None:
    ledger_ = ledger(tmp_path)
    ledger_.charge(ledger_.tags(IDS), ONCE, times(1, 2, 3), allow)
    again = PrivacyLedger(tmp_path, lambda size: b"x" * size)
    assert again.spent(again.tags(IDS), "once") == PrivacySpending(3, 3 / 16)
    assert again.tags(IDS) == ledger_.tags(IDS)


def test_files_contain_no_ids(tmp_path: Path) -> None:
    ledger_ = ledger(tmp_path)
    ledger_.charge(ledger_.tags(IDS), ONCE, times(1, 1, 1), allow)
    for path in (tmp_path / "privacy").iterdir():
        content = path.read_bytes()
        assert not any(identifier in content for identifier in IDS)
        assert path.stat().st_mode & 0o077 == 0


def test_refused_charge_changes_nothing(tmp_path: Path) -> None:
    ledger_ = ledger(tmp_path)
    ledger_.charge(ledger_.tags(IDS[:1]), ONCE, times(1), allow)

    def refuse(spent: PrivacySpending) -> None:
        assert spent == PrivacySpending(2, 2 / 16)
        raise PolicyError("enough")

    with pytest.raises(PolicyError, match="enough"):
        ledger_.charge(ledger_.tags(IDS), ONCE, times(1, 1, 1), refuse)
    for each in (ledger_, ledger(tmp_path)):
        assert each.spent(each.tags(IDS), "once") == PrivacySpending(1, 1 / 16)
    ledger_.charge(ledger_.tags(IDS[2:]), ONCE, times(1), allow)
    assert ledger(tmp_path).spent(ledger_.tags(IDS), "once") == PrivacySpending(1, 1 / 16)


@pytest.mark.parametrize("place", [0, 40, -1])
def test_a_damaged_ledger_is_refused(tmp_path: Path, place: int) -> None:
    ledger_ = ledger(tmp_path)
    ledger_.charge(ledger_.tags(IDS), ONCE, times(1, 1, 1), allow)
    path = tmp_path / "privacy" / "ledger"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(IntegrityError, match="ledger is damaged"):
        ledger(tmp_path)


def test_a_ledger_without_its_key_is_refused(tmp_path: Path) -> None:
    ledger_ = ledger(tmp_path)
    ledger_.charge(ledger_.tags(IDS), ONCE, times(1, 1, 1), allow)
    (tmp_path / "privacy" / "key").unlink()
    with pytest.raises(IntegrityError, match="key is missing"):
        ledger(tmp_path)


class Killed(BaseException):
    """The end of the process at this point."""


@pytest.mark.parametrize("moment", ["charged", "released"])
def test_spending_after_a_crash_covers_all_releases(tmp_path: Path, moment: str) -> None:
    """Nothing was sent before either moment; the second start charges anew only what it must."""
    sent: list[torch.Tensor] = []

    def start(*, dies: bool) -> None:
        ledger_, cache = ledger(tmp_path), ReleaseCache(tmp_path, "embeddings", b"settings")
        rows = TaggedRows(ledger_.tags(IDS), ledger_.digests([b"1", b"2", b"3"]))

        def charge(new: np.ndarray) -> None:
            ledger_.charge([rows.tags[at] for at in new], ONCE, np.ones(len(new), np.int64), allow)
            if dies and moment == "charged":
                raise Killed

        values = cache.release_once(rows, charge, lambda new: torch.rand(len(new), 2))
        if dies:
            raise Killed
        sent.append(values)

    with pytest.raises(Killed):
        start(dies=True)
    start(dies=False)
    start(dies=False)
    assert torch.equal(sent[0], sent[1])
    expected = 2 if moment == "charged" else 1
    assert ledger(tmp_path).spent(ledger(tmp_path).tags(IDS), "once").releases == expected


def test_forgotten_row_is_removed_from_the_cache_and_kept_in_the_ledger(tmp_path: Path) -> None:
    ledger_ = ledger(tmp_path)
    rows = TaggedRows(ledger_.tags(IDS), ledger_.digests([b"1", b"2", b"3"]))
    cache = ReleaseCache(tmp_path, "embeddings", b"settings")

    def charge(new: np.ndarray) -> None:
        ledger_.charge([rows.tags[at] for at in new], ONCE, np.ones(len(new), np.int64), allow)

    cache.release_once(rows, charge, lambda new: torch.ones(len(new), 2))
    cache.forget(rows.tags[:1])
    erase_marked_values(tmp_path, "embeddings")
    assert rows.tags[0] not in (tmp_path / "privacy" / "embeddings").read_bytes()
    assert ledger_.spent(rows.tags[:1], "once").releases == 1
    ReleaseCache(tmp_path, "embeddings", b"settings").release_once(
        rows, charge, lambda new: torch.full((len(new), 2), 2.0)
    )
    assert ledger_.spent(rows.tags[:1], "once").releases == 2
    assert ledger_.spent(rows.tags[1:], "once").releases == 1


def test_marked_rows_are_kept_for_a_start_that_still_has_them(tmp_path: Path) -> None:
    """Row 0 is asked for again before the erasure, as after a crash; row 1 is not."""
    charged: list[int] = []
    rows = TaggedRows([b"a" * 16, b"b" * 16], [b"p" * 16] * 2)
    first = TaggedRows(rows.tags[:1], rows.digests[:1])
    cache = ReleaseCache(tmp_path, "embeddings", b"settings")

    def release(asked: TaggedRows) -> torch.Tensor:
        return cache.release_once(
            asked, lambda new: charged.append(len(new)), lambda new: torch.rand(len(new), 3)
        )

    before = release(rows)
    cache.forget(rows.tags)
    assert cache.contains(rows.tags[:1])
    assert torch.equal(release(first), before[:1])
    erase_marked_values(tmp_path, "embeddings")
    erase_marked_values(tmp_path, "labels")  # there is no such file
    assert cache.contains(rows.tags[:1])
    assert not cache.contains(rows.tags[1:])
    cache.forget(rows.tags)
    erase_marked_values(tmp_path, "embeddings")
    assert not (tmp_path / "privacy" / "embeddings").exists()
    assert charged == [2]


def test_other_settings_are_another_release(tmp_path: Path) -> None:
    charged: list[int] = []
    rows = TaggedRows([b"a" * 16], [b"p" * 16])
    for settings in (b"one", b"one", b"two"):
        cache = ReleaseCache(tmp_path, "embeddings", settings)
        cache.release_once(rows, lambda new: charged.append(len(new)), lambda new: torch.ones(1, 1))
    assert charged == [1, 1]


def test_rows_that_were_released_before_are_counted_by_kind(tmp_path: Path) -> None:
    ledger_ = ledger(tmp_path)
    tags = ledger_.tags(IDS)
    ledger_.charge(tags[:2], ONCE, times(1, 0), allow)
    ledger_.charge(tags[1:], Mechanism("response", epsilon=2.0), times(1, 1), allow)
    assert ledger_.released_before(tags, "once") == 1
    assert ledger_.released_before(tags, "response") == 2
    assert ledger_.released_before(ledger_.tags([b"unknown"]), "once") == 0
    assert ledger_.spent_of_any("response") == PrivacySpending(1, 0.0, 2.0)


def test_pass_over_the_rows_writes_the_ledger_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[int] = []
    ledger_ = ledger(tmp_path)
    charge = ledger_.charge

    def counted(tags: list[bytes], *rest: object) -> None:
        writes.append(len(tags))
        charge(tags, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ledger_, "charge", counted)
    ids = [b"%d" % row for row in range(6)]
    visits = VisitNoise(
        VisitNoiseSettings(EmbedTrain(sigma=1.0), 1e4), ledger_, ids, Keystream(bytes(32))
    )
    whole = np.arange(6)
    for _ in range(3):
        for batch in (whole[:2], whole[2:4], whole[4:]):
            visits.with_noise(batch, whole, torch.zeros(2, 1))
    visits.with_noise(whole[:1], whole[:1], torch.zeros(1, 1))
    assert writes == [6, 6, 6, 1]
    assert ledger_.spent(ledger_.tags(ids), "once").releases == 4


def frozen(folder: Path, width: int, privacy: dict[str, object]) -> Iterator[OneTimeEmbeddings]:
    write_data(folder)
    certify(folder)
    public_statistics(folder)
    us = party(folder, "left", agreement(privacy=privacy), [])
    plan = us.agreement.privacy.embed_once
    assert plan is not None
    inputs, ids = torch.randn(50, 3), list(us.holding.ids[:50])
    network = torch.nn.Linear(3, width)
    yield OneTimeEmbeddings(us, plan, b"session", FrozenBottom(network, inputs, ids))
    yield OneTimeEmbeddings(us, plan, b"session", FrozenBottom(network, inputs + 1, ids))


def test_the_budget_is_a_hard_stop(tmp_path: Path) -> None:
    """z = 4 costs 1.99 once and 2.96 twice."""
    plan = {"embed_once": {"noise_multiplier": 4.0, "budget": 2.5}}
    starts = frozen(tmp_path, 4, plan)
    assert next(starts).spent.releases == 1
    with pytest.raises(PolicyError, match=r"ε would be 2\.9\d+, but the budget is 2\.5"):
        next(starts)


def test_a_release_of_changed_rows_is_a_warning_with_the_new_epsilon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(ProgressReporter, "warn", lambda self, text: warnings.append(text))
    starts = frozen(tmp_path, 4, {"embed_once": {"noise_multiplier": 4.0, "budget": 3.0}})
    next(starts)
    first = len(warnings)
    assert not any("released" in each for each in warnings)
    next(starts)
    [text] = warnings[first:]
    assert "the embeddings of 50 rows were released before and are released again" in text
    assert "the largest ε = 2.944; the budget is 3" in text


def test_noise_of_a_release_is_the_multiplier_times_the_clipping_norm(tmp_path: Path) -> None:
    """z = 3 and C = 0.5: σ = 1.5, and (C/σ)² = 1/9. Clipped, 1000 values are at most 0.016 each."""
    plan = {"embed_once": {"clip": 0.5, "noise_multiplier": 3.0}}
    released_once = next(frozen(tmp_path, 1000, plan))
    assert released_once.values.shape == (50, 1000)
    assert released_once.values.std().item() == pytest.approx(1.5, rel=0.02)
    assert released_once.spent.square == pytest.approx(1 / 9)


def test_a_delta_of_one_in_so_many_rows_is_refused(tmp_path: Path) -> None:
    plan = {"embed_once": {"noise_multiplier": 4.0, "delta": 0.02}}
    with pytest.raises(PolicyError, match=r"delta = 0\.02 is not below 1 / 50 = 1 / \(number of"):
        next(frozen(tmp_path, 4, plan))


def test_visits_are_a_hard_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = {"grad_noise": {"sigma": 0.1, "visits": 4}}
    with recorded(tmp_path, monkeypatch, privacy=plan) as (split_model, _, wire):
        train_epochs(split_model, TrainingPlan("original", vfl_pb2.TRAIN_ROWS, epochs=2, batch=16))
        sent = len(wire.messages("hub", "Step")) + len(wire.messages("hub", "Gradient"))
        with pytest.raises(PolicyError, match="sent 5 times, but the agreed limit is visits = 4"):
            train_epochs(split_model, TrainingPlan("more", vfl_pb2.TRAIN_ROWS, epochs=1, batch=16))
        assert len(wire.messages("hub", "Step")) + len(wire.messages("hub", "Gradient")) == sent


def test_the_ledger_is_written_before_a_byte_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every send the ledger on disk is at least what the wire will then have carried."""
    plan = {"embed_train": {"sigma": 0.1}}
    with recorded(tmp_path, monkeypatch, privacy=plan) as (split_model, _, wire):
        send, behind = MemoryLine.send, list[bool]()

        def looking(line: MemoryLine, frame: bytes, timeout: float) -> None:
            send(line, frame, timeout)
            rows = sum(len(each) for each in wire.embeddings("left"))
            if rows:
                charged = released(tmp_path, "left") * len(split_model.rows.train)
                behind.append(charged < rows)

        with monkeypatch.context() as patch:
            patch.setattr(MemoryLine, "send", looking)
            for _ in range(3):
                split_model.logits(vfl_pb2.TRAIN_ROWS)
    assert len(behind) >= 3
    assert not any(behind)
