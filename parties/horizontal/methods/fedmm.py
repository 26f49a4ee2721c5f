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

from dataclasses import dataclass, replace

from torch import Tensor

from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.methods.recover import recover
from parties.horizontal.methods.student import for_target_client
from unlearning.guarantee import Guarantee
from unlearning.horizontal.error_noise import ErrorNoisePlan


@dataclass(frozen=True, slots=True)
class FedMm:
    """All clients train on noise for some rounds; then only the remaining clients train on noise.

    Attributes:
        impair: rounds with both kinds of noise.
        repair: rounds with error-minimising noise.
        noise: settings of the noise.
        share: weight of the leaving clients' update in the mean of an ``impair`` round.
        target_client: the only remaining client that the method uses and whose model is unlearned;
            None: all remaining clients.
    """

    impair: RoundPlan
    repair: RoundPlan
    noise: ErrorNoisePlan
    share: float = 0.2
    target_client: str | None = None
    name: str = "fedmm"
    guarantee: Guarantee = Guarantee.HEURISTIC
    needs_single_updates: bool = False

    @property
    def rounds(self) -> int:
        """Largest number of rounds that the method records."""
        return self.impair.rounds + self.repair.rounds

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``."""
        context = for_target_client(context, self.target_client)
        model, teacher = context.original, {"teacher": context.original}
        for number in range(self.impair.rounds):
            best = replace(
                self.impair.task_at(number), aim="error-minimising-noise", noise=self.noise
            )
            worst, slots = replace(best, aim="error-maximising-noise"), {"model": model, **teacher}
            leaving = context.cohort.mean_update(context.leaving, worst, slots)
            remaining = context.cohort.mean_update(context.remaining, best, slots)
            change = self.share * leaving.delta + (1 - self.share) * remaining.delta
            model = model + change.to(model.dtype)
            context.record_round(RoundRecord("unlearn", number, model, remaining.loss))
        best = replace(self.repair.task, aim="error-minimising-noise", noise=self.noise)
        return recover(context, model, replace(self.repair, task=best), teacher)
