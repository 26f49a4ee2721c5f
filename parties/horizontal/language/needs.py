"""What a run needs of this machine's memory, said before it is needed."""

from pathlib import Path

from transformers import AutoConfig

from configs.language import Language, Lora
from models.language.adapters import Lora as Adapters
from models.language.folder import examine
from models.language.memory import MemoryEstimate, Training, available_memory, estimate
from parties.horizontal.language.choice import lessons
from parties.horizontal.language.told import told
from parties.watch import Watch

SAID = 1e9  # bytes below which nobody need hear of it
SMALLER = "a smaller training.batch or model.length, adapters or bfloat16 need less"


def training_of(agreement: Language) -> Training:
    """What one process of the run trains, in the step that needs most."""
    given = [(each.batch, each.text) for each in lessons(agreement) if each.text is not None]
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
        batch=max(batch * (1 + text.retains) for batch, text in given),
        length=plan.length,
        lora=lora,
        precision=plan.precision,
        quantisation=plan.quantised,
        copies=2 + any(text.looks_back for _, text in given),
    )


def needs(agreement: Language, base: Path, device: str) -> tuple[MemoryEstimate, int | None]:
    """The estimate, and the bytes that there are, where that can be told.

    Raises:
        DataError: the folder has no config.
    """
    with told():
        examine(base)
        config = AutoConfig.from_pretrained(base, local_files_only=True)
        return estimate(config, training_of(agreement)), available_memory(device)


def say_needs(agreement: Language, base: Path, device: str, watch: Watch) -> None:
    """Tell what a client's training needs where that is much; a warning where there is less.

    It is no more than an estimate for texts of the greatest length, so nobody is refused.

    Raises:
        DataError: the folder has no config.
    """
    found, there = needs(agreement, base, device)
    if there is not None and found.total > there:
        watch.warn(f"{found.sentence(there)}; {SMALLER}")
    elif found.total > SAID:
        watch.note(found.sentence(there))
