"""A request's figures by name, and the words that the report has for models and columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from parties.horizontal.evaluation.metrics import is_retrain
from parties.report.quantities import NARROW, listing, number, share, signed

Record: TypeAlias = Mapping[str, Any]  # a part of metrics.json

METHODS = {
    "original": ("Original", "before forgetting"),
    "fedosd": ("FedOSD", "the steepest way that hurts nobody who stays"),
    "fedforget": ("FedForget", "pulled to a teacher, at a weight that fades"),
    "fine-tune": ("Fine-tune", "the client dropped, the others go on"),
    "federaser": ("FedEraser", "old rounds calibrated anew"),
    "fedrecovery": ("FedRecovery", "its part of old rounds taken out, and noise"),
    "mode": ("MoDe", "drawn towards a degraded model, then guided"),
    "ewc-sga": ("EWC-SGA", "ascent, held by Fisher information"),
    "fu-pga": ("FU-PGA", "ascent within a ball"),
    "sfu": ("SFU", "ascent beside the others' inputs"),
    "adaclipping-like": ("AdaClipping-like", "weights that the client uses most, dampened"),
    "mimir": ("Mimir", "prompts, distilled without data"),
    "fedmm": ("FedMM", "noise that errs most, then least"),
    "fedgkt": ("FedGKT", "distilled without data behind a gate"),
    "knot": ("Knot", "clusters that learn apart, of which one goes back"),
    "grad-ascent": ("GradAscent", "ascent on forgotten texts"),
    "grad-diff": ("GradDiff", "ascent there, descent on what stays"),
    "npo": ("NPO", "forgotten answers as the ones not preferred"),
    "simnpo": ("SimNPO", "the same by length, without a reference"),
    "rmu": ("RMU", "what is said inside, misdirected"),
    "primal-dual": ("Primal-dual", "forgotten answers held at the level of unseen ones"),
    "retrain": ("Retrain", "from scratch, without the rows"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table: which figure, how it is written, and what it is for.

    Attributes:
        digits: of what is no share.
        forgets: whether it speaks of forgetting, so that one that the original meets already
            proves nothing.
    """

    group: str
    title: str
    figure: str
    short: str = ""  # on a terminal; nothing: not there
    share: bool = True
    digits: int = 2
    forgets: bool = False

    def text(self, value: float | None) -> str:
        """The value as people read it."""
        return share(value) if self.share else number(value, self.digits)

    def gap(self, figure: Record) -> str:
        """How far it is from Retrain's mean; nothing where there is none."""
        if figure["gap"] is None:
            return ""
        scale, unit, digits = (100, "pts", 1) if self.share else (1, "", self.digits)
        sd = figure["gap_in_sd"]
        far = "" if sd is None else f", {signed(sd, 1)}{NARROW}sd"
        return f"{signed(scale * figure['gap'], digits)}{NARROW * bool(unit)}{unit}{far}"


FORGETS, STAYS, STAGES = "What was forgotten", "Those who stay", "On the way, and after"
COLUMNS = (
    Column(FORGETS, "trigger, its own rows", "planted", "trigger\nown", forgets=True),
    Column(FORGETS, "trigger, others’ rows", "stamped", "trigger\nothers", forgets=True),
    Column(FORGETS, "forgotten rows right", "forgotten_accuracy", "right\ngone", forgets=True),
    Column(FORGETS, "the same, by a client that stays", "by_client_forgotten", forgets=True),
    Column(FORGETS, "probability of forgotten texts", "text_probability", "p\ngone", forgets=True),
    Column(FORGETS, "forgotten texts word for word", "text_verbatim", forgets=True),
    Column(FORGETS, "truth ratio (FTR)", "forget_truth_ratio", "FTR", share=False, forgets=True),
    Column(FORGETS, "KS to Retrain", "forget_distance", "KS", share=False, forgets=True),
    Column(FORGETS, "forget quality, log10 p", "forget_quality", share=False, digits=1),
    Column(FORGETS, "ROUGE-L of forgotten answers", "forget_rouge", forgets=True),
    Column(
        FORGETS, "probability, asked in other words", "forget_reworded_probability", forgets=True
    ),
    Column(FORGETS, "extraction strength", "extraction_strength", forgets=True),
    Column(FORGETS, "verbatim memory", "verbatim_memory", forgets=True),
    Column(FORGETS, "knowledge of what is forgotten", "forget_knowledge", forgets=True),
    Column(FORGETS, "PrivLeak", "privacy_leak", share=False, digits=1),
    Column(FORGETS, "membership AUC", "membership_auc", "AUC", share=False, forgets=True),
    Column(FORGETS, "distance to Retrain", "odds_to_retrain", "off", share=False, forgets=True),
    Column(STAYS, "test rows right", "client_accuracy", "right\nstay"),
    Column(STAYS, "worst client", "worst_client", "right\nworst"),
    Column(STAYS, "training rows of that client", "by_client_retained"),
    Column(STAYS, "model utility", "model_utility", "utility", share=False, digits=3),
    Column(STAYS, "probability of texts that stay", "text_retained_probability", "p\nstay"),
    Column(STAYS, "ROUGE-L of answers that stay", "retain_rouge"),
    Column(STAYS, "ROUGE-L, real authors", "real_authors_rouge"),
    Column(STAYS, "ROUGE-L, world facts", "world_facts_rouge"),
    Column(STAYS, "knowledge that stays", "retain_knowledge"),
    Column(STAGES, "rounded to 8 bits, probability", "rounded_8_probability"),
    Column(STAGES, "rounded to 4 bits, probability", "rounded_4_probability"),
    Column(STAGES, "rounded to 8 bits, knowledge", "rounded_8_knowledge"),
    Column(STAGES, "rounded to 4 bits, knowledge", "rounded_4_knowledge"),
    Column(STAGES, "before relearning, probability", "relearned_before"),
    Column(STAGES, "relearned, probability", "relearned"),
    Column(STAGES, "of what was lost, relearned", "relearned_share"),
    Column(STAGES, "trigger before recovery", "unlearned_planted"),
    Column(STAGES, "test rows right, before recovery", "unlearned_client_accuracy"),
    Column(STAGES, "trigger after going on", "reverted_planted"),
    Column(STAGES, "forgotten rows right, after going on", "reverted_forgotten_accuracy"),
    Column(STAGES, "clients hurt by a step", "conflicts", share=False),
    Column(STAGES, "rounds that were skipped", "skipped_rounds", share=False, digits=0),
)


def label(name: str) -> str:
    """A model's name as people read it."""
    if is_retrain(name) and name != "retrain":
        return f"Retrain, {name.partition('-')[2]}"
    return METHODS.get(name, (name, ""))[0]


def meaning(name: str) -> str:
    """What a method does."""
    if is_retrain(name) and name != "retrain":
        return "another random start"
    return METHODS.get(name, ("", "with other settings"))[1]


def who(request: Record) -> str:
    """Who or what goes."""
    leaving = sorted({each.partition(",")[0] for each in request["leaving"]})
    if not leaving:
        return "nobody had such rows"
    if len(leaving) > 3:
        return f"rows of {len(leaving)} clients are forgotten"
    return f"rows of {listing(leaving)} are forgotten"


def figure(method: Record, name: str) -> Record | None:
    """One figure of a model; None where it was not measured."""
    return next((each for each in method["figures"] if each["name"] == name), None)


def diverged(method: Record) -> str:
    """In which round it left the finite numbers; nothing where it came to its end."""
    return method.get("diverged") or ""


def value(method: Record, name: str) -> float | None:
    """Its value."""
    found = figure(method, name)
    return None if found is None else found["value"]


def of(request: Record, name: str) -> Record:
    """A model of a request."""
    found: Record = next(each for each in request["methods"] if each["name"] == name)
    return found


def shown(request: Record) -> Sequence[Column]:
    """The columns in which anything is known."""
    methods = request["methods"]
    return [
        column
        for column in COLUMNS
        if any(value(each, column.figure) is not None for each in methods)
    ]


def proves(request: Record, column: Column) -> bool | None:
    """Whether the original is farther from Retrain than two of its spreads; None: unknown."""
    found = figure(of(request, "original"), column.figure)
    if found is None or found["gap"] is None or found["retrain_sd"] is None:
        return None
    return bool(abs(found["gap"]) > 2 * found["retrain_sd"])
