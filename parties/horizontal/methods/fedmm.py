"""FedMM: error-maximising noise impairs the model, then error-minimising noise repairs it.

Error-maximising noise has a large loss in the original model, error-minimising noise a small loss.
The clients train on noise instead of rows (Chundawat et al. 2023; paper 003, §VI-A3). Each client
generates noise for its own classes, and uses only the original model and its own personal
parameters. Therefore, a client sends neither its descriptor nor its classes to the server. The
program of Mimir's authors differs: it labels the noise for all forgotten rows with class 0. The
original method shuffles error-maximising and error-minimising noise into one batch. Here the
leaving clients train on error-maximising noise and the remaining clients on error-minimising noise;
the server adds the weighted mean of both updates. Each round has new noise. The original method
runs one epoch of repair. In measurements with one epoch of repair, the model had forgotten little,
so the default number of repair rounds here is larger.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field

from configs.client_unlearning import ClientMethodSettings, Reads, StageSettings
from configs.table import Count, Fraction, Positive
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import Aim, LocalTask
from parties.horizontal.methods.method import ModelState, StagedMethod, Stages
from parties.horizontal.methods.recover import Recovery, TrainedState
from parties.horizontal.methods.student import target_members
from parties.report.method_names import Label
from parties.requests.driver import StepResult
from unlearning.horizontal.error_noise import ErrorNoisePlan

MINIMISING: Final = "error-minimising-noise"
MAXIMISING: Final = "error-maximising-noise"


class FedMmSettings(ClientMethodSettings):
    """FedMM (Chundawat et al. 2023): uses error-maximising and error-minimising noise."""

    uses_target_client: ClassVar[bool] = True

    # Rounds that train on error-maximising noise.
    impair: StageSettings = StageSettings(rounds=1, learning_rate=0.02, batch=256)
    # Rounds that train on error-minimising noise.
    repair: StageSettings = StageSettings(rounds=5, learning_rate=0.01, batch=256)
    share: Fraction = 0.2  # weight of the leaving clients' update in a round of impair
    noise_rows: Annotated[int, Field(ge=1, le=65_536)] = 256  # noise images per class
    noise_steps: Count = 40  # optimisation steps of the noise
    noise_rate: Positive = 0.1  # learning rate of the noise
    penalty: Annotated[float, Field(ge=0)] = 0.1  # weight of the penalty on the noise's norm


@dataclass(frozen=True, slots=True)
class FedMm(StagedMethod[ModelState]):
    """All clients train on noise for some rounds, and then only the remaining clients do so."""

    impair: RoundPlan  # rounds with both kinds of noise
    repair: RoundPlan  # rounds with error-minimising noise
    noise: ErrorNoisePlan  # settings of the noise
    plan: FedMmSettings = field(default_factory=FedMmSettings)  # the other settings
    # The only remaining client that the method uses and whose model is unlearned; None: all
    # remaining clients.
    target_client: str | None = None
    name: str = "fedmm"
    label: ClassVar = Label("FedMM", "error-maximising, then error-minimising noise")
    settings: ClassVar = FedMmSettings
    reads: ClassVar[Reads] = "leaving update"

    @classmethod
    def from_settings(cls, plan: FedMmSettings, rounds: Stages) -> Self:
        """Build the method from its settings."""
        noise = ErrorNoisePlan(
            rows=plan.noise_rows, steps=plan.noise_steps, learning_rate=plan.noise_rate,
            penalty=plan.penalty,
        )  # fmt: skip
        impair, repair = rounds(plan.impair, "impair"), rounds(plan.repair, "repair")
        return cls(impair, repair, noise, plan, rounds.agreement.unlearning.target_client)

    def tasks(self) -> list[LocalTask]:
        """Return the tasks on noise instead of those of the plans."""
        impair, repair = self.impair.task, self.repair.task
        return [
            self._noisy(impair, MINIMISING),
            self._noisy(impair, MAXIMISING),
            self._noisy(repair, MINIMISING),
        ]

    def count(self, _run: HorizontalRun) -> int:
        """Return the number of rounds with both kinds of noise."""
        return self.impair.rounds

    def round(self, run: HorizontalRun, state: ModelState, k: int) -> StepResult[ModelState]:
        """Run one round with both kinds of noise."""
        task = self.impair.task_at(k)
        best, worst = self._noisy(task, MINIMISING), self._noisy(task, MAXIMISING)
        slots = {"model": state.model, "teacher": run.original}
        leaving = run.mean_update(run.leaving, worst, slots)
        remaining = run.mean_update(target_members(run, self.target_client), best, slots)
        change = self.plan.share * leaving.delta + (1 - self.plan.share) * remaining.delta
        model = state.model + change.to(state.model.dtype)
        record = run.finish_round(RoundRecord("unlearn", k, model, remaining.loss))
        return ModelState(model), record

    def _noisy(self, task: LocalTask, aim: Aim) -> LocalTask:
        return replace(task, aim=aim, noise=self.noise)

    def recovery(self, run: HorizontalRun, state: ModelState) -> Recovery:
        """Return the rounds with error-minimising noise."""
        best = self._noisy(self.repair.task, MINIMISING)
        members, slots = target_members(run, self.target_client), {"teacher": run.original}
        return Recovery(replace(self.repair, task=best), TrainedState(state.model), members, slots)
