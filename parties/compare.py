"""One request, carried out: FedORA, the baselines, and the models that never saw the rows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

from torch import Tensor

from configs.agreement import Request
from parties.federation import Federation
from parties.fedora import Threshold, Unlearned, threshold, unlearn
from parties.learn import Epoch, Plan, ascend, fine_tune, learn
from protocol import vfl_pb2

ORIGINAL, FEDORA = "original", "fedora"
READ = {
    "forgotten": vfl_pb2.FORGOTTEN,
    "retained": vfl_pb2.RETAIN,
    "validation": vfl_pb2.VALIDATION,
    "test": vfl_pb2.TEST,
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What a method took, every pass counted."""

    seconds: float
    rows: int  # embeddings of rows that passive parties sent
    size: int  # bytes on the wire, both ways


@dataclass(frozen=True, slots=True)
class Outcome:
    """One model: its logits on every row set, and what it took to get it."""

    name: str
    logits: dict[str, Tensor]
    cost: Cost


@dataclass(slots=True)
class Comparison:
    """Everything that was run for one request."""

    request: Request
    outcomes: list[Outcome] = field(default_factory=list)
    threshold: Threshold | None = None
    unlearned: Unlearned | None = None
    ascent: list[float] = field(default_factory=list)

    def outcome(self, name: str) -> Outcome:
        """The outcome of one method."""
        return next(each for each in self.outcomes if each.name == name)


def train(federation: Federation, rows: vfl_pb2.Rows, stream: str, name: str) -> list[Epoch]:
    """Train a fresh model on ``rows``, preprocessing included."""
    federation.fresh(stream, rows, vfl_pb2.TRAIN)
    plan = federation.agreement.training
    return learn(
        federation, Plan(name, vfl_pb2.TRAIN, rows, plan.epochs, plan.batch, plan.patience)
    )


def compare(federation: Federation, request: Request) -> Comparison:
    """Carry out a request from the present model and compare; ends with FedORA's model.

    The original is trained already; ``Federation.forget`` has named D_u.
    """
    found = Comparison(request)
    federation.keep(ORIGINAL, vfl_pb2.TRAIN)
    found.outcomes.append(_outcome(federation, ORIGINAL, lambda: None))
    found.outcomes.append(_outcome(federation, FEDORA, lambda: _fedora(federation, found)))
    federation.keep(FEDORA, vfl_pb2.UNLEARN)
    for name, method in _baselines(federation, found).items():
        found.outcomes.append(_outcome(federation, name, method))
    federation.restore(FEDORA, ORIGINAL, vfl_pb2.UNLEARN)
    return found


def _fedora(federation: Federation, found: Comparison) -> None:
    original = federation.logits(vfl_pb2.VALIDATION)
    found.threshold = threshold(federation, original)
    truth = federation.labels[federation.rows.validation]
    accuracy = (original.argmax(dim=1) == truth).double().mean().item()
    federation.restore(ORIGINAL, ORIGINAL, vfl_pb2.UNLEARN)
    found.unlearned = unlearn(federation, found.threshold.gamma, accuracy)


def _baselines(federation: Federation, found: Comparison) -> dict[str, Callable[[], None]]:
    """What FedORA is compared with, in the order of the report."""

    def tune() -> None:
        federation.restore(ORIGINAL, "fine-tune", vfl_pb2.FINE_TUNE)
        fine_tune(federation)

    def climb() -> None:
        federation.restore(ORIGINAL, ORIGINAL, vfl_pb2.ASCEND)
        found.ascent = ascend(federation)

    def retrain(stream: str, name: str) -> Callable[[], None]:
        def run() -> None:
            train(federation, vfl_pb2.RETAIN, stream, name)

        return run

    count = federation.agreement.unlearning.retrains
    names = ["retrain", *(f"retrain-{number}" for number in range(2, count + 1))]
    return {
        "fine-tune": tune,
        "gradient-ascent": climb,
        **{name: retrain(name, name) for name in names},
        "retrain-paired": retrain(ORIGINAL, "retrain-paired"),
    }


def _outcome(federation: Federation, name: str, method: Callable[[], None]) -> Outcome:
    """Run a method, note its cost, then read its model out (not counted)."""
    ledger, started = federation.party.ledger, perf_counter()
    before, rows = ledger.total(), ledger.total("Embedding").rows
    method()
    after = ledger.total()
    cost = Cost(
        seconds=perf_counter() - started,
        rows=ledger.total("Embedding").rows - rows,
        size=after.size - before.size,
    )
    federation.party.watch.phase(f"reading out {name}", _parts(federation))
    return Outcome(name, {part: federation.logits(rows) for part, rows in READ.items()}, cost)


def _parts(federation: Federation) -> int:
    return sum(len(list(federation.parts(rows))) for rows in READ.values())
