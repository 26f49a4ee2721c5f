"""Tasks of the language mode: a language model at the server and at clients."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from torch import Tensor

from configs.language import LanguageAgreement, LoraSettings
from parties.common.shared_randomness import Index
from parties.horizontal.engine.cohort import Cohort
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.evaluation.outcome import ModelOutcome
from parties.horizontal.local.rows import RowKind
from parties.horizontal.methods.method import AnyClientMethod
from parties.horizontal.party import FederatedParty
from parties.horizontal.task import ServerTask
from parties.language.client_data import requested_text_rows
from parties.language.engine.adapter_aggregation import LanguageCohort
from parties.language.engine.base_model import BaseModel
from parties.language.engine.local_training import LanguageClientTask
from parties.language.engine.party import LanguageParty, as_language_party
from parties.language.engine.text_dataset import TextDataset
from parties.language.evaluation.benchmarks.benchmark import Benchmark, open_benchmark
from parties.language.evaluation.metrics import language_metrics
from parties.language.registry import text_training_plan, text_unlearning_methods
from unlearning.audit.metric import Metric


class LanguageServerTask(ServerTask):
    """The task of a server with a language model: every training starts from the base model."""

    common_start = True
    kinds: tuple[RowKind, ...] = ("forgotten", "retained", "test")
    libraries = ("transformers", "peft", "tokenizers", "safetensors")

    def __init__(self, party: LanguageParty) -> None:
        self._party, self._agreement = party, party.agreement
        self._base_model = party.base_model
        self._benchmark: Benchmark | None = open_benchmark(party)
        self._cohort: LanguageCohort | None = None
        self._steps: int | None = None  # steps of the last evaluation; None before the first one

    def wrap_cohort(self, cohort: Cohort) -> Cohort:
        """Return a wrapper of ``cohort`` that counts tokens and aggregates adapters as agreed."""
        plan = self._agreement.tuning
        merging = plan.merging if isinstance(plan, LoraSettings) else None
        self._cohort = LanguageCohort(
            cohort,
            self._party.progress.add_tokens,
            factors=self._base_model.layout if merging in ("factors", "product_svd") else None,
            products=merging == "product_svd",
            hidden=self._agreement.aggregation.kind != "none",
        )
        return self._cohort

    def initial_model(self, stream: str) -> Tensor:
        """Return the base model's trainable weights, ``[d]``; ``stream`` does not change them."""
        del stream
        return self._base_model.initial.clone()

    def training_plan(self, stream: str) -> RoundPlan:
        """Return the round plan of the fine-tuning; ``stream`` selects the batch order."""
        return text_training_plan(self._agreement, stream)

    def methods(self, rounds: int) -> Sequence[AnyClientMethod]:
        """Return the methods that a request runs after ``rounds`` rounds of training."""
        return text_unlearning_methods(self._agreement, rounds)

    def benchmark_metrics(self, name: str, model: Tensor) -> dict[str, Any]:
        """Return the benchmark values of a model ``[d]``; empty without a benchmark."""
        if self._benchmark is None:
            return {}
        progress, steps = self._party.progress, 0
        progress.phase(f"measuring {name}", self._steps)

        def step() -> None:
            nonlocal steps
            steps += 1
            progress.step()

        found = self._benchmark.measure(self._base_model, model, step)
        self._steps = steps
        return found

    def metrics(
        self, outcomes: Sequence[ModelOutcome], leaving: Sequence[str]
    ) -> Mapping[str, Sequence[Metric]]:
        """Return the metrics of all models of a request, by name of the model."""
        del leaving
        return language_metrics(outcomes)

    def run_facts(self) -> dict[str, Any]:
        """Return the settings and measurements that are recorded with a run."""
        agreement, tuning = self._agreement, self._agreement.tuning
        merging = tuning.merging if isinstance(tuning, LoraSettings) else None
        gaps = self._cohort.gaps if self._cohort else []
        return {
            "partition": agreement.partition.kind,
            "personal": "none",
            "revert": 0,
            "tuning": tuning.kind,
            "merging": merging,
            "merging_gaps": [each.relative for each in gaps],
            "merging_distances": [each.gap for each in gaps],
            "base": self._base_model.digest,
            "benchmark": agreement.evaluation.benchmark,
        }

    def named_tensors(self, model: Tensor) -> dict[str, Tensor]:
        """Return a model ``[d]`` as a dictionary of named tensors, of any shape."""
        return self._base_model.named_tensors(model)


def language_server_task(party: FederatedParty) -> LanguageServerTask:
    """Return the task of a server in the language mode."""
    return LanguageServerTask(as_language_party(party))


def language_client_task(party: FederatedParty) -> LanguageClientTask:
    """Return the task of a client in the language mode, with a progress display."""
    ours = as_language_party(party)
    agreement, listed = ours.agreement, ours.listed_rows
    task = build_text_client(agreement, ours.name, ours.base_model, ours.dataset, listed)
    return replace(task, progress=ours.progress)


def build_text_client(
    agreement: LanguageAgreement,
    name: str,
    base_model: BaseModel,
    dataset: TextDataset,
    listed: Mapping[str, Container[bytes]] = MappingProxyType({}),
) -> LanguageClientTask:
    """Return the task of the client ``name``; running this task changes ``base_model``.

    ``listed`` are the hashes of the texts of the requests whose texts are known by hash.
    """
    requested = partial(_requested, agreement, name, listed)
    micro_batch = agreement.training.micro_batch
    return LanguageClientTask(name, base_model, dataset, agreement.seed, requested, micro_batch)


def _requested(
    agreement: LanguageAgreement,
    name: str,
    listed: Mapping[str, Container[bytes]],
    dataset: TextDataset,
    request: str,
) -> Index | None:
    """The rows of a request; None if the agreement has no such request."""
    found = next((each for each in agreement.unlearn if each.name == request), None)
    if found is None:
        return None
    return requested_text_rows(agreement, found, name, dataset, listed.get(request))
