"""A kept model of a number: a request with retrain-local, from the desk to the receipt."""

from contextlib import closing

import pytest
import torch
from kept_trio import KeptTrio, train_trio
from other_labels import NUMBER, truth, write_diabetes
from three_parties import PARTIES

from parties.requests.lifecycle import RequestState
from parties.requests.receipts import read_receipt
from parties.vertical.kept_model import kept_ids, present_version
from parties.vertical.service.desk import why_not_corrected

TRAINED = {"learning_rate": 0.02, "batch": 32, "epochs": 6}


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """Three parties with a kept model, after one request to forget 30 rows."""
    folder = tmp_path_factory.mktemp("trio")
    unlearning = {"method": "retrain-local"}
    trio = train_trio(
        folder,
        442,
        write_diabetes,
        labels=NUMBER,
        training=TRAINED,
        unlearning=unlearning,
        requests={"keep": "model"},
    )
    before = [each.decode() for each in kept_ids(trio.models()["hub"], 1)]
    trio.request("left", range(30))
    trio.carry_out()
    (folder / "before.txt").write_text("\n".join(before))
    return trio


def test_receipt_states_the_loss_of_r2(trio: KeptTrio) -> None:
    with closing(trio.desk("hub")) as desk:
        (view,) = desk.requests()
        assert view.state is RequestState.CERTIFIED
    figures = trio.figures()
    folder = trio.folder / "runs" / "trio" / "hub" / "receipts"
    (result,) = read_receipt(folder / f"{view.id}.json").audit.results
    assert (result.name, result.metric, result.passed) == (
        "utility", "loss-of-validation-r2", True,
    )  # fmt: skip
    lost = float(figures["validation_r2_before"]) - float(figures["validation_r2_after"])
    assert float(result.value) == pytest.approx(lost, abs=1e-4)
    assert 0 <= float(figures["membership_auc"]) <= 1
    assert not {"forgotten_r2_after", "validation_after", "streisand_auc"} & figures.keys()


def test_new_version_is_standardised_without_the_forgotten_rows(trio: KeptTrio) -> None:
    store = trio.models()["hub"]
    ids = (trio.folder / "before.txt").read_text().split("\n")
    content = store.read(present_version(store))
    rows = content.tensors["rows"]["train"].tolist()
    known = truth(trio.folder, [ids[row] for row in rows])[:, 0]
    network = content.tensors["network 0"]
    assert not set(range(30)) & set(rows)
    assert network["target.mean"].item() == pytest.approx(known.mean())
    assert network["target.scale"].item() == pytest.approx(known.std())
    labels = content.tensors["labels"]["labels"]
    assert bool(labels[:30].isnan().all())
    assert torch.equal(labels[rows], torch.from_numpy(known))
    assert {name: present_version(each) for name, each in trio.models().items()} == dict.fromkeys(
        PARTIES, present_version(store)
    )


def test_numbers_are_not_corrected(trio: KeptTrio) -> None:
    reason = why_not_corrected(trio.party("hub").agreement)
    assert "labels.task is 'regression'" in reason


def test_request_is_completed_although_r2_can_no_longer_be_measured(trio: KeptTrio) -> None:
    store = trio.models()["hub"]
    rows = store.read(present_version(store)).tensors["rows"]
    asked = [*rows["train"].tolist()[:1], *rows["validation"].tolist()[1:]]  # one row is left
    request = trio.request("left", asked)
    trio.carry_out()
    assert trio.view("hub", request).state is RequestState.CERTIFIED
    figures = trio.figures()
    assert "validation_r2_after" not in figures
    assert "test_r2_after" in figures
