"""What a run needs of this machine's memory, said before it is needed."""

from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from transformers import AutoConfig, PreTrainedConfig

from configs.errors import ConfigError
from configs.language import Language, Lora
from models.language.adapters import Lora as Adapters
from models.language.folder import examine
from models.language.memory import (
    Measuring,
    MemoryEstimate,
    Training,
    available_memory,
    estimate,
    estimate_measuring,
)
from parties.common.progress import Watch
from parties.language.engine.adapter_aggregation import MEASURED
from parties.language.engine.errors import told
from parties.language.evaluation.benchmarks.attacks import BATCH
from parties.language.evaluation.measuring import at_once
from parties.language.registry import lessons

Role: TypeAlias = Literal["client", "server"]

SAID = 1e9  # bytes below which nobody need hear of it
WHAT: dict[Role, str] = {"client": "a client's training", "server": "the server's measuring"}
SMALLER: dict[Role, str] = {
    "client": "training.micro_batch = 1, training.checkpointing = true, adapters (on a base in "
    "bfloat16) or a smaller model.length, at all parties alike, need less",
    "server": "a smaller evaluation.batch, bfloat16, or no evaluation.quantise and no "
    "evaluation.relearn, need less",
}
VECTORS = 5  # of what is taught, at a server: the first, this round's, an update; a sum in float64
KEPT = 2 * MEASURED  # and of adapters, a round's updates and models, whose merging is measured


def roles(agreement: Language, *, server: bool) -> tuple[Role, ...]:
    """Whose work is done on this machine: a server's may be all simulated clients' as well."""
    if not server:
        return ("client",)
    return ("server", "client") if agreement.clients else ("server",)


def training_of(agreement: Language) -> Training:
    """What one process of the run trains, in the step that needs most."""
    given = [(each.batch, each.text) for each in lessons(agreement) if each.text is not None]
    plan, tuning, usual = agreement.model, agreement.tuning, agreement.training
    lora = None
    if isinstance(tuning, Lora):
        lora = Adapters(
            rank=tuning.rank,
            alpha=tuning.alpha,
            dropout=tuning.dropout,
            modules=tuple(tuning.modules),
        )
    return Training(
        batch=max(
            min(batch, usual.micro_batch or batch) * (1 + text.retains) for batch, text in given
        ),
        length=plan.length,
        lora=lora,
        precision=plan.precision,
        quantisation=plan.quantised,
        copies=2 + any(text.looks_back for _, text in given),
        checkpointing=usual.checkpointing,
    )


def measuring_of(agreement: Language) -> Measuring:
    """What the server does with a model; without a benchmark it only holds one."""
    plan = agreement.evaluation
    asks, tuning = plan.benchmark != "none", agreement.tuning
    kept = KEPT if isinstance(tuning, Lora) and tuning.merging != "freeze_A" else 0
    return Measuring(
        learned=replace(training_of(agreement), batch=BATCH, copies=VECTORS + kept),
        batch=plan.batch if asks else 0,
        tokens=plan.tokens,
        rounds=asks and plan.quantise,
        relearns=asks and plan.relearn > 0,
    )


def base_config(agreement: Language, base: Path) -> PreTrainedConfig:
    """The base's config, of which the agreement asks nothing that is not there.

    Raises:
        DataError: the folder has no config.
        ConfigError: RMU steers a layer that the base does not have, or texts are longer than it
            takes.
    """
    with told():
        examine(base)
        found: PreTrainedConfig = AutoConfig.from_pretrained(base, local_files_only=True)
    config = found.get_text_config()
    texts = [each.text for each in lessons(agreement) if each.text is not None]
    deepest = max((each.layer for each in texts if each.objective == "rmu"), default=0)
    if deepest > config.num_hidden_layers:
        raise ConfigError(
            f"unlearning.rmu.layer is {deepest}, and the base model in {base} has "
            f"{config.num_hidden_layers} layers",
            "name one of them, from 1, or leave it out: the one in the middle",
        )
    most = getattr(config, "max_position_embeddings", None)
    if most is not None and agreement.model.length > most:
        raise ConfigError(
            f"model.length is {agreement.model.length}, and the base model in {base} takes {most} "
            "tokens at once",
            f"model.length = {most}",
        )
    return config


def needs(agreement: Language, base: Path, role: Role) -> MemoryEstimate:
    """The estimate, for texts of the greatest length.

    Raises:
        DataError: the folder has no config.
        ConfigError: the agreement and the base do not go together.
    """
    config = base_config(agreement, base)
    learned = training_of(agreement)
    with told():
        if role == "server":
            return estimate_measuring(config, measuring_of(agreement))
        measured = at_once(learned.length, config.vocab_size) * learned.length * config.vocab_size
        return estimate(config, replace(learned, measured=measured))


def say_needs(agreement: Language, base: Path, device: str, watch: Watch, *whose: Role) -> None:
    """Tell what the work of ``whose`` needs where that is much; a warning where there is less.

    It is no more than an estimate for texts of the greatest length, so nobody is refused.

    Raises:
        DataError: the folder has no config.
        ConfigError: the agreement and the base do not go together.
    """
    there = available_memory(device)
    for role in whose:
        found = needs(agreement, base, role)
        said = found.sentence(there, WHAT[role])
        if there is not None and found.total > there:
            watch.warn(f"{said}; {SMALLER[role]}")
        elif found.total > SAID:
            watch.note(said)
