"""Permutation importance: how much worse the model is if a party's columns are permuted.

A bottom model computes the embedding of a row from that row alone. So permuting all columns of a
party over the test rows is the same as permuting its embeddings, which the active party has
received for its figures. No message is sent, so no party learns anything about single columns of
another one. The active party permutes its own columns one by one, too.

Source: Breiman, Random Forests, 2001, section 10, on rows that the model has not learned; Fisher,
Rudin, Dominici, All Models are Wrong, but Many are Useful, JMLR 2019.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import fmean, stdev
from typing import cast

import torch
from torch import Tensor

from parties.common.shared_randomness import torch_seed
from parties.report.record import Importance, ImportanceFigure, ImportanceLine
from parties.vertical.engine.features import ModelInputs
from parties.vertical.engine.networks import ActiveNetwork
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import share_correct
from parties.vertical.engine.training_loop import RowOutputs
from unlearning.audit.classifier import roc_auc
from unlearning.audit.membership import Outputs
from unlearning.audit.targets import labels_figures, number_figures
from unlearning.sharding import mean_shard_logits

MOST_COLUMNS = 200  # of the active party: each permutation of a column is a pass over test rows

IMAGES = "its features are images, which have no columns"
MANY_COLUMNS = f"it has more than {MOST_COLUMNS} columns"

# Test outputs, [rows, outputs], with the test rows in the order [rows] at one place.
Permuted = Callable[[Tensor], Tensor]


def permutation_importance(split_model: SplitModel, test: RowOutputs, count: int) -> Importance:
    """Measure the importance of every party, and of every column of the active party.

    Args:
        split_model: the model.
        test: its outputs on the test rows, and all parties' embeddings.
        count: number of permutations of each party and column.
    """
    state, labels = _TestRows(split_model, test), split_model.labels[split_model.rows.test]
    figures = _figures(split_model, Outputs(test.logits, labels))
    split_model.party.progress.phase("permutation importance")
    lines = []
    for party, column, permuted in state.places():
        falls: dict[str, list[float]] = {name: [] for name in figures}
        for number in range(count):
            words = ("importance", party, column or "", number)
            seed = torch_seed(split_model.agreement.seed, *words)
            generator = torch.Generator().manual_seed(seed)
            order = torch.randperm(len(labels), generator=generator)
            found = _figures(split_model, Outputs(permuted(order), labels))
            for name, values in falls.items():
                values.append(figures[name] - found[name])
        drops = {name: _summary(values) for name, values in falls.items()}
        lines.append(ImportanceLine(party=party, column=column, drops=drops))
    return Importance(
        permutations=count,
        figures=figures,
        lines=tuple(lines),
        columns_absent=state.columns_absent,
    )


def _summary(values: Sequence[float]) -> ImportanceFigure:
    return ImportanceFigure(mean=fmean(values), sd=stdev(values) if len(values) > 1 else None)


def _figures(split_model: SplitModel, outputs: Outputs) -> dict[str, float]:
    """The figures that are compared, by name; one that is not defined is left out."""
    task = split_model.agreement.labels.task
    found: dict[str, float | None]
    if task == "regression":
        found = {"r2": number_figures(outputs).values.get("r2")}
    elif task == "multilabel":
        values = labels_figures(outputs).values
        found = {name: values.get(name) for name in ("auc_macro", "accuracy")}
    else:
        found = {
            "auc": roc_auc(outputs),
            "accuracy": share_correct(outputs.logits, outputs.labels),
        }
    return {name: value for name, value in found.items() if value is not None}


class _TestRows:
    """The embeddings of the test rows, for each model of an ensemble.

    Attributes:
        columns_absent: why the active party's columns are not permuted one by one; None if they
            are, or if it has none.
    """

    def __init__(self, split_model: SplitModel, test: RowOutputs) -> None:
        local = split_model.local_model
        networks = local.member_networks() if split_model.ensemble else [local.model.network]
        self._networks = [cast(ActiveNetwork, each) for each in networks]
        plan = split_model.agreement
        self._widths = {name: each.width or 0 for name, each in plan.feature_parties.items()}
        self._size, self._party = plan.limits.pass_rows, split_model.party.name
        members = torch.split(test.embeddings, sum(self._widths.values()), dim=1)
        self._embeddings = [torch.split(each, [*self._widths.values()], dim=1) for each in members]
        self._rows = torch.from_numpy(split_model.rows.test)
        self._inputs = local.model.inputs
        self.columns_absent = _columns_absent(self._inputs)

    def places(self) -> Iterator[tuple[str, str | None, Permuted]]:
        """Yield the party, its column or None for all, and a function that permutes them."""
        for at, name in enumerate(self._widths):
            yield name, None, partial(self._with_party, at)
        if self._inputs is not None and self.columns_absent is None:
            for column, places in self._inputs.fitted.places().items():
                yield self._party, column, partial(self._with_columns, places)

    def _with_party(self, at: int, order: Tensor) -> Tensor:
        """Outputs with the embeddings of party number ``at`` in the order ``order``, [rows]."""
        return self._outputs(lambda member: self._embeddings[member][at][order], at)

    def _with_columns(self, places: list[int], order: Tensor) -> Tensor:
        """Outputs with the values at ``places`` of the own rows in the order ``order``, [rows]."""
        if self._inputs is None:
            raise LookupError("the active party has no features")
        values = self._inputs.values[self._rows]
        values[:, places] = values[order][:, places]
        at = list(self._widths).index(self._party)
        return self._outputs(lambda member: self._embedded(self._networks[member], values), at)

    def _embedded(self, network: ActiveNetwork, values: Tensor) -> Tensor:
        """The own embeddings, [rows, width], of ``values``, [rows, columns]."""
        return torch.cat([network.embed(part) for part in torch.split(values, self._size)])

    @torch.no_grad()
    def _outputs(self, changed: Callable[[int], Tensor], at: int) -> Tensor:
        """Outputs, [rows, outputs], with the ``changed`` embeddings of party number ``at``."""
        found = []
        for member, network in enumerate(self._networks):
            parts = [*self._embeddings[member]]
            parts[at] = changed(member)
            pieces = zip(*(torch.split(each, self._size) for each in parts), strict=True)
            found.append(torch.cat([network(list(piece)) for piece in pieces]))
        return mean_shard_logits(found) if len(found) > 1 else found[0]


def _columns_absent(inputs: ModelInputs | None) -> str | None:
    if inputs is None:
        return None
    if inputs.fitted.image is not None:
        return IMAGES
    return MANY_COLUMNS if len(inputs.fitted.places()) > MOST_COLUMNS else None
