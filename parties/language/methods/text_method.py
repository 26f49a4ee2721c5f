"""What all methods of the LLM mode share: how the round plans of their stages are built."""

from dataclasses import dataclass, replace

from configs.language import LanguageAgreement
from configs.language_unlearning import TextStage
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.local.local_task import LocalTask, TextTask

FITTING = TextTask()  # the usual loss


@dataclass(frozen=True, slots=True)
class TextStages:
    """Builds the round plans of the stages of the method that configs call ``name``."""

    agreement: LanguageAgreement
    name: str

    def __call__(self, stage: TextStage, stream: str, text: TextTask = FITTING) -> RoundPlan:
        """Return the plan of a stage with the random stream ``stream``.

        Settings that the stage leaves out are those of the training.
        """
        usual = self.agreement.training
        task = LocalTask(
            aim="text",
            stream=f"{self.name} {stream}",
            epochs=stage.epochs,
            batch=stage.batch or usual.batch,
            learning_rate=stage.learning_rate or usual.learning_rate,
            weight_decay=usual.weight_decay,
            proximal=usual.proximal if stage.proximal is None else stage.proximal,
            clip=usual.clip,
            text=replace(text, optimiser=usual.optimiser),
        )
        share = usual.share if stage.share is None else stage.share
        return RoundPlan(task, stage.rounds, share, usual.decay, seed=self.agreement.seed)
