"""Interface of a client unlearning method."""

from typing import Protocol

from torch import Tensor

from parties.horizontal.engine.unlearning_context import UnlearningContext
from unlearning.guarantee import Guarantee


class Method(Protocol):
    """A client unlearning method."""

    @property
    def name(self) -> str:
        """Name of the method in the config and in the report."""

    @property
    def guarantee(self) -> Guarantee:
        """How strong the method's guarantee is, for example ``EXACT`` or ``HEURISTIC``."""

    @property
    def needs_single_updates(self) -> bool:
        """Whether the method needs the updates of single clients.

        Such a method cannot run with secure aggregation, which hides the updates of single clients.
        """

    @property
    def rounds(self) -> int | None:
        """The maximum number of rounds that the method records; None if unknown before the run."""

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``."""
