"""One request, carried out: the chosen method, the baselines, and models that never saw D_u."""

from dataclasses import dataclass, field, replace
from functools import partial

from torch import Tensor

from configs.agreement import Request
from parties.vertical.engine.split_model import Federation
from parties.vertical.evaluation.extra_audits import Trials, trials
from parties.vertical.methods.method import ORIGINAL, Facts, Method
from parties.vertical.methods.registry import PAIRED, independent, method
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
    payload: int = 0  # bytes of tensors among them
    messages: int = 0

    def since(self, start: "Cost") -> "Cost":
        """What was added since ``start``."""
        return Cost(
            self.seconds - start.seconds,
            self.rows - start.rows,
            self.size - start.size,
            self.payload - start.payload,
            self.messages - start.messages,
        )


@dataclass(frozen=True, slots=True)
class ReadOut:
    """What a model makes of every row set: logits, and embeddings where figures need them."""

    logits: dict[str, Tensor]
    embeddings: dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One model: its outputs on every row set, and what it took to get it."""

    name: str
    logits: dict[str, Tensor]
    cost: Cost
    guarantee: Guarantee | None = None  # the original makes no promise
    facts: Facts = field(default_factory=Facts)
    embeddings: dict[str, Tensor] = field(default_factory=dict)  # of all parties, side by side


@dataclass(slots=True)
class Comparison:
    """Everything that was run for one request; ``chosen`` names the method that is delivered."""

    request: Request
    chosen: str
    outcomes: list[Outcome] = field(default_factory=list)
    trials: Trials = field(default_factory=Trials)

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
    found.outcomes.append(_outcome(federation, Untouched(), request))
    found.outcomes.append(_outcome(federation, chosen, request))
    federation.keep(chosen.name, vfl_pb2.UNLEARN)
    for other in _others(federation, chosen):
        found.outcomes.append(_outcome(federation, other, request))
    if chosen.name != PAIRED:
        federation.keep(PAIRED, vfl_pb2.UNLEARN)
    found.trials = trials(federation, chosen.name)
    federation.restore(chosen.name, ORIGINAL, vfl_pb2.UNLEARN)
    return found


def _others(federation: Federation, chosen: Method) -> list[Method]:
    """What the chosen method is compared with, in the order of the report."""
    plan = federation.agreement.unlearning
    baselines = [method(name) for name in plan.compare]
    others = [*baselines, *independent(plan.retrains), method(PAIRED)]
    return [other for other in others if other.name != chosen.name]


def _outcome(federation: Federation, method: Method | Untouched, request: Request) -> Outcome:
    """Run a method, note its cost, then read its model out (not counted)."""
    name, spent = method.name, partial(_spent, federation)
    start = federation.once(f"{name} begins", Cost, spent, durable=False)
    facts = method.run(federation)
    end = federation.once(f"{name} ends", Cost, spent, durable=False)
    if facts.audit is not None:
        shown = federation.once(f"{name} audited", dict, facts.audit)
        facts = replace(facts, figures={**facts.figures, **shown})
    read = partial(_read, federation, name, request)
    out = federation.once(f"{name} read out", ReadOut, read)
    cost, promise = end.since(start), _level(method, facts)
    return Outcome(name, out.logits, cost, promise, facts, out.embeddings)


def _level(method: Method | Untouched, facts: Facts) -> Guarantee | None:
    """What this run promises: more than its method always does only where it was shown."""
    solved = (facts.figures.get("kkt") or {}).get("converged")
    return facts.guarantee or (Guarantee.KKT_REPORT if solved else method.guarantee)


def _spent(federation: Federation) -> Cost:
    """What the run took so far."""
    ledger = federation.party.ledger
    rows, whole = ledger.total("Embedding").rows, ledger.total()
    return Cost(ledger.elapsed, rows, whole.size, whole.payload, whole.messages)


def _read(federation: Federation, name: str, request: Request) -> ReadOut:
    wanted = READ | ({"triggered": vfl_pb2.TRIGGERED} if request.backdoor else {})
    parts = sum(len(list(federation.passes.parts(rows))) for rows in wanted.values())
    federation.party.watch.phase(f"reading out {name}", parts)
    found = {part: federation.read(rows) for part, rows in wanted.items()}
    # The neighbourhood of D_u is that in the original's embeddings.
    embedded = ["forgotten", "test", *(["retained"] if name == ORIGINAL else [])]
    return ReadOut(
        {part: each.logits for part, each in found.items()},
        {part: found[part].embeddings for part in embedded if found[part].embeddings.dim() == 2},
    )
