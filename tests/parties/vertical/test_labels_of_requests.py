"""Which labels a request by label means: the right ones, and no true ones with label privacy."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest
import torch
from kept_trio import KeptTrio, train_trio
from test_corrected_later import PLAN, correct, labels, next_class, rows_of, write_labels
from three_parties import PARTIES

from parties.common.errors import StorageError
from parties.requests.events import DecisionBody, EventKind
from parties.requests.lifecycle import RequestState


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """Three parties that have trained; tests work on copies."""
    return train_trio(tmp_path_factory.mktemp("trained"), **PLAN)


@pytest.fixture
def trio(trained: KeptTrio, tmp_path: Path) -> KeptTrio:
    """A copy of the trained parties."""
    shutil.copytree(trained.folder, tmp_path / "trio")
    return KeptTrio(tmp_path / "trio", dict(trained.plan))


def forget_label(trio: KeptTrio, name: str = "a") -> str:
    """Request that all rows of a class are forgotten; return the ID of the request."""
    return trio.request("left", rows=None, kind="label", classes=(name,), subjects_root=None)


def of_class(now: torch.Tensor, name: str = "a") -> tuple[int, ...]:
    """The rows with this label."""
    return tuple(torch.nonzero(now == "abc".index(name)).flatten().tolist())


def mislabelled(trio: KeptTrio) -> tuple[dict[int, str], torch.Tensor]:
    """Other labels for some rows, of which some leave the class a and some enter it."""
    wanted, right = next_class(trio, rows_of(trio, "train")[:12]), labels(trio).clone()
    for row, label in wanted.items():
        right[row] = "abc".index(label)
    assert set(of_class(right)) - set(of_class(labels(trio)))
    assert set(of_class(labels(trio))) - set(of_class(right))
    return wanted, right


def test_request_by_label_after_a_correction_means_the_right_labels(trio: KeptTrio) -> None:
    wanted, right = mislabelled(trio)
    correction = correct(trio, wanted)
    request = forget_label(trio)
    trio.carry_out()
    for name in PARTIES:
        assert trio.view(name, request).rows == of_class(right)
        assert trio.view(name, correction).state is RequestState.CERTIFIED
    assert of_class(labels(trio)) == ()  # also none that the correction makes one of the class


def test_request_by_label_before_a_correction_means_the_labels_of_then(trio: KeptTrio) -> None:
    wanted, _ = mislabelled(trio)
    before = of_class(labels(trio))
    request = forget_label(trio)
    correct(trio, wanted)
    trio.carry_out()
    assert trio.view("hub", request).rows == before


def test_withdrawn_correction_does_not_count(trio: KeptTrio) -> None:
    wanted, _ = mislabelled(trio)
    before = of_class(labels(trio))
    correction = correct(trio, wanted)
    with closing(trio.desk("hub")) as desk:
        desk.append(EventKind.WITHDRAWN, correction, DecisionBody(reason="mistake"))
    request = forget_label(trio)
    trio.carry_out()
    assert trio.view("hub", request).rows == before


def test_correction_of_a_party_without_labels_does_not_count(trio: KeptTrio) -> None:
    """No person has rejected it yet."""
    wanted, _ = mislabelled(trio)
    before = of_class(labels(trio))
    trio.policies = dict.fromkeys(PARTIES, "roles")
    correction = correct(trio, wanted, "left")
    request = forget_label(trio)
    trio.carry_out()
    for name in PARTIES:
        with closing(trio.desk(name)) as desk:
            desk.append(EventKind.APPROVED, request, DecisionBody())
    trio.carry_out()
    assert trio.view("hub", correction).state is RequestState.RECEIVED
    assert trio.view("hub", request).rows == before
    assert of_class(labels(trio)) == ()


def test_restored_model_corrects_labels_before_rows_of_a_label_are_named(trio: KeptTrio) -> None:
    wanted, right = mislabelled(trio)
    runs, backup = trio.folder / "runs" / "trio", trio.folder / "backup"
    shutil.copytree(runs, backup)
    correction = correct(trio, wanted)
    trio.carry_out()
    write_labels(trio, wanted)  # the key of the request's labels is not in the backup
    for name in PARTIES:
        for journal in (runs / name).glob("requests.sqlite*"):
            shutil.copy(journal, backup / name)
    shutil.rmtree(runs)
    shutil.copytree(backup, runs)
    request = forget_label(trio)
    trio.carry_out()
    views = [trio.view("hub", each) for each in (correction, request)]
    assert views[1].rows == of_class(right)
    assert views[0].version_after == views[1].version_before


def test_lost_labels_of_an_open_correction_are_not_guessed(trio: KeptTrio) -> None:
    wanted, right = mislabelled(trio)
    correction = correct(trio, wanted)
    request = forget_label(trio)
    trio.party("hub").keys.destroy(f"subjects-{correction}")
    with pytest.raises(StorageError, match="has 12 of the wrong ones"):
        trio.carry_out()
    assert trio.view("hub", request).rows is None
    write_labels(trio, wanted)
    trio.carry_out()
    assert trio.view("hub", request).rows == of_class(right)


def test_request_by_label_names_no_row_by_its_true_label_if_labels_are_private(
    tmp_path: Path,
) -> None:
    """Labels of test rows are not flipped, so the rows that a class has would be known exactly."""
    unlearning = {"method": "retrain-paired", "compare": (), "retrains": 0}
    plan = {"unlearning": unlearning, "requests": {"guard": 1.0}}
    trio = train_trio(tmp_path, privacy={"label_dp": {"epsilon": 0.5}}, **plan)
    used = labels(trio).clone()
    sets = {name: set(rows_of(trio, name)) for name in ("train", "validation", "test")}
    of = {name: set(of_class(used, name)) for name in "abc"}
    assert all(of["a"] & each for each in sets.values())
    requests = {name: forget_label(trio, name) for name in "ab"}
    trio.carry_out()
    for name, request in requests.items():
        view = trio.view("left", request)
        assert view.state is RequestState.CERTIFIED
        assert set(view.rows or ()) == of[name] - sets["test"]
    assert set(of_class(labels(trio))) == of["a"] & sets["test"]  # they stay test rows


def test_no_figure_of_true_labels_leaves_the_active_party(tmp_path: Path) -> None:
    """Two figures of test rows, of which one row left in between, show whether its label fits."""
    unlearning = {"method": "fine-tune", "compare": ("fine-tune", "relabel"), "retrains": 2}
    plan = {"unlearning": unlearning, "requests": {"guard": 1.0, "audit": "full"}}
    trio = train_trio(tmp_path, privacy={"label_dp": {"epsilon": 0.5}}, **plan)
    request = trio.request("left", [*rows_of(trio, "train")[:9], rows_of(trio, "test")[0]])
    trio.carry_out()
    assert {"test_before", "test_after", "test_retrain"} <= trio.figures().keys()
    for name in PARTIES:
        (figures,) = trio.journaled_figures(name, request)
        assert {"validation_before", "retrains"} <= figures.keys()
        assert not [each for each in figures if each.startswith(("test", "forgotten", "member"))]
