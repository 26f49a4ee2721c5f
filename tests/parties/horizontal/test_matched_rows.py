"""Forgotten rows are compared with test rows like with like: by class, and without the trigger."""

from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from local_cohort import LocalCohort
from torch import nn
from torch.nn.utils import parameters_to_vector

from parties.horizontal.evaluation.metrics import request_metrics
from parties.horizontal.evaluation.outcome import ModelOutcome, evaluate_model
from parties.horizontal.local.local_task import RowMetrics
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.rows import ClientData, RowKind, Rows, match_classes
from unlearning.audit.metric import Metric

LABELS = st.lists(st.integers(0, 3), max_size=30).map(lambda some: torch.tensor(some).long())


@given(LABELS, LABELS, st.binary(min_size=32, max_size=32))
def test_of_every_class_the_side_with_fewer_rows_says_how_many(
    ours: torch.Tensor, theirs: torch.Tensor, secret: bytes
) -> None:
    first, second = match_classes(ours, theirs, secret)
    counts = [torch.bincount(side, minlength=4) for side in (ours, theirs)]
    for side, places in ((ours, first), (theirs, second)):
        assert len(np.unique(places)) == len(places)
        taken = torch.bincount(side[torch.from_numpy(places)], minlength=4)
        assert torch.equal(taken, torch.minimum(*counts))


def rows(*labels: int) -> Rows:
    """Of class 0 the network is surer than of class 1, whatever the row."""
    truth = torch.tensor(labels)
    inputs = torch.where(truth[:, None] == 0, torch.tensor([3.0, 0.0]), torch.tensor([0.0, 1.0]))
    return Rows(inputs, truth)


def learner(client_data: ClientData) -> NetworkClientTask:
    network = nn.Linear(2, 2, bias=False)
    nn.init.eye_(network.weight)
    return NetworkClientTask("a", network, client_data, seed=0)


def measured(one: NetworkClientTask) -> dict[str, Metric]:
    model = parameters_to_vector(one.network.parameters()).detach()
    scores = evaluate_model(LocalCohort({"a": one}), model)
    outcomes = [ModelOutcome(name, None, 1.0, 1, scores) for name in ("original", "retrain")]
    return {each.name: each for each in request_metrics(outcomes, {"a"})["original"]}


def test_an_attack_that_knows_the_class_alone_finds_nothing() -> None:
    """Class 0 must be forgotten; against test rows of both classes its AUC would be 0.75."""
    client_data = ClientData(rows(0, 0, 0, 1, 1), rows(0, 0, 1, 1), forgotten=np.arange(3))
    known = measured(learner(client_data))
    assert (known["membership_auc"].value, known["membership_auc"].n) == (0.5, 2)


def test_no_row_with_the_trigger_is_compared() -> None:
    client_data = ClientData(
        rows(0, 0, 0, 0, 1), rows(0, 0, 1, 1), np.arange(5), planted=np.array([0, 1, 2])
    )
    one = learner(client_data)
    one.client_data.train.inputs[:3] = 9.0  # as a trigger leaves them
    model = parameters_to_vector(one.network.parameters()).detach()
    kinds: tuple[RowKind, ...] = ("members", "non_members")
    found: dict[RowKind, Any] = {kind: one.evaluate(kind, model) for kind in kinds}
    assert found["members"] == found["non_members"]
    assert found["members"].rows == 2
    assert measured(one)["membership_auc"].value == 0.5


def test_without_a_clean_row_there_is_no_figure_and_the_note_says_why() -> None:
    client_data = ClientData(rows(0, 1), rows(0, 1), np.arange(2), planted=np.arange(2))
    found = measured(learner(client_data))["membership_auc"]
    assert (found.value, found.n) == (None, 0)
    assert found.note.startswith("no rows of D_u without a trigger")


def test_who_forgets_nothing_compares_nothing() -> None:
    one = learner(ClientData(rows(0, 1), rows(0, 1)))
    model = parameters_to_vector(one.network.parameters()).detach()
    assert (
        one.evaluate("members", model)
        == one.evaluate("non_members", model)
        == RowMetrics(0, 0, 0.0)
    )
