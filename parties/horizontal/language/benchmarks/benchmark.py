"""What a benchmark is to the server, and the attacks on a model that it is asked for."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torch import Tensor

from configs.errors import ConfigError
from configs.language import Language
from configs.language_seat import LanguageServerSeat, MuseBenchmark, TofuBenchmark
from parties.horizontal.language.benchmarks.asking import Step
from parties.horizontal.language.benchmarks.attacks import Relearning, relearned, rounded
from parties.horizontal.language.benchmarks.muse import Muse
from parties.horizontal.language.benchmarks.tofu import Tofu
from parties.horizontal.language.party import LanguageParty
from parties.horizontal.language.room import Room
from parties.horizontal.language.texts.encoding import Encoded


class Questions(Protocol):
    """Questions and texts that a model is measured with."""

    def marks(self, room: Room, step: Step) -> dict[str, Any]:
        """Its figures of the room's model; ``ratios`` and ``leak_auc`` are set beside Retrain's."""

    def known(self, room: Room) -> float:
        """One number for how much of the forgotten is there, for attacks."""

    def forgotten(self, room: Room) -> Sequence[Encoded]:
        """What was forgotten, for an attacker that has a part of it."""


class Benchmark:
    """A benchmark's questions, and the attacks that were agreed on."""

    def __init__(self, questions: Questions, agreement: Language) -> None:
        self._questions, self._plan = questions, agreement.evaluation
        plan = self._plan
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
                found[f"rounded_{bits}_probability"] = self._questions.known(rounded(room, bits))
        if self._plan.relearn:
            rows = self._questions.forgotten(room)
            found["relearned"] = relearned(room, rows, self._attack, self._plan.batch)
        return found


def open_benchmark(party: LanguageParty) -> Benchmark | None:
    """The agreed benchmark from the files of the server's seat; None: there is none.

    Raises:
        ConfigError: the seat names no files, or those of another benchmark.
        DataError: a file is absent, or not what it should be.
    """
    plan, seat = party.agreement.evaluation, party.seat
    if plan.relearn and plan.rows and not 0 < round(plan.relearn_share * plan.rows) < plan.rows:
        raise ConfigError(
            f"evaluation.relearn_share {plan.relearn_share} of evaluation.rows {plan.rows} leaves "
            "a side without texts",
            "ask more rows, or give the attacker another share",
        )
    if plan.benchmark == "none":
        return None
    files = seat.benchmark if isinstance(seat, LanguageServerSeat) else None
    match files:
        case TofuBenchmark() if plan.benchmark == "tofu":
            folder = party.folder / files.path
            return Benchmark(Tofu.read(folder, files.forget, plan), party.agreement)
        case MuseBenchmark() if plan.benchmark == "muse":
            folder = party.folder / files.path / files.corpus
            return Benchmark(Muse.read(folder, plan), party.agreement)
        case _:
            raise ConfigError(
                f"evaluation.benchmark is {plan.benchmark!r}, and the seat of {party.name} names "
                "no such files",
                f'benchmark = {{kind = "{plan.benchmark}", path = "DIR"}}',
            )
