"""FedORA with a given threshold γ and a given accuracy of the original model."""

from dataclasses import replace

from parties.requests.driver import carry_out
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.methods.fedora import FedOraMethod, FedOraState
from parties.vertical.methods.fedora_settings import FedoraSettings
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.run import VerticalRun


class FixedThreshold(FedOraMethod):
    """FedORA, whose γ and whose lowest useful accuracy do not depend on the original model."""

    def __init__(self, gamma: float, accuracy: float) -> None:
        """Use γ = ``gamma``, and ``accuracy`` as the original model's on the validation rows."""
        self._gamma, self._accuracy = gamma, accuracy

    def init(self, run: VerticalRun) -> FedOraState:
        """Prepare the model, then replace what the original model decided."""
        state, plan = super().init(run), run.settings(FedoraSettings)
        limits = [self._gamma] * len(state.limits)
        floor = max(0.0, self._accuracy - plan.utility_loss)
        if plan.policy == "present":  # γ stays at its lowest level until the first validation
            return replace(state, limits=limits, floor=floor)
        duals = [replace(dual, threshold=self._gamma) for dual in state.duals]
        return replace(state, limits=limits, duals=duals, floor=floor)


def run_fedora(split_model: SplitModel, gamma: float, accuracy: float) -> MethodResult:
    """Run FedORA from the copy ``original``, with the threshold γ and the accuracy given."""
    return carry_out(FixedThreshold(gamma, accuracy), NetworkRun(split_model))
