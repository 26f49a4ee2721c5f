"""Memory check before the run: estimates how much memory a party needs."""

from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from transformers import AutoConfig, PreTrainedConfig

from configs.errors import ConfigError
from configs.language import LanguageAgreement, LoraSettings
from models.language.adapters import AdapterSettings as Adapters
from models.language.folder import examine_model_folder
from models.language.memory import (
    EvaluationLoad,
    MemoryEstimate,
    TrainingLoad,
    available_memory,
    estimate_evaluation,
    estimate_training,
)
from parties.common.progress import ProgressReporter
from parties.language.engine.adapter_aggregation import MAX_MEASURED
from parties.language.engine.answer_likelihood import rows_per_pass
from parties.language.engine.errors import translate_model_errors
from parties.language.evaluation.benchmarks.attacks import ATTACK_BATCH
from parties.language.registry import text_local_tasks

Role: TypeAlias = Literal["client", "server"]

REPORTED_FROM = 1e9  # bytes; smaller estimates are not reported
WORK_OF: dict[Role, str] = {"client": "training at a client", "server": "evaluation at the server"}
LESS_MEMORY: dict[Role, str] = {
    "client": "to save memory, set training.micro_batch = 1, training.checkpointing = true or a "
    "smaller model.length for all parties, or use adapters on a base model in bfloat16",
    "server": "to save memory, set a smaller evaluation.batch, bfloat16, or neither "
    "evaluation.quantise nor evaluation.relearn",
}
# Vectors of trainable weights at a server: the initial model, the model of the round, one update,
# and a sum in float64 (two).
SERVER_VECTORS = 5
# With adapters, the updates and models of a round are kept as well, to measure the gap of factors.
MERGED_VECTORS = 2 * MAX_MEASURED


def memory_roles(agreement: LanguageAgreement, *, server: bool) -> tuple[Role, ...]:
    """Return the roles, ``server`` or ``client``, that run on a party's machine.

    The server's machine also runs simulated clients.
    """
    if not server:
        return ("client",)
    return ("server", "client") if agreement.clients else ("server",)


def training_load(agreement: LanguageAgreement) -> TrainingLoad:
    """Return the settings that determine the memory of a client's largest training step."""
    tasks = [
        (each.batch, each.text) for each in text_local_tasks(agreement) if each.text is not None
    ]
    plan, tuning, usual = agreement.model, agreement.tuning, agreement.training
    lora = None
    if isinstance(tuning, LoraSettings):
        lora = Adapters(
            rank=tuning.rank,
            alpha=tuning.alpha,
            dropout=tuning.dropout,
            modules=tuple(tuning.modules),
        )
    return TrainingLoad(
        batch=max(
            min(batch, usual.micro_batch or batch) * (1 + text.has_retain_term)
            for batch, text in tasks
        ),
        length=plan.length,
        lora=lora,
        precision=plan.precision,
        quantisation=plan.quantised,
        copies=2 + any(text.needs_reference for _, text in tasks),
        checkpointing=usual.checkpointing,
    )


def evaluation_load(agreement: LanguageAgreement) -> EvaluationLoad:
    """Return the settings that determine the memory of the server's evaluation.

    Without a benchmark, the server needs memory only to store models.
    """
    plan = agreement.evaluation
    measures, tuning = plan.benchmark != "none", agreement.tuning
    merges = isinstance(tuning, LoraSettings) and tuning.merging != "freeze_A"
    copies = SERVER_VECTORS + (MERGED_VECTORS if merges else 0)
    return EvaluationLoad(
        training=replace(training_load(agreement), batch=ATTACK_BATCH, copies=copies),
        batch=plan.batch if measures else 0,
        tokens=plan.tokens,
        quantises=measures and plan.quantise,
        relearns=measures and plan.relearn > 0,
    )


def read_base_config(agreement: LanguageAgreement, base: Path) -> PreTrainedConfig:
    """Check the base model against the agreement, and return the config of the base model.

    Raises:
        DataError: the folder has no config.
        ConfigError: the base model has fewer layers than ``unlearning.rmu.layer``, or accepts fewer
            tokens than ``model.length``.
    """
    with translate_model_errors():
        examine_model_folder(base)
        found: PreTrainedConfig = AutoConfig.from_pretrained(base, local_files_only=True)
    config = found.get_text_config()
    texts = [each.text for each in text_local_tasks(agreement) if each.text is not None]
    deepest = max((each.layer for each in texts if each.objective == "rmu"), default=0)
    if deepest > config.num_hidden_layers:
        raise ConfigError(
            f"unlearning.rmu.layer is {deepest}, but the base model in {base} has only "
            f"{config.num_hidden_layers} layers",
            f"set unlearning.rmu.layer to a number from 1 to {config.num_hidden_layers}, or remove "
            "the key to use the middle layer",
        )
    most = getattr(config, "max_position_embeddings", None)
    if most is not None and agreement.model.length > most:
        raise ConfigError(
            f"model.length is {agreement.model.length}, but the base model in {base} accepts texts "
            f"of at most {most} tokens",
            f"set model.length to {most} or less",
        )
    return config


def estimate_party_memory(agreement: LanguageAgreement, base: Path, role: Role) -> MemoryEstimate:
    """Return the estimated memory that a role needs if all texts have the maximum length.

    Raises:
        DataError: the folder has no config.
        ConfigError: the base model does not fit the agreement.
    """
    config = read_base_config(agreement, base)
    training = training_load(agreement)
    with translate_model_errors():
        if role == "server":
            return estimate_evaluation(config, evaluation_load(agreement))
        rows = rows_per_pass(training.length, config.vocab_size)
        measured = rows * training.length * config.vocab_size
        return estimate_training(config, replace(training, measured=measured))


def report_memory(
    agreement: LanguageAgreement, base: Path, device: str, progress: ProgressReporter, *roles: Role
) -> None:
    """Report the estimated memory of each role; warn if the device has less memory.

    The estimate assumes texts of maximum length. Shorter texts need less memory, so a lack of
    memory is only a warning.

    Raises:
        DataError: the folder has no config.
        ConfigError: the base model does not fit the agreement.
    """
    available = available_memory(device)
    for role in roles:
        found = estimate_party_memory(agreement, base, role)
        text = found.sentence(available, WORK_OF[role])
        if available is not None and found.total > available:
            progress.warn(f"{text}; {LESS_MEMORY[role]}")
        elif found.total > REPORTED_FROM:
            progress.note(text)
