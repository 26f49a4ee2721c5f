"""One request, carried out: the chosen method, the baselines, and models that never saw D_u."""

from dataclasses import dataclass, field, replace
from functools import partial

from torch import Tensor

from configs.agreement import Request
from parties.federation import Federation
from parties.methods.choice import PAIRED, independent, method
from parties.methods.method import ORIGINAL, Facts, Method
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee

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
    guarantee: Guarantee | None = None  # the original makes no promise
    facts: Facts = field(default_factory=Facts)


@dataclass(slots=True)
class Comparison:
    """Everything that was run for one request; ``chosen`` names the method that is delivered."""

    request: Request
    chosen: str
    outcomes: list[Outcome] = field(default_factory=list)

    def outcome(self, name: str) -> Outcome:
        """The outcome of one method."""
        return next(each for each in self.outcomes if each.name == name)

    @property
    def delivered(self) -> Outcome:
        """The outcome of the chosen method."""
        return self.outcome(self.chosen)


@dataclass(frozen=True, slots=True)
class Untouched:
    """The model as it is, for its row."""

    name: str = ORIGINAL
    guarantee: None = None

    def run(self, _federation: Federation) -> Facts:
        """Change nothing."""
        return Facts()


def compare(federation: Federation, request: Request) -> Comparison:
    """Carry out a request from the present model and compare; ends with the chosen method's.

    The original is trained already; ``Federation.forget`` has named D_u.
    """
    chosen = method(federation.agreement.unlearning.method)
    found = Comparison(request, chosen.name)
    federation.keep(ORIGINAL, vfl_pb2.TRAIN)
    found.outcomes.append(_outcome(federation, Untouched()))
    found.outcomes.append(_outcome(federation, chosen))
    federation.keep(chosen.name, vfl_pb2.UNLEARN)
    for other in _others(federation, chosen):
        found.outcomes.append(_outcome(federation, other))
    federation.restore(chosen.name, ORIGINAL, vfl_pb2.UNLEARN)
    return found


def _others(federation: Federation, chosen: Method) -> list[Method]:
    """What the chosen method is compared with, in the order of the report."""
    plan = federation.agreement.unlearning
    baselines = [method(name) for name in plan.compare]
    others = [*baselines, *independent(plan.retrains), method(PAIRED)]
    return [other for other in others if other.name != chosen.name]


def _outcome(federation: Federation, method: Method | Untouched) -> Outcome:
    """Run a method, note its cost, then read its model out (not counted)."""
    name, spent = method.name, partial(_spent, federation)
    start = federation.once(f"{name} begins", Cost, spent, durable=False)
    facts = method.run(federation)
    end = federation.once(f"{name} ends", Cost, spent, durable=False)
    if facts.audit is not None:
        found = federation.once(f"{name} audited", dict, facts.audit)
        facts = replace(facts, figures={**facts.figures, **found})
    logits = federation.once(f"{name} read out", dict[str, Tensor], lambda: _read(federation, name))
    return Outcome(name, logits, end.since(start), _level(method, facts), facts)


def _level(method: Method | Untouched, facts: Facts) -> Guarantee | None:
    """What this run promises: more than its method always does only where it was shown."""
    solved = (facts.figures.get("kkt") or {}).get("converged")
    return facts.guarantee or (Guarantee.KKT_REPORT if solved else method.guarantee)


def _spent(federation: Federation) -> Cost:
    """What the run took so far."""
    ledger = federation.party.ledger
    return Cost(ledger.elapsed, ledger.total("Embedding").rows, ledger.total().size)


def _read(federation: Federation, name: str) -> dict[str, Tensor]:
    parts = sum(len(list(federation.passes.parts(rows))) for rows in READ.values())
    federation.party.watch.phase(f"reading out {name}", parts)
    return {part: federation.logits(rows) for part, rows in READ.items()}
