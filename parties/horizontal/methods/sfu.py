"""SFU: gradient ascent that preserves the outputs on sampled rows of the remaining clients.

Notation as in ``unlearning.horizontal.baselines``. Weight and bias of a layer are projected
together. Parameters outside of linear and convolutional layers, such as those of normalisation
layers, do not change. Every remaining client sends the layers' inputs for one batch of rows to the
server (for convolutions, a sample of the patches). The model's outputs on rows that are not in
these batches can change. The paper multiplies the inputs by a random factor to hide the inputs.
This implementation uses no factor, because such a factor does not hide the inputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from configs.client_unlearning import Reads
from parties.horizontal.engine.cohort import quorum_updates
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.fisher import split_by_layer, weight_layers
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.methods.ascent import ClientAscentSettings
from parties.horizontal.methods.method import StagedMethod, Stages
from parties.report.method_names import Label
from parties.requests.driver import StepResult
from unlearning.horizontal.baselines import append_ones, leading_directions, remove_subspace


@dataclass(frozen=True, slots=True)
class SfuState:
    """The state of SFU."""

    model: Tensor  # the model, ``[d]``
    # For each layer, the subspace of the remaining clients' inputs, and of 1 for a bias.
    kept: list[Tensor]


@dataclass(frozen=True, slots=True)
class Sfu(StagedMethod[SfuState]):
    """Runs gradient ascent orthogonal to the remaining clients' inputs, then recovery."""

    ascent: RoundPlan  # plan of the rounds of gradient ascent
    recover: RoundPlan  # plan of the recovery rounds
    network: nn.Module  # a network whose layers have the shapes that the model's layers have
    plan: ClientAscentSettings = field(default_factory=ClientAscentSettings)  # the other settings
    name: str = "sfu"
    label: ClassVar = Label("SFU", "gradient ascent outside the other clients’ inputs")
    settings: ClassVar = ClientAscentSettings
    state: ClassVar[type[SfuState]] = SfuState
    reads: ClassVar[Reads] = "each update"

    @classmethod
    def from_settings(cls, plan: ClientAscentSettings, rounds: Stages) -> Self:
        """Build the method from its settings."""
        ascent = rounds(plan.ascent, "climb", plan.aim)
        return cls(ascent, rounds(plan.recover, "recover"), rounds.network(), plan)

    def tasks(self) -> list[LocalTask]:
        """Return also the report of the layers' inputs."""
        return [*self.planned_tasks(), replace(self.ascent.task, aim="inputs")]

    def count(self, _run: HorizontalRun) -> int:
        """Return the number of rounds of gradient ascent."""
        return self.ascent.rounds

    def init(self, run: HorizontalRun) -> SfuState:
        """Start from the original model, and receive inputs from the remaining clients."""
        return SfuState(run.original, self._subspaces(run))

    def round(self, run: HorizontalRun, state: SfuState, k: int) -> StepResult[SfuState]:
        """Run one round of gradient ascent."""
        mean = run.mean_update(run.leaving, self.ascent.task_at(k), {"model": state.model})
        model = state.model + self._outside(mean.delta.to(state.model.dtype), state.kept)
        record = run.finish_round(RoundRecord("unlearn", k, model, mean.loss))
        return replace(state, model=model), record

    def _subspaces(self, run: HorizontalRun) -> list[Tensor]:
        """Per layer the subspace of the remaining clients' inputs, and of 1 for a bias."""
        input_task = replace(self.ascent.task_at(0), aim="inputs")
        reports = [
            each.delta
            for _, each in quorum_updates(run, run.remaining, input_task, {"model": run.original})
        ]
        widths = [_width(layer) for layer in weight_layers(self.network)]
        parts = [torch.split(each.view(-1, sum(widths)), widths, dim=1) for each in reports]
        found = []
        for place, layer in enumerate(weight_layers(self.network)):
            columns = torch.cat([part[place] for part in parts]).T
            joint = columns if layer.bias is None else append_ones(columns)
            found.append(leading_directions(joint, self.plan.energy))
        return found

    def _outside(self, change: Tensor, kept: Sequence[Tensor]) -> Tensor:
        """The part of an update, ``[d]``, that changes no output on the sent inputs."""
        found = torch.zeros_like(change)
        parts, moved = ({(m, name): part for m, name, part in split_by_layer(vector, self.network)}
                        for vector in (change, found))  # fmt: skip
        for layer, basis in zip(weight_layers(self.network), kept, strict=True):
            weight, bias = parts[layer, "weight"], parts.get((layer, "bias"))
            flat = weight.flatten(1)
            joint = remove_subspace(
                flat if bias is None else torch.cat([flat, bias[:, None]], 1), basis
            )
            moved[layer, "weight"].copy_(joint[:, : flat.shape[1]].view_as(weight))
            if bias is not None:
                moved[layer, "bias"].copy_(joint[:, -1])
        return found


def _width(layer: nn.Linear | nn.Conv2d) -> int:
    """Number of elements of one input of a layer."""
    return layer.weight[0].numel()
