"""Settings of the methods of gradient ascent at the leaving client: EWC-SGA, FU-PGA and SFU."""

from configs.client_unlearning import ClientMethodSettings, StageSettings
from configs.table import Fraction, Positive
from parties.horizontal.local.local_task import Aim


class ClientAscentSettings(ClientMethodSettings):
    """EWC-SGA, FU-PGA or SFU: constrained gradient ascent, executed by the leaving client."""

    ascent: StageSettings = StageSettings(rounds=20, clip=1.0)  # rounds of ascent
    recover: StageSettings = StageSettings()  # rounds of recovery
    # Whether the ascent stops at the loss of a uniform guess (FU-PGA and SFU).
    stop_at_uniform: bool = True
    strength: Positive = 1.0  # weight of the elastic term (EWC-SGA)
    # Squared distance to the leaving client's model at which the ascent stops (FU-PGA); the program
    # of FU-PGA's authors also squares the distance.
    max_distance: Positive = 2.2
    energy: Fraction = 0.99  # fraction of the inputs' energy in the protected subspace (SFU)

    @property
    def aim(self) -> Aim:
        """The aim of the local tasks of the ascent (FU-PGA and SFU)."""
        return "ascent" if self.stop_at_uniform else "elastic"
