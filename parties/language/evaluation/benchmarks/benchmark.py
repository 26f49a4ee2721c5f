"""What a benchmark is to the server, and the attacks on a model that it is asked for.

A benchmark is put into tokens when it is opened, which is before the training.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torch import Tensor

from configs.errors import ConfigError
from configs.language import Language
from configs.language_seat import LanguageServerSeat, MuseBenchmark, TofuBenchmark
from configs.seat import Chair
from parties.language.engine.base_model import Room
from parties.language.evaluation.benchmarks.asking import Step
from parties.language.evaluation.benchmarks.attacks import Relearning, relearned, rounded
from parties.language.evaluation.benchmarks.muse import Muse
from parties.language.evaluation.benchmarks.reading import Reader
from parties.language.evaluation.benchmarks.tofu import Tofu
from parties.language.party import LanguageParty
from parties.language.texts.encoding import Encoded


class Questions(Protocol):
    """Questions and texts that a model is measured with."""

    @property
    def known_as(self) -> str:
        """What ``known`` is: probability, or knowledge."""

    @property
    def forgotten(self) -> Sequence[Encoded]:
        """What was forgotten, for an attacker that has a part of it."""

    def marks(self, room: Room, step: Step) -> dict[str, Any]:
        """Its figures of the room's model; ``ratios`` and ``leak_auc`` are set beside Retrain's."""

    def known(self, room: Room) -> float:
        """One number for how much of the forgotten is there, for attacks."""


class Benchmark:
    """A benchmark's questions, and the attacks that were agreed on."""

    def __init__(self, questions: Questions, agreement: Language) -> None:
        """Take a benchmark that is read.

        Raises:
            ConfigError: the attacker's share leaves one side without texts.
        """
        self._questions, self._plan = questions, agreement.evaluation
        plan, count = self._plan, len(questions.forgotten)
        if plan.relearn and not 0 < round(plan.relearn_share * count) < count:
            raise ConfigError(
                f"evaluation.relearn_share {plan.relearn_share} of {count} forgotten texts leaves "
                "a side without any",
                "ask more rows, or give the attacker another share",
            )
        rate = plan.relearn_rate or agreement.training.learning_rate
        self._attack = Relearning(plan.relearn, plan.relearn_share, rate, agreement.seed)

    def marks(self, room: Room, model: Tensor, step: Callable[[], None]) -> dict[str, Any]:
        """The figures of a model, ``[d]``."""
        with room.alone:
            return self._marks(room, model, step)

    def _marks(self, room: Room, model: Tensor, step: Callable[[], None]) -> dict[str, Any]:
        room.take(model)
        room.model.eval()
        found = self._questions.marks(room, step)
        if self._plan.quantise:
            for bits in (8, 4):
                known = self._questions.known(rounded(room, bits))
                found[f"rounded_{bits}_{self._questions.known_as}"] = known
        if self._plan.relearn:
            rows = self._questions.forgotten
            before, after, count = relearned(room, rows, self._attack, self._plan.batch)
            found |= {"relearned_before": before, "relearned": after, "relearned_texts": count}
        return found


def open_benchmark(party: LanguageParty) -> Benchmark | None:
    """The agreed benchmark from the files of the server's seat; None: there is none.

    Raises:
        ConfigError: see ``named_files`` and ``Benchmark``.
        DataError: a file is absent, not what it should be, or longer than the base model takes.
    """
    if party.agreement.evaluation.benchmark == "none":
        return None
    reader = Reader(party.room)
    found = Benchmark(_read(party, reader), party.agreement)
    reader.say(party.watch)
    return found


def named_files(agreement: Language, seat: Chair, name: str) -> TofuBenchmark | MuseBenchmark:
    """The agreed benchmark's files, as the seat of server ``name`` says.

    Raises:
        ConfigError: the seat names none, or those of another benchmark.
    """
    agreed = agreement.evaluation.benchmark
    files = seat.benchmark if isinstance(seat, LanguageServerSeat) else None
    if files is None or files.kind != agreed:
        raise ConfigError(
            f"evaluation.benchmark is {agreed!r}, and the seat of {name} names no such files",
            f'benchmark = {{kind = "{agreed}", path = "DIR"}}',
        )
    return files


def _read(party: LanguageParty, reader: Reader) -> Questions:
    plan = party.agreement.evaluation
    match named_files(party.agreement, party.seat, party.name):
        case TofuBenchmark() as files:
            return Tofu.read(party.folder / files.path, files.forget, plan, reader)
        case MuseBenchmark() as files:
            return Muse.read(party.folder / files.path / files.corpus, plan, reader)
