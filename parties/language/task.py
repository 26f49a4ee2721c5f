"""A language model, as the server teaches it."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from configs.language import Lora
from parties.horizontal.engine.cohort import Cohort, Kind, Member
from parties.horizontal.engine.rounds import Course
from parties.horizontal.evaluation.outcome import Outcome, Scores
from parties.horizontal.methods.method import Method
from parties.language.engine.adapter_aggregation import TextCohort
from parties.language.evaluation.benchmarks.benchmark import Benchmark, open_benchmark
from parties.language.evaluation.metrics import figures
from parties.language.party import LanguageParty
from parties.language.registry import training, ways
from unlearning.audit.figure import Figure

KINDS: tuple[Kind, ...] = ("forgotten", "retained", "held")


class LanguageSubject:
    """See ``Subject``."""

    own, one_start, history, revert, conflicts = False, True, 0, 0, False
    clusters: tuple[tuple[str, ...], ...] = ()
    libraries = ("transformers", "peft", "tokenizers", "safetensors")

    def __init__(self, party: LanguageParty) -> None:
        self._party, self._agreement = party, party.agreement
        self._room = party.room
        self._benchmark: Benchmark | None = open_benchmark(party)
        self._texts: TextCohort | None = None
        self._steps: int | None = None  # of measuring one model, once one was

    def around(self, cohort: Cohort) -> Cohort:
        """See ``Subject``: tokens are told, and adapters merged as was agreed on."""
        plan = self._agreement.tuning
        merging = plan.merging if isinstance(plan, Lora) else None
        self._texts = TextCohort(
            cohort,
            self._party.watch.passed,
            factors=self._room.layout if merging in ("factors", "product_svd") else None,
            products=merging == "product_svd",
            hidden=self._agreement.aggregation.kind != "none",
        )
        return self._texts

    def fresh(self, stream: str) -> Tensor:
        """See ``Subject``: the base, whatever the stream, with the adapters that change nothing."""
        del stream
        return self._room.start.clone()

    def training(self, stream: str) -> Course:
        """See ``Subject``."""
        return training(self._agreement, stream)

    def ways(self, rounds: int) -> Sequence[Method]:
        """See ``Subject``."""
        return ways(self._agreement, rounds)

    def read(self, cohort: Cohort, model: Tensor, leaving: Sequence[Member]) -> Scores:
        """See ``Subject``."""
        del leaving
        return {kind: dict(cohort.read(cohort.clients, kind, model)) for kind in KINDS}

    def marks(self, name: str, model: Tensor) -> dict[str, Any]:
        """See ``Subject``: the benchmark's figures."""
        if self._benchmark is None:
            return {}
        watch, steps = self._party.watch, 0
        watch.phase(f"measuring {name}", self._steps)

        def step() -> None:
            nonlocal steps
            steps += 1
            watch.step()

        found = self._benchmark.marks(self._room, model, step)
        self._steps = steps
        return found

    def figures(
        self, outcomes: Sequence[Outcome], leaving: Sequence[str]
    ) -> Mapping[str, Sequence[Figure]]:
        """See ``Subject``."""
        del leaving
        return figures(outcomes)

    def told(self) -> dict[str, Any]:
        """See ``Subject``."""
        agreement, tuning = self._agreement, self._agreement.tuning
        merging = tuning.merging if isinstance(tuning, Lora) else None
        gaps = self._texts.gaps if self._texts else []
        return {
            "partition": agreement.partition.kind,
            "personal": "none",
            "revert": 0,
            "tuning": tuning.kind,
            "merging": merging,
            "merging_gaps": [each.relative for each in gaps],
            "merging_distances": [each.gap for each in gaps],
            "base": self._room.digest,
            "benchmark": agreement.evaluation.benchmark,
        }

    def delivered(self, model: Tensor) -> dict[str, Tensor]:
        """See ``Subject``."""
        return self._room.delivered(model)
