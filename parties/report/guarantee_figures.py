"""Evidence for a method's guarantee: a certificate, digests of shards, or a KKT report."""

from collections.abc import Sequence
from dataclasses import dataclass

from parties.report.comparison import chosen_method, find_method
from parties.report.quantities import format_count, format_number, format_size, join_words
from parties.report.record import JsonObject, Request

DIGEST_DIGITS = 16  # leading hexadecimal digits that the report shows


@dataclass(frozen=True, slots=True)
class GuaranteeBlock:
    """One section of the report: sentences about the guarantee, and a table of numbers."""

    title: str
    sentences: Sequence[str]
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def guarantee_blocks(request: Request) -> list[GuaranteeBlock]:
    """Return the guarantee sections of the delivered method; most methods have no such section."""
    method, blocks = chosen_method(request), list[GuaranteeBlock]()
    details = {} if method is None else method.details
    if certificate := details.get("certificate"):
        blocks.append(_certificate(request, certificate))
    if sharding := details.get("sharding"):
        blocks.append(_sharding(sharding))
    if constraint := details.get("constraint"):
        blocks.append(_constraint(constraint))
    if kkt := details.get("kkt"):
        blocks.append(_kkt(kkt))
    return blocks


def short_number(value: float) -> str:
    """Return a number with two significant digits."""
    return f"{value:.2g}"


def _certificate(request: Request, certificate: JsonObject) -> GuaranteeBlock:
    steps = certificate["steps"]
    products = sum(step["products"] for step in steps)
    reached = certificate["bound"] <= certificate["wanted"]
    agreed = "" if reached else " The agreed bound was not reached."
    sentences = [
        "The distance of the model before noise from the optimum on the remaining rows, over all "
        f"parameters, is at most {short_number(certificate['bound'])} (‖∇F‖/λ with "
        f"λ = {certificate['weight']:g}).{agreed} The method took {format_count(len(steps) - 1)} "
        f"Newton steps with {format_count(products)} Hessian-vector products; the products cost "
        f"{format_size(certificate['product_bytes'])} for each passive party."
    ]
    if certificate["epsilon"] is not None:
        sentences.append(
            "The model is released with Gaussian noise of standard deviation "
            f"{short_number(certificate['noise'])} on every parameter: "
            f"(ε, δ) = ({certificate['epsilon']:g}, {short_number(certificate['delta'])})."
        )
    sentences.append(f"Assumptions: {'; '.join(certificate['assumes'])}.")
    distances = {entry["step"]: entry["distance"] for entry in _distances(request)}
    measured = ("true distance",) if distances else ()  # from the paired Retrain
    rows = [
        (
            str(at),
            short_number(step["bound"]),
            *(short_number(distances[at]) if at in distances else "" for _ in measured),
            str(step["products"]),
        )
        for at, step in enumerate(steps)
    ]
    headings = ("step", "bound", *measured, "products")
    return GuaranteeBlock("The certificate", sentences, headings, rows)


def _distances(request: Request) -> Sequence[JsonObject]:
    paired = find_method(request, "retrain-paired")
    found: Sequence[JsonObject] = () if paired is None else paired.details.get("distances") or ()
    return found


def _sharding(sharding: JsonObject) -> GuaranteeBlock:
    touched = [str(shard) for shard in sharding["touched"]]
    sentence = (
        f"Retrained from scratch, because they had learned from forgotten rows: "
        f"{join_words(touched) or 'none'} of {sharding['shards']} shards. The digests of all other "
        "shards are unchanged."
    )
    rows = [
        (str(shard["shard"]), party, digest[:DIGEST_DIGITS], shard["after"][party][:DIGEST_DIGITS])
        for shard in sharding["digests"]
        for party, digest in shard["before"].items()
    ]
    return GuaranteeBlock("The shards", [sentence], ("shard", "party", "before", "after"), rows)


def _constraint(use: JsonObject) -> GuaranteeBlock:
    """How often FedORA's constraint took part."""
    count = format_count(use["iterations"])
    if not use["active"]:
        sentence = (
            f"FedORA's constraint was inactive: its dual Ω was 0 in all {count} iterations, so the "
            "result is that of the start and of fine-tuning."
        )
    else:
        sentence = f"FedORA's constraint was active in {use['active']:.3g} of {count} iterations"
        if use["at_maximum"]:
            sentence += f", and its dual Ω was at its maximum in {use['at_maximum']:.3g}"
        sentence += "."
    return GuaranteeBlock("The constraint", [sentence])


def _kkt(kkt: JsonObject) -> GuaranteeBlock:
    result = "converged" if kkt["converged"] else "not converged"
    sentence = (
        f"Residuals of the last model by full-batch gradients: {result}. Stationarity "
        f"{short_number(kkt['stationarity'])}, primal {short_number(kkt['primal'])}, dual "
        f"{format_number(kkt['dual'], 3)}, complementarity "
        f"{short_number(kkt['complementarity'])}. The KKT report shows how well the constrained "
        "problem was solved. It does not show that anything was forgotten."
    )
    return GuaranteeBlock("KKT report", [sentence])
