"""What a way to unlearn is to the driver: a name, a guarantee, a run from the original model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from parties.vertical.engine.batch import Answered
from parties.vertical.engine.split_model import Federation
from parties.vertical.methods.threshold import Threshold
from unlearning.guarantee import Guarantee

ORIGINAL = "original"  # the slot of the model to unlearn from, and its stream


@dataclass(frozen=True, slots=True)
class Facts:
    """What a run tells of itself: plain JSON for the report, gradients for the audits alone.

    Attributes:
        figures: of its row in the report.
        iterations: its course, where the report draws one.
        stopped: why it ended, where there are several ways.
        threshold: what was forgotten enough, where it has one.
        answered: gradients by D_u that passive parties got first; None where none did.
        guarantee: what this run promises, where that is not what its method always does.
        audit: further figures, found once the cost is noted.
    """

    figures: dict[str, Any] = field(default_factory=dict)
    iterations: Sequence[dict[str, Any]] = ()
    stopped: str | None = None
    threshold: Threshold | None = None
    answered: Answered | None = None
    guarantee: Guarantee | None = None
    audit: Callable[[], dict[str, Any]] | None = None


class Method(Protocol):
    """One way to unlearn, as a conversation between the parties."""

    @property
    def name(self) -> str:
        """As the config and the report have it."""

    @property
    def guarantee(self) -> Guarantee:
        """What it promises."""

    def run(self, federation: Federation) -> Facts:
        """Leave the unlearned model with all parties; the original is in slot ``ORIGINAL``."""
