"""One party of a vertical run: its settings, identity and data."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from configs.agreement import VerticalAgreement
from parties.common.json_codec import Tensors
from parties.data.holding import Holding
from parties.data.party_settings import VerticalPartySettings
from parties.session.party import BaseVersion, PartyContext

FIRST_TOP_LAYER = "top.perceptron.0.weight"  # [hidden, sum of the widths], in the active network
SECONDS_PER_ROW = 1e-3  # time limit of work on all rows: about a hundred times what a row needs


@dataclass(frozen=True, slots=True)
class KeptPart(BaseVersion):
    """One party's part of the version from which a training goes on."""

    left: tuple[str, ...]  # its parties that are not in the present agreement
    widths: dict[str, int]  # widths of the embeddings, in the order of the top model
    statistics: object  # of the preprocessing, as JSON; None without features
    parameters: Tensors  # of the party's network, by name

    @property
    def reused(self) -> bool:
        """Whether the training starts from the parameters of the version.

        After a party has left, it does not: the party's columns have shaped all parameters.
        """
        return not self.left

    def fitted_to(self, widths: Mapping[str, int]) -> Tensors:
        """The parameters for a network whose top model reads embeddings of these ``widths``.

        The columns of a new party are zero, so that the model's outputs do not change before the
        first step. The order of ``widths`` is that of the top model.
        """
        found = dict(self.parameters)
        kept = found.get(FIRST_TOP_LAYER)
        if kept is None:
            return found
        parts = dict(zip(self.widths, torch.split(kept, [*self.widths.values()], 1), strict=True))
        rows = kept.shape[0]
        columns = [parts.get(each, kept.new_zeros(rows, width)) for each, width in widths.items()]
        found[FIRST_TOP_LAYER] = torch.cat(columns, dim=1)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class VerticalParty(PartyContext):
    """A party of a vertical run, with its data."""

    agreement: VerticalAgreement
    settings: VerticalPartySettings
    holding: Holding
    base: KeptPart | None = None
