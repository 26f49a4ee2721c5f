"""What a run needs of this machine's memory, said before it is needed."""

from pathlib import Path

import models.language  # noqa: F401  before transformers, see there
from configs.language import Language, Lora
from models.language.adapters import Lora as Adapters
from models.language.memory import Training, available_memory, estimate
from parties.errors import ResourceError
from parties.watch import Watch

SAID = 1e9  # bytes below which nobody need hear of it


def training_of(agreement: Language) -> Training:
    """What one process of the run trains."""
    plan, tuning = agreement.model, agreement.tuning
    lora = None
    if isinstance(tuning, Lora):
        lora = Adapters(
            rank=tuning.rank,
            alpha=tuning.alpha,
            dropout=tuning.dropout,
            modules=tuple(tuning.modules),
        )
    return Training(
        batch=agreement.training.batch,
        length=plan.length,
        lora=lora,
        precision=plan.precision,
        quantisation=plan.quantised,
    )


def say_needs(agreement: Language, base: Path, device: str, watch: Watch) -> None:
    """Tell what the run needs where that is much.

    Raises:
        ResourceError: it is more than this machine has.
        LanguageModelError: the folder has no config.
    """
    from transformers import AutoConfig  # noqa: PLC0415  after the import above

    from models.language.folder import examine  # noqa: PLC0415

    examine(base)
    needs = estimate(
        AutoConfig.from_pretrained(base, local_files_only=True), training_of(agreement)
    )
    there = available_memory(device)
    if needs.total > SAID:
        watch.note(needs.sentence(there))
    if there is not None and needs.total > there:
        raise ResourceError(
            needs.sentence(there),
            "a smaller training.batch or model.length, adapters in place of full tuning, or bf16",
        )
