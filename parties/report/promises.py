"""What a method computed of its own promise: a certificate, digests of shards, or a KKT report."""

from collections.abc import Sequence
from dataclasses import dataclass

from parties.report.comparison import Record, chosen, figure, look
from parties.report.quantities import count, listing, number, size

SHOWN = 16  # digits of a digest


@dataclass(frozen=True, slots=True)
class Promise:
    """One block of the report: what is promised, under what, and the figures."""

    title: str
    sentences: Sequence[str]
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def promises(request: Record) -> list[Promise]:
    """Return what the chosen method promises with figures of its own; often nothing."""
    facts = figure(request, chosen(request), "facts")
    found = []
    if certificate := look(facts, "certificate"):
        found.append(_certificate(request, certificate))
    if sharding := look(facts, "sharding"):
        found.append(_sharding(sharding))
    if kkt := look(facts, "kkt"):
        found.append(_kkt(kkt))
    return found


def tiny(value: float) -> str:
    """Return a number of any size in few digits."""
    return f"{value:.2g}"


def _certificate(request: Record, found: Record) -> Promise:
    steps = found["steps"]
    products = sum(step["products"] for step in steps)
    reached = found["bound"] <= found["wanted"]
    within = "at most" if reached else "not as near as was agreed, at most"
    sentences = [
        f"The model before any noise is {within} {tiny(found['bound'])} from the optimum on the "
        f"remaining rows, over all parameters together: ‖∇F‖/λ with λ = {found['weight']:g}. That "
        f"took {count(len(steps) - 1)} Newton steps with {count(products)} products with the "
        f"Hessian, of {size(found['product_bytes'])} for each passive party."
    ]
    if found["epsilon"] is not None:
        sentences.append(
            f"Released with Gaussian noise of {tiny(found['noise'])} on every parameter: "
            f"(ε, δ) = ({found['epsilon']:g}, {tiny(found['delta'])})."
        )
    sentences.append(f"What it counts on: {'; '.join(found['assumes'])}.")
    true = {each["step"]: each["distance"] for each in _distances(request)}
    rows = [
        (str(at), tiny(step["bound"]), tiny(true[at]) if at in true else "", str(step["products"]))
        for at, step in enumerate(steps)
    ]
    headings = ("step", "bound", "true distance", "products")
    return Promise("The certificate", sentences, headings, rows)


def _distances(request: Record) -> Sequence[Record]:
    found: Sequence[Record] | None = figure(request, "retrain-paired", "facts", "distances")
    return found or ()


def _sharding(found: Record) -> Promise:
    touched = [str(shard) for shard in found["touched"]]
    sentence = (
        f"{listing(touched) or 'None'} of {found['shards']} shards learned from the forgotten rows "
        "and were trained again from the beginning. The others are as they were: their digests did "
        "not change."
    )
    rows = [
        (str(each["shard"]), party, digest[:SHOWN], each["after"][party][:SHOWN])
        for each in found["digests"]
        for party, digest in each["before"].items()
    ]
    return Promise("The shards", [sentence], ("shard", "party", "before", "after"), rows)


def _kkt(found: Record) -> Promise:
    verdict = "converged" if found["converged"] else "not converged"
    sentence = (
        f"By full-batch gradients of the last model: {verdict}. Stationarity "
        f"{tiny(found['stationarity'])}, primal {tiny(found['primal'])}, dual "
        f"{number(found['dual'], 3)}, complementarity {tiny(found['complementarity'])}. It tells "
        "how well the constrained problem was solved, not that anything was forgotten."
    )
    return Promise("KKT report", [sentence])
