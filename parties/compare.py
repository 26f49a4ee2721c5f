"""One request, carried out: FedORA, the baselines, and the models that never saw the rows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

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

    def since(self, start: "Cost") -> "Cost":
        """What was added since ``start``."""
        return Cost(self.seconds - start.seconds, self.rows - start.rows, self.size - start.size)


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


@dataclass(frozen=True, slots=True)
class Start:
    """What FedORA starts from: γ, and the original's accuracy on the validation rows."""

    threshold: Threshold
    accuracy: float


def _fedora(federation: Federation, found: Comparison) -> None:
    start = federation.once("start of fedora", Start, lambda: _start(federation))
    found.threshold = start.threshold
    federation.restore(ORIGINAL, ORIGINAL, vfl_pb2.UNLEARN)
    found.unlearned = unlearn(federation, start.threshold.gamma, start.accuracy)


def _start(federation: Federation) -> Start:
    read = partial(federation.logits, vfl_pb2.VALIDATION)
    original = federation.once("original on validation rows", Tensor, read, durable=False)
    truth = federation.labels[federation.rows.validation]
    accuracy = (original.argmax(dim=1) == truth).double().mean().item()
    return Start(threshold(federation, original), accuracy)


def _baselines(federation: Federation, found: Comparison) -> dict[str, Callable[[], None]]:
    """What FedORA is compared with, in the order of the report."""

    def tune() -> None:
        federation.restore(ORIGINAL, "fine-tune", vfl_pb2.FINE_TUNE)
        fine_tune(federation)

    def climb() -> None:
        federation.restore(ORIGINAL, ORIGINAL, vfl_pb2.ASCEND)
        found.ascent = federation.once("ascent", list, lambda: ascend(federation))

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
    spent = partial(_spent, federation)
    start = federation.once(f"{name} begins", Cost, spent, durable=False)
    method()
    end = federation.once(f"{name} ends", Cost, spent, durable=False)
    logits = federation.once(f"{name} read out", dict[str, Tensor], lambda: _read(federation, name))
    return Outcome(name, logits, end.since(start))


def _spent(federation: Federation) -> Cost:
    """What the run took so far."""
    ledger = federation.party.ledger
    return Cost(ledger.elapsed, ledger.total("Embedding").rows, ledger.total().size)


def _read(federation: Federation, name: str) -> dict[str, Tensor]:
    parts = sum(len(list(federation.passes.parts(rows))) for rows in READ.values())
    federation.party.watch.phase(f"reading out {name}", parts)
    return {part: federation.logits(rows) for part, rows in READ.items()}
