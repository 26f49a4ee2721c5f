"""Whole runs with noise: claims in the report, purged rows, and resumed runs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_resume
import three_parties
import torch
from own_net import BatchFree
from prediction_parties import predict_rows
from privacy_wire import entropy, recorded, released
from safetensors.torch import load_file
from whole_run import run

from configs.errors import ConfigError
from parties.common.progress import ProgressReporter
from parties.report.pages.scientist import report_page
from parties.report.terminal import report_tables
from parties.vertical.engine.networks import module_source_digest
from parties.vertical.methods.registry import METHODS
from parties.vertical.privacy.accounting import epsilon_of
from parties.vertical.purge import search_residues
from protocol import vfl_pb2
from protocol.errors import Aborted

FORGET = ({"name": "request", "classes": ["a"], "fraction": 0.5},)
ONCE = {"embed_once": {"noise_multiplier": 4.0}}
LABELS = {"label_dp": {"epsilon": 3.0}}


def private_run(folder: Path, privacy: dict[str, Any], **changes: Any) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    return run(folder, before=three_parties.public_statistics, privacy=privacy, **changes)


@pytest.mark.parametrize(
    ("privacy", "summary"),
    [
        ({}, "no formal privacy"),
        ({"embed_train": {"sigma": 5e-4}}, "no formal privacy"),
        ({"grad_noise": {"sigma": 0.01, "clip": 0.1}}, "no formal privacy"),
        (LABELS, "formal privacy for the labels of hub alone"),
        (
            ONCE | LABELS,
            "formal privacy for the features of left, features of right, labels of hub alone",
        ),
    ],
    ids=["off", "embed_train", "grad_noise", "label_dp", "embed_once"],
)
def test_run_reports_its_privacy_claims_only(
    tmp_path: Path, privacy: dict[str, Any], summary: str
) -> None:
    metrics = private_run(tmp_path, privacy)
    assert metrics["run"]["privacy"]["summary"] == summary
    html = report_page(metrics)
    head = html.partition("<main>")[0]
    for claim in metrics["run"]["privacy"]["claims"]:
        assert claim["text"] in html
        if claim["epsilon"] is not None:
            assert f"Privacy of the {claim['covers']} of {claim['party']}:</b> (ε, δ) = (" in head
    assert ("(ε, δ) = (" in head) == (summary != "no formal privacy")
    assert "no formal privacy, no ε is claimed." in head  # the hub's own features
    assert "no formal privacy for its features: no noise hides them" in html  # the hub's own
    shown = report_tables(metrics)
    assert any(summary in str(part) for part in shown.renderables)  # type: ignore[attr-defined]


def test_a_party_without_noise_keeps_no_ledger(tmp_path: Path) -> None:
    run(tmp_path, unlearn=FORGET)
    assert not list((tmp_path / "runs").rglob("privacy"))


def test_cached_releases_are_found_before_the_purge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded(tmp_path, monkeypatch, seed="1", privacy=ONCE | LABELS) as (split_model, _, _):
        split_model.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        split_model.logits(vfl_pb2.TRAIN_ROWS)
        three_parties.forget_some(split_model)
        residues = search_residues(split_model)
    assert {"cached embeddings", "flipped labels"} <= set(residues["hub"])
    assert "released embeddings" in residues["left"]
    assert "released embeddings" in residues["right"]


def test_forgotten_rows_are_removed_from_the_cache(tmp_path: Path) -> None:
    metrics = private_run(tmp_path, ONCE | LABELS, unlearn=FORGET)
    [request] = metrics["requests"]
    count = request["rows"]["forgotten"]
    assert f"released embeddings of {count} rows" in request["purged"]["left"]
    assert f"cached embeddings of {count} rows" in request["purged"]["hub"]
    assert f"flipped labels of {count} rows" in request["purged"]["hub"]
    assert request["remains"] == {"hub": [], "left": [], "right": []}
    common = metrics["run"]["common_rows"]
    for name, file, rows in (
        ("left", "embeddings", common - count),
        ("hub", "labels", sum(metrics["run"]["rows"][k] for k in ("learn", "validation")) - count),
    ):
        whole = (tmp_path / "runs" / "trio" / name / "privacy" / file).read_bytes()
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes(whole[32:])
        assert len(load_file(path)["tags"]) == rows


def test_second_run_in_one_folder_releases_nothing_again(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        private_run(tmp_path, ONCE | LABELS)
        patch.setattr("whole_run.certify", lambda folder: None)
        again = private_run(tmp_path, ONCE | LABELS)["run"]["privacy"]
    assert all("T = 1 at most" in each["text"] for each in again["claims"] if each["epsilon"])
    assert [released(tmp_path, name) for name in ("left", "right")] == [1, 1]
    assert released(tmp_path, "hub", "response") == 1


def test_another_frozen_bottom_is_another_release(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        private_run(tmp_path, ONCE)
        patch.setattr("whole_run.certify", lambda folder: None)
        again = private_run(tmp_path, ONCE, seed=6)["run"]["privacy"]
    assert "T = 2 at most" in again["claims"][1]["text"]
    assert again["claims"][1]["epsilon"] == epsilon_of(2 / 16, "replace_one", 1e-5)


def test_training_and_validation_labels_are_flipped_and_test_labels_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"label_dp": {"epsilon": 0.1}}
    with recorded(tmp_path, monkeypatch, privacy=plan) as (split_model, _, _wire):
        held = split_model.party.holding.labels
        assert held is not None
        truth = torch.from_numpy(held[split_model.state.features.rows])
        same = (split_model.labels == truth).numpy()
    rows = split_model.rows
    assert same[rows.test].all()
    for part in (rows.train, rows.validation):
        assert 0.1 < same[part].mean() < 0.65  # of three classes a third would stay by chance


def test_table_with_fitted_statistics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Aborted, match="preprocessing statistics must come from public rows"):
        run(tmp_path, privacy=ONCE)


def test_a_bottom_that_mixes_rows_is_refused(tmp_path: Path) -> None:
    """A BatchNorm without running statistics has no buffers, and mixes rows all the same."""
    own = {"kind": "module", "source": module_source_digest(BatchFree)}
    parties = three_parties.agreement()["parties"] | {
        "left": {"role": "passive", "width": 4, "bottom": own}
    }
    with pytest.MonkeyPatch.context() as patch:
        take = three_parties.party_settings

        def settings(folder: Path, requests: Any = ()) -> Any:
            module = {"module": "own_net:BatchFree"}
            return {name: each.model_copy(update=module) for name, each in take(folder).items()}

        patch.setattr(three_parties, "party_settings", settings)
        with pytest.raises(Aborted, match="the bottom model of left has a BatchNorm1d"):
            private_run(tmp_path, ONCE, parties=parties)


@pytest.mark.parametrize(("who", "message"), [("left", 60), ("hub", 150)])
def test_crash_changes_neither_the_run_nor_the_spending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str, message: int
) -> None:
    take = test_resume.party

    def party(folder: Path, name: str, *others: Any) -> Any:
        return replace(take(folder, name, *others), entropy=entropy(name))

    monkeypatch.setattr(test_resume, "party", party)
    changes = {"privacy": ONCE | LABELS, "unlearn": test_resume.REQUESTS[:1]}
    ends = []
    for crash in (None, (who, message)):
        folder = tmp_path / str(crash is None)
        folder.mkdir()
        three_parties.write_data(folder)
        three_parties.certify(folder)
        three_parties.public_statistics(folder)
        if crash:
            test_resume.run_parties(folder, crash, **changes)
        ends.append(test_resume.run_parties(folder, **changes))
        assert [released(folder, name) for name in ("left", "right")] == [1, 1]
        assert released(folder, "hub", "response") == 1
    assert ends[0].files == ends[1].files
    assert any("resumed checkpoint" in note for note in ends[1].notes)


def test_prediction_reuses_the_released_bytes_of_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise of σ = 8 would give other predictions at every request if it were drawn again."""
    settings: dict[str, Any] = {"privacy": {"embed_once": {"noise_multiplier": 8.0}}}
    private_run(tmp_path, settings["privacy"])
    plan = three_parties.agreement(**settings)
    one, two = (predict_rows(tmp_path, None, plan).probabilities for _ in range(2))
    assert np.array_equal(one, two, equal_nan=True)
    assert released(tmp_path, "left") == 1


def test_prediction_of_changed_features_warns_of_the_new_epsilon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """z = 4 costs 1.994 once and 2.944 twice; other parties release nothing again."""
    private_run(tmp_path, ONCE)
    lines = (tmp_path / "left.csv").read_text().splitlines()
    cells = [line.split(",") for line in lines[1:]]
    changed = [",".join([row, f"{float(first) + 1:g}", *rest]) for row, first, *rest in cells]
    (tmp_path / "left.csv").write_text("\n".join([lines[0], *changed]) + "\n")
    warnings: list[str] = []
    monkeypatch.setattr(ProgressReporter, "warn", lambda self, text: warnings.append(text))
    predict_rows(tmp_path, None, three_parties.agreement(privacy=ONCE))
    [text] = [each for each in warnings if "privacy" in each]
    assert "are released again" in text
    assert "ε = 2.944; no budget is agreed" in text
    assert [released(tmp_path, name) for name in ("left", "right")] == [2, 1]


def test_a_prediction_with_noise_at_every_visit_is_charged(tmp_path: Path) -> None:
    privacy = {"embed_train": {"sigma": 0.5}}
    private_run(tmp_path, privacy)
    before = released(tmp_path, "left")
    plan = three_parties.agreement(privacy=privacy)
    one, two = (predict_rows(tmp_path, None, plan).probabilities for _ in range(2))
    assert not np.array_equal(one, two, equal_nan=True)
    assert released(tmp_path, "left") == before + 2


def test_unlearning_reads_only_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with recorded(tmp_path, monkeypatch, privacy=ONCE) as (split_model, _, wire):
        for rows in (vfl_pb2.TRAIN_ROWS, vfl_pb2.VALIDATION, vfl_pb2.TEST):
            split_model.logits(rows)
        before = len(wire.embeddings("left"))
        three_parties.forget_some(split_model)
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        ((rule, sample),) = METHODS["ico-like"].orders(split_model.agreement).starts
        split_model.restore_copy("original", "original", vfl_pb2.UNLEARN, rule, sample)
        assert len(split_model.rows.select(vfl_pb2.SAMPLE)) > 0
        for rows in (vfl_pb2.FORGOTTEN, vfl_pb2.RETAIN, vfl_pb2.SAMPLE):
            assert len(split_model.logits(rows)) == len(split_model.rows.select(rows))
        assert len(wire.embeddings("left")) == before


def test_prediction_without_the_noise_of_training_is_refused(tmp_path: Path) -> None:
    private_run(tmp_path, ONCE)
    with pytest.raises(ConfigError, match=r"another agreement, which differs in: privacy"):
        predict_rows(tmp_path, None, three_parties.agreement())


def test_gradient_ascent_changes_the_top_model_above_one_time_embeddings(tmp_path: Path) -> None:
    """The parties' bottom models are frozen: no party holds a gradient, and none refuses a step."""
    plan = {"method": "gradient-ascent", "compare": ("fine-tune", "relabel"), "retrains": 2}
    training = {"epochs": 60, "learning_rate": 0.05}
    little = {"embed_once": {"noise_multiplier": 0.1}}
    metrics = private_run(tmp_path, little, unlearn=FORGET, unlearning=plan, training=training)
    method = metrics["requests"][0]["methods"][1]
    assert method["name"] == "gradient-ascent"
    losses = method["details"]["losses"]
    assert len(losses) == 10
    assert losses[0] < losses[-1]
