"""Embeddings that the active party keeps: a request to forget sends no embedding."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import three_parties
import torch
from kept_trio import train_trio
from test_local_start import altered, equal
from test_resume import prepare, run_parties, without_costs
from three_parties import agreement, forget_some, networks, open_split_model, party
from whole_run import QUICK, TRAINING, run

from configs.errors import ConfigError
from parties.requests.driver import carry_out
from parties.requests.lifecycle import RequestState
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.training_loop import EMBEDDINGS
from parties.vertical.kept_model import party_models
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.retrain_local import RetrainLocalMethod
from parties.vertical.methods.train_model import train_model
from parties.vertical.passive import PassiveSession
from parties.vertical.purge import purge_request, search_residues
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError
from unlearning.receipts.receipt import decode_receipt

LOCAL: dict[str, Any] = {"codes": "fixed", "top_epochs": 2, "keep_embeddings": True}
UNLEARNING: dict[str, Any] = {"retrain_local": {"codes": "fixed", "top_epochs": 2}}
FORGET = ({"name": "request", "classes": ["a"], "fraction": 0.5},)


def kept(**changes: Any) -> dict[str, Any]:
    """The tables of an agreement that keeps embeddings."""
    training = TRAINING | {"start": "local", "local": LOCAL | changes}
    return {"training": training, "preprocessing": "declared"}


@contextmanager
def trained(folder: Path) -> Iterator[tuple[SplitModel, dict[str, PassiveSession]]]:
    """A trained model that keeps embeddings, after a request for some rows."""
    folder.mkdir(exist_ok=True)
    with open_split_model(folder, unlearning=UNLEARNING, **kept()) as (split_model, sessions):
        train_model(split_model, vfl_pb2.TRAIN_ROWS, ORIGINAL, "training")
        split_model.keep_copy(ORIGINAL, vfl_pb2.TRAIN)
        forget_some(split_model)
        yield split_model, sessions


def retrained(folder: Path) -> tuple[dict[str, list[torch.Tensor]], list[str], int]:
    """Every party's parameters after the method, the forgotten IDs, and the embeddings it sent."""
    with trained(folder) as (split_model, sessions):
        traffic = split_model.party.traffic
        before = traffic.total("Embedding").rows
        carry_out(RetrainLocalMethod(), NetworkRun(split_model))
        sent = traffic.total("Embedding").rows - before
        ids = split_model.state.features.ids()
        gone = [ids[row].decode() for row in split_model.rows.forgotten]
        found = networks(split_model, sessions).items()
        copies = {name: [p.detach().clone() for p in each.parameters()] for name, each in found}
        return copies, gone, sent


def test_forgetting_sends_no_embedding_and_no_bit_depends_on_a_forgotten_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, gone, sent = retrained(tmp_path / "first")
    assert (len(gone), sent) == (20, 0)
    monkeypatch.setattr(three_parties, "write_data", altered(lambda key: key in gone))
    found, same, _ = retrained(tmp_path / "second")
    assert same == gone
    assert equal(found, expected) == ["hub", "left", "right"]
    monkeypatch.setattr(three_parties, "write_data", altered(lambda key: key not in gone))
    found, _, _ = retrained(tmp_path / "third")
    assert equal(found, expected) == ["left", "right"]  # the top model depends on remaining rows


def test_kept_embeddings_of_forgotten_rows_are_found_and_erased(tmp_path: Path) -> None:
    with trained(tmp_path) as (split_model, _):
        split_model.checkpoint()
        gone = split_model.state.requested_rows
        stored = split_model.checkpoints.read(split_model.number).tensors[EMBEDDINGS]
        assert {name: each.shape[1] for name, each in stored.items()} == {"left": 4, "right": 2}
        assert all(each[gone].any() for each in stored.values())
        found = search_residues(split_model)["hub"]
        assert "cached embeddings" in found
        assert f"kept embeddings in checkpoint {split_model.number}" in found
        carry_out(RetrainLocalMethod(), NetworkRun(split_model))
        purged = purge_request(split_model, "request")
        assert f"cached embeddings of {len(gone)} rows" in purged["hub"]
        left = search_residues(split_model)["hub"]
        assert not [each for each in left if "embeddings" in each]
        stored = split_model.checkpoints.read(split_model.number).tensors[EMBEDDINGS]
        assert not any(each[gone].any() for each in stored.values())
        assert all(each.any() for each in stored.values())


def test_passive_party_refuses_to_train_its_bottom_model(tmp_path: Path) -> None:
    with trained(tmp_path) as (split_model, sessions):
        for session in sessions.values():
            with pytest.raises(RemoteProtocolError, match=r"training\.local\.keep_embeddings does"):
                session._release.require_trainable()
        assert not next(networks(split_model, sessions)["left"].parameters()).requires_grad


def test_request_in_a_later_process_sends_no_embedding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = {"method": "retrain-local", "compare": ("fine-tune", "relabel"), "retrains": 2}
    trio = train_trio(tmp_path, unlearning=UNLEARNING | method, **kept())
    asked: list[str] = []
    monkeypatch.setattr(PassiveSession, "_evaluate", lambda *_: asked.append("embeddings"))
    monkeypatch.setattr(PassiveSession, "_embed", lambda *_: asked.append("embeddings"))
    request = trio.request("left", [3, 5, 8])
    trio.carry_out()
    assert trio.view("hub", request).state is RequestState.CERTIFIED
    assert asked == []
    path = trio.folder / "runs" / "trio" / "hub" / "receipts" / f"{request}.json"
    receipt = decode_receipt(path.read_bytes())
    assert receipt.guarantee.kind.value == "exact"
    destroyed = {
        each.party: [item.id for item in each.artefacts_destroyed] for each in receipt.statements
    }
    assert "kept-embeddings-of-the-rows" in destroyed["hub"]
    assert "kept-embeddings-of-the-rows" not in destroyed["left"]
    store = party_models(trio.party("hub"))
    (version,) = store.files()
    embeddings = store.read(version.number).tensors[EMBEDDINGS]
    assert not any(each[[3, 5, 8]].any() for each in embeddings.values())
    assert all(each.any() for each in embeddings.values())


WHOLE: dict[str, Any] = {
    "unlearn": FORGET,
    "unlearning": QUICK
    | UNLEARNING
    | {"method": "retrain-local", "compare": ("fine-tune", "relabel")},
    **kept(),
}


def test_report_tells_what_is_kept_and_that_no_row_was_sent(tmp_path: Path) -> None:
    metrics = run(tmp_path, **WHOLE)
    (request,) = metrics["requests"]
    found = {each["name"]: each for each in request["methods"]}
    assert [found[name]["cost"]["rows"] for name in ("retrain-local", "retrain")] == [0, 0]
    assert found["retrain-local"]["guarantee"] == "exact"
    assert any("copy of the embeddings of the remaining rows" in each for each in request["kept"])
    assert all(not each for each in request["remains"].values())


@pytest.mark.parametrize(("name", "message"), [("left", 20), ("hub", 40)])
def test_crash_does_not_change_the_result(tmp_path: Path, name: str, message: int) -> None:
    for folder in (tmp_path / "whole", tmp_path / "crashed"):
        folder.mkdir()
        prepare(folder)
    expected = run_parties(tmp_path / "whole", **WHOLE)
    run_parties(tmp_path / "crashed", (name, message), **WHOLE)
    found = run_parties(tmp_path / "crashed", **WHOLE)
    assert any(note.startswith("resumed checkpoint") for note in found.notes)
    assert found.files == expected.files
    assert found.metrics is not None
    assert expected.metrics is not None
    assert without_costs(found.metrics["requests"]) == without_costs(expected.metrics["requests"])


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "bottoms that are fitted": (kept(codes="svd"), "training.local.codes = 'fixed'"),
    "fitted preprocessing": (kept() | {"preprocessing": "fitted"}, "preprocessing = 'declared'"),
    "a method that fits bottoms": (
        kept() | {"unlearning": {"method": "retrain-local"}},
        "no bottom model is trained",
    ),
    "a backdoor": (
        kept()
        | {
            "unlearn": [
                {
                    "name": "some",
                    "classes": ["a"],
                    "backdoor": {"party": "left", "target": "a", "columns": ["x", "y"]},
                }
            ]
        },
        "with training.local.keep_embeddings a party sends",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_cannot_keep_embeddings_are_refused(tmp_path: Path, name: str) -> None:
    changes, reason = REFUSED[name]
    with pytest.raises(ConfigError, match=reason):
        party(tmp_path, "hub", agreement(**changes), [])
