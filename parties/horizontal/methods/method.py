"""What a way to unlearn is to the server's program."""

from typing import Protocol

from torch import Tensor

from parties.horizontal.engine.unlearning_context import Scene
from unlearning.guarantee import Guarantee


class Method(Protocol):
    """One way to unlearn."""

    @property
    def name(self) -> str:
        """As the config and the report have it."""

    @property
    def guarantee(self) -> Guarantee:
        """What it promises."""

    @property
    def single(self) -> bool:
        """Whether it needs single clients' updates, which secure aggregation hides."""

    @property
    def rounds(self) -> int | None:
        """How many it tells of at most, for its remaining time; None: nobody knows before."""

    def run(self, scene: Scene) -> Tensor:
        """The unlearned model, ``[d]``."""
