"""Benchmark of the server: questions to a model, and the agreed attacks on the model.

The questions are read and encoded before the training, so that a faulty file is reported early.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from configs.errors import ConfigError
from configs.language import LanguageAgreement
from configs.language_party_settings import LanguageServerSettings, MuseBenchmark, TofuBenchmark
from configs.party_settings import PartySettingsBase
from parties.language.engine.base_model import BaseModel
from parties.language.engine.party import LanguageParty
from parties.language.evaluation.benchmarks.attacks import (
    RelearningAttack,
    quantised_copy,
    relearn_attack,
)
from parties.language.evaluation.benchmarks.benchmark_encoder import BenchmarkEncoder
from parties.language.evaluation.benchmarks.inference import ProgressStep
from parties.language.evaluation.benchmarks.muse import MuseQuestions
from parties.language.evaluation.benchmarks.tofu import TofuQuestions
from parties.language.texts.encoding import EncodedText


class BenchmarkQuestions(Protocol):
    """Encoded questions and texts of a benchmark."""

    @property
    def knowledge_name(self) -> str:
        """Name of the value that ``knowledge()`` returns: "probability" or "knowledge"."""

    @property
    def forgotten(self) -> Sequence[EncodedText]:
        """Forgotten texts; the relearning attack trains on some of these texts."""

    def measure(self, base_model: BaseModel, step: ProgressStep) -> dict[str, Any]:
        """Return the measured values of the benchmark by name.

        The evaluation later compares some of the values with the values of the Retrain model: the
        truth ratios ``ratios`` and ``geometric_ratios``, and ``leak_auc``.
        """

    def knowledge(self, base_model: BaseModel) -> float:
        """Return a score that shows how well the model knows the forgotten texts."""


class Benchmark:
    """A benchmark's questions together with the agreed attacks."""

    def __init__(self, questions: BenchmarkQuestions, agreement: LanguageAgreement) -> None:
        """Check the settings of the relearning attack.

        Raises:
            ConfigError: the attacker's share amounts to no text or to all texts.
        """
        self._questions, self._plan = questions, agreement.evaluation
        plan, count = self._plan, len(questions.forgotten)
        if plan.relearn and not 0 < round(plan.relearn_share * count) < count:
            raise ConfigError(
                f"evaluation.relearn_share = {plan.relearn_share} of {count} forgotten texts "
                "selects no text or all texts for the attack; expected some of the texts",
                "increase evaluation.rows, or change evaluation.relearn_share",
            )
        rate = plan.relearn_rate or agreement.training.learning_rate
        self._attack = RelearningAttack(plan.relearn, plan.relearn_share, rate, agreement.seed)

    def measure(self, base_model: BaseModel, model: Tensor, step: ProgressStep) -> dict[str, Any]:
        """Return the measured values of a model, ``[d]``, by name.

        The function ``step`` is called after each batch.
        """
        with base_model.lock:
            return self._measure(base_model, model, step)

    def _measure(self, base_model: BaseModel, model: Tensor, step: ProgressStep) -> dict[str, Any]:
        base_model.load(model)
        base_model.model.eval()
        found = self._questions.measure(base_model, step)
        if self._plan.quantise:
            for bits in (8, 4):
                knowledge = self._questions.knowledge(quantised_copy(base_model, bits))
                found[f"rounded_{bits}_{self._questions.knowledge_name}"] = knowledge
        if self._plan.relearn:
            rows = self._questions.forgotten
            before, after, count = relearn_attack(base_model, rows, self._attack, self._plan.batch)
            found |= {"relearned_before": before, "relearned": after, "relearned_texts": count}
        return found


def open_benchmark(party: LanguageParty) -> Benchmark | None:
    """Read and encode the agreed benchmark; None if the agreement has no benchmark.

    Raises:
        ConfigError: the party settings do not name the benchmark's files, or
            ``evaluation.relearn_share`` selects no text or all texts.
        DataError: a file is missing or has a wrong format, or a question exceeds the context of the
            base model.
    """
    if party.agreement.evaluation.benchmark == "none":
        return None
    encoder = BenchmarkEncoder(party.base_model)
    found = Benchmark(_read(party, encoder), party.agreement)
    encoder.report(party.progress)
    return found


def benchmark_files(
    agreement: LanguageAgreement, settings: PartySettingsBase, name: str
) -> TofuBenchmark | MuseBenchmark:
    """Return the key ``benchmark``, which names files, from the settings of the server ``name``.

    Raises:
        ConfigError: the party settings name no files, or the files of another benchmark.
    """
    agreed = agreement.evaluation.benchmark
    files = settings.benchmark if isinstance(settings, LanguageServerSettings) else None
    if files is None or files.kind != agreed:
        raise ConfigError(
            f"evaluation.benchmark is {agreed!r}, but the settings of {name} do not name the files "
            "of this benchmark",
            f'set benchmark = {{kind = "{agreed}", path = "DIR"}} in the settings of {name}',
        )
    return files


def _read(party: LanguageParty, encoder: BenchmarkEncoder) -> BenchmarkQuestions:
    plan = party.agreement.evaluation
    match benchmark_files(party.agreement, party.settings, party.name):
        case TofuBenchmark() as files:
            return TofuQuestions.read(party.folder / files.path, files.forget, plan, encoder)
        case MuseBenchmark() as files:
            return MuseQuestions.read(party.folder / files.path / files.corpus, plan, encoder)
