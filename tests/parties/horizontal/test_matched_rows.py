"""Forgotten rows are compared with test rows of the same class and without the trigger."""

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

LABELS = st.lists(st.integers(0, 3), max_size=30).map(lambda labels: torch.tensor(labels).long())


@given(LABELS, LABELS, st.binary(min_size=32, max_size=32))
def test_both_sides_have_the_smaller_count_of_each_class(
    ours: torch.Tensor, theirs: torch.Tensor, secret: bytes
) -> None:
    first, second = match_classes(ours, theirs, secret)
    counts = [torch.bincount(side, minlength=4) for side in (ours, theirs)]
    for side, places in ((ours, first), (theirs, second)):
        assert len(np.unique(places)) == len(places)
        taken = torch.bincount(side[torch.from_numpy(places)], minlength=4)
        assert torch.equal(taken, torch.minimum(*counts))


def rows(*labels: int) -> Rows:
    """Return rows of which the network is more certain if their class is 0."""
    truth = torch.tensor(labels)
    inputs = torch.where(truth[:, None] == 0, torch.tensor([3.0, 0.0]), torch.tensor([0.0, 1.0]))
    return Rows(inputs, truth)


def client_of(client_data: ClientData) -> NetworkClientTask:
    network = nn.Linear(2, 2, bias=False)
    nn.init.eye_(network.weight)
    return NetworkClientTask("a", network, client_data, seed=0)


def metrics_of(client: NetworkClientTask) -> dict[str, Metric]:
    model = parameters_to_vector(client.network.parameters()).detach()
    scores = evaluate_model(LocalCohort({"a": client}), model)
    outcomes = [ModelOutcome(name, None, 1.0, 1, scores) for name in ("original", "retrain")]
    return {each.name: each for each in request_metrics(outcomes, {"a"})["original"]}


def test_attack_by_class_alone_has_auc_one_half() -> None:
    """Rows of class 0 are forgotten; against test rows of both classes the AUC would be 0.75."""
    client_data = ClientData(rows(0, 0, 0, 1, 1), rows(0, 0, 1, 1), forgotten=np.arange(3))
    metrics = metrics_of(client_of(client_data))
    assert (metrics["membership_auc"].value, metrics["membership_auc"].n) == (0.5, 2)


def test_rows_with_the_trigger_are_not_compared() -> None:
    client_data = ClientData(
        rows(0, 0, 0, 0, 1), rows(0, 0, 1, 1), np.arange(5), planted=np.array([0, 1, 2])
    )
    client = client_of(client_data)
    client.client_data.train.inputs[:3] = 9.0  # as a trigger leaves them
    model = parameters_to_vector(client.network.parameters()).detach()
    kinds: tuple[RowKind, ...] = ("members", "non_members")
    scores: dict[RowKind, Any] = {kind: client.evaluate(kind, model) for kind in kinds}
    assert scores["members"] == scores["non_members"]
    assert scores["members"].rows == 2
    assert metrics_of(client)["membership_auc"].value == 0.5


def test_without_clean_rows_the_metric_has_a_note_and_no_value() -> None:
    client_data = ClientData(rows(0, 1), rows(0, 1), np.arange(2), planted=np.arange(2))
    auc = metrics_of(client_of(client_data))["membership_auc"]
    assert (auc.value, auc.n) == (None, 0)
    assert auc.note.startswith("no rows of D_u without a trigger")


def test_client_without_forgotten_rows_compares_nothing() -> None:
    client = client_of(ClientData(rows(0, 1), rows(0, 1)))
    model = parameters_to_vector(client.network.parameters()).detach()
    assert (
        client.evaluate("members", model)
        == client.evaluate("non_members", model)
        == RowMetrics(0, 0, 0.0)
    )
