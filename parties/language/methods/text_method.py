"""What all methods of the LLM mode share: how the round plans of their stages are built."""

from typing import Protocol

from configs.language_unlearning import TextStage
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.local.local_task import TextTask

FITTING = TextTask()  # the usual loss


class TextStageBuilder(Protocol):
    """Builds the round plan of one stage of a method."""

    def __call__(self, stage: TextStage, stream: str, text: TextTask = FITTING) -> RoundPlan:
        """Return the round plan of a stage; ``stream`` is the stage's random stream."""
