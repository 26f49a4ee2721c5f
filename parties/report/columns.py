"""Columns of the method table in all modes, and the values of models in a column."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from parties.report.quantities import format_number, format_percent, format_ratio
from parties.report.record import Figure, MethodRecord, Request


class Unit(Enum):
    """Unit of a column: fraction of rows, plain number, or ratio of distances."""

    SHARE = "share"  # gaps are in percentage points
    NUMBER = "number"
    RATIO = "ratio"  # Retrain is 1 by definition


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the method table: one metric of every model."""

    group: str  # heading over several columns
    title: str  # heading of the column
    # Where the metric stands in the record of a method: ``accuracy``, ``membership`` or
    # ``divergence`` with the name of the value, or ``figure`` with the name of the figure.
    source: tuple[str, str]
    short: str = ""  # heading on the terminal; if empty, the terminal does not show the column
    unit: Unit = Unit.SHARE  # unit of the metric
    digits: int = 2  # number of decimals of a plain number
    forgets: bool = False  # whether the metric measures forgetting (true) or utility (false)
    # Whether the value is a distance of a model from the Retrains, in any unit: a smaller one is
    # never worse, and a Retrain's own is its distance from the others.
    distance: bool = False
    # Whether the value is a share of rows that the model gets right, or wrong, one by one.
    counted: bool = False

    def value(self, method: MethodRecord) -> float | None:
        """Return the value of a model; None if it was not measured."""
        part, name = self.source
        match part:
            case "accuracy":
                return (method.accuracy or {}).get(name)
            case "membership":
                return None if method.membership is None else getattr(method.membership, name)
            case "divergence":
                found = (method.divergence or {}).get(name)
                return None if found is None else found.ratio
        figure = find_figure(method, name)
        return None if figure is None else figure.value

    def text(self, value: float | None) -> str:
        """Return a value as the text of a table cell."""
        match self.unit:
            case Unit.RATIO:
                return format_ratio(value)
            case Unit.SHARE:
                return format_percent(value)
        return format_number(value, self.digits)


def find_figure(method: MethodRecord, name: str) -> Figure | None:
    """Return the figure ``name`` of a model; None if it is absent."""
    return next((each for each in method.figures if each.name == name), None)


def membership_interval(method: MethodRecord) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of the membership attack's AUC on a model."""
    if method.membership is not None:
        return method.membership.interval
    figure = find_figure(method, "membership_auc") or find_figure(method, "loss_auc")
    return None if figure is None else figure.ci95


def _accuracy(rows: str, title: str, short: str, *, forgets: bool = False) -> Column:
    return Column("Accuracy", title, ("accuracy", rows), short, forgets=forgets, counted=True)


def _attack(name: str, title: str, short: str) -> Column:
    return Column(
        "Membership attack", title, ("membership", name), short, Unit.NUMBER, 3, forgets=True
    )


def _ratio(rows: str, title: str, short: str, *, forgets: bool = False) -> Column:
    group, source = "JS ratio to Retrain", ("divergence", rows)
    return Column(group, title, source, short, Unit.RATIO, forgets=forgets, distance=True)


TEST_ACCURACY = _accuracy("test", "test rows", "test\nacc.")
VALIDATION_ACCURACY = _accuracy("validation", "validation rows", "valid.\nacc.")
REMAINING_CLASSES = _accuracy(
    "test_remaining_classes", "test rows, remaining classes", "other\nacc."
)
FORGOTTEN_ACCURACY = _accuracy("forgotten", "forgotten rows", "forget\nacc.", forgets=True)
BALANCED_ATTACK = _attack("balanced_accuracy", "balanced accuracy", "attack\nbal.")
ATTACK_AUC = _attack("auc", "AUC", "attack\nAUC")
LOSS_AUC = Column(
    "Membership attack", "AUC of a small loss", ("figure", "loss_auc"), "losses\nAUC",
    Unit.NUMBER, 3, forgets=True,
)  # fmt: skip
TRIGGER_RATE = Column(
    "Planted rows", "trigger rate", ("figure", "backdoor_success"), "trigger\nrate", forgets=True,
    counted=True,
)  # fmt: skip
CANARY_AUC = Column(
    "Planted rows", "canary AUC", ("figure", "canary_auc"), "canary\nAUC", Unit.NUMBER, 3, True
)
FORGOTTEN_RATIO = _ratio("forgotten", "forgotten rows", "JS\nforget", forgets=True)
JS_RATIOS = (
    FORGOTTEN_RATIO,
    _ratio("retained", "remaining rows", "JS\nremain"),
    _ratio("test", "test rows", "JS\ntest"),
)
# The same ratios if the labels are a number, whose distance is no divergence.
DIFFERENCE_RATIOS = tuple(
    replace(each, group="Ratio of differences to Retrain", short=each.short.replace("JS", "diff."))
    for each in JS_RATIOS
)
VERTICAL_COLUMNS = (
    TEST_ACCURACY,
    REMAINING_CLASSES,
    FORGOTTEN_ACCURACY,
    BALANCED_ATTACK,
    ATTACK_AUC,
    TRIGGER_RATE,
    CANARY_AUC,
    *JS_RATIOS,
)
# Columns of the vertical mode in a request without Retrains.
QUICK_COLUMNS = (
    TEST_ACCURACY,
    VALIDATION_ACCURACY,
    *(each for each in VERTICAL_COLUMNS[1:] if each.unit is not Unit.RATIO),
)
# Columns of the vertical mode that are visible only if a model has a value.
OF_SOME_REQUESTS = (REMAINING_CLASSES, TRIGGER_RATE, CANARY_AUC)

TEST_ERROR = Column("Test rows", "mean absolute error", ("figure", "test_mae"), "", Unit.NUMBER, 4)
FORGOTTEN_ERROR = Column(
    "Forgotten rows", "mean absolute error", ("figure", "forgotten_mae"), "forget\nMAE",
    Unit.NUMBER, 4, forgets=True,
)  # fmt: skip
TEST_HAMMING = Column("Test rows", "Hamming loss", ("figure", "test_hamming_loss"), "test\nHamming")
FORGOTTEN_HAMMING = Column(
    "Forgotten rows", "Hamming loss", ("figure", "forgotten_hamming_loss"), "forget\nHamming",
    forgets=True,
)  # fmt: skip
# Figures of utility of a request in the vertical mode if the labels are a number or several binary
# labels, the main ones first.
OTHER_UTILITY = (
    Column("Test rows", "R²", ("figure", "test_r2"), "test\nR²", Unit.NUMBER, 3),
    TEST_ERROR,
    Column("Test rows", "AUC, mean over labels", ("figure", "test_auc_macro"), "test\nAUC",
           Unit.NUMBER, 3),
    TEST_HAMMING,
    Column("Test rows", "all labels right", ("figure", "test_accuracy")),
)  # fmt: skip
# All columns of such a request but the ratios; each is visible only if a model has a value.
OTHER_COLUMNS = (
    *OTHER_UTILITY,
    FORGOTTEN_ERROR,
    FORGOTTEN_HAMMING,
    Column("Remaining rows", "mean absolute error", ("figure", "retained_mae"), "",
           Unit.NUMBER, 4),
    Column("Remaining rows", "Hamming loss", ("figure", "retained_hamming_loss")),
    LOSS_AUC,
)  # fmt: skip


def _forgets(title: str, figure: str, short: str = "", *, digits: int | None = None) -> Column:
    unit = Unit.SHARE if digits is None else Unit.NUMBER
    return Column("Forgotten rows", title, ("figure", figure), short, unit, digits or 0, True)


def _stays(title: str, figure: str, short: str = "") -> Column:
    return Column("Remaining clients", title, ("figure", figure), short)


def _stage(title: str, figure: str) -> Column:
    return Column("Stages and attacks", title, ("figure", figure))


def _number(group: str, title: str, figure: str, digits: int, short: str = "") -> Column:
    return Column(group, title, ("figure", figure), short, Unit.NUMBER, digits)


def _counts(title: str, figure: str, short: str = "") -> Column:
    return replace(_forgets(title, figure, short), counted=True)


def _apart(title: str, figure: str, short: str = "") -> Column:
    return replace(_forgets(title, figure, short, digits=2), distance=True)


CLIENT_ACCURACY = _stays("test accuracy", "client_accuracy", "test\nacc.")
MEMBERSHIP_AUC = _forgets("membership AUC", "membership_auc", "AUC", digits=2)
FEDERATED_COLUMNS = (
    _counts("trigger rate, leaving client’s rows", "planted", "trigger\nown"),
    _counts("trigger rate, all test rows", "stamped", "trigger\nothers"),
    _counts("accuracy on forgotten rows", "forgotten_accuracy", "acc.\nforgot."),
    _forgets("the same, whole model of a remaining client", "by_client_forgotten"),
    _forgets("probability of forgotten texts", "text_probability", "p\nforgot."),
    _counts("forgotten texts reproduced verbatim", "text_verbatim"),
    _forgets("truth ratio (FTR)", "forget_truth_ratio", "FTR", digits=2),
    _apart("KS to Retrain", "forget_distance", "KS"),
    _number("Forgotten rows", "forget quality, log10 p", "forget_quality", 1),
    _apart("KS to Retrain, geometric truth ratio", "geometric_forget_distance"),
    _number(
        "Forgotten rows",
        "forget quality, geometric truth ratio, log10 p",
        "geometric_forget_quality",
        1,
    ),
    _forgets("ROUGE-L of forgotten answers", "forget_rouge"),
    _forgets("probability, paraphrased questions", "forget_reworded_probability"),
    _forgets("extraction strength, with end token", "extraction_strength"),
    _forgets("verbatim memorisation", "verbatim_memory"),
    _forgets("knowledge of forgotten texts", "forget_knowledge"),
    _number("Forgotten rows", "PrivLeak", "privacy_leak", 1),
    MEMBERSHIP_AUC,
    _apart("distance to Retrain", "odds_to_retrain", "dist."),
    CLIENT_ACCURACY,
    _stays("test accuracy, worst client", "worst_client", "acc.\nworst"),
    _stays("training rows, whole model of that client", "by_client_retained"),
    _number("Remaining clients", "model utility", "model_utility", 3, "utility"),
    _stays("probability of retained texts", "text_retained_probability", "p\nretain"),
    _stays("ROUGE-L of retained answers", "retain_rouge"),
    _stays("ROUGE-L, real authors", "real_authors_rouge"),
    _stays("ROUGE-L, world facts", "world_facts_rouge"),
    _stays("knowledge of retained texts", "retain_knowledge"),
    _stage("8-bit quantisation, probability", "rounded_8_probability"),
    _stage("4-bit quantisation, probability", "rounded_4_probability"),
    _stage("8-bit quantisation, knowledge", "rounded_8_knowledge"),
    _stage("4-bit quantisation, knowledge", "rounded_4_knowledge"),
    _stage("before relearning, probability", "relearned_before"),
    _stage("after relearning, probability", "relearned"),
    _stage("relearned share of the lost probability", "relearned_share"),
    _stage("trigger rate before recovery", "unlearned_planted"),
    _stage("test accuracy before recovery", "unlearned_client_accuracy"),
    _stage("trigger rate after the reverting test", "reverted_planted"),
    _stage("forgotten rows, after the reverting test", "reverted_forgotten_accuracy"),
    _number("Stages and attacks", "clients with conflicting gradients", "conflicts", 2),
    _number("Stages and attacks", "skipped rounds", "skipped_rounds", 0),
)


def is_vertical(request: Request) -> bool:
    """Return whether a request belongs to a run in the vertical mode."""
    return request.rows is not None


def visible_columns(request: Request) -> list[Column]:
    """Return the columns of a request's method table.

    In the vertical mode all columns are visible, except the accuracy on the remaining classes, the
    trigger rate and the AUC on canaries, which some requests do not have. These columns, and all
    columns of the federated modes, are visible if at least one model has a value. A vertical
    request without Retrains has the accuracy on validation rows in place of the JS ratios. If the
    labels are not one of several classes, it has the columns of such labels that have a value, and
    with Retrains the ratios of distances.
    """
    if not is_vertical(request):
        return _with_value(request, FEDERATED_COLUMNS)
    if others := _with_value(request, OTHER_COLUMNS) if _has_other_labels(request) else []:
        if not request.has_retrains:
            return others
        number = ratio_column(request) is not FORGOTTEN_RATIO
        return [*others, *(DIFFERENCE_RATIOS if number else JS_RATIOS)]
    columns = VERTICAL_COLUMNS if request.has_retrains else QUICK_COLUMNS
    some = _with_value(request, OF_SOME_REQUESTS)
    return [each for each in columns if each not in OF_SOME_REQUESTS or each in some]


def proving_columns(request: Request) -> list[Column]:
    """Return the visible columns that can show forgetting.

    The rows of a correction stay in the training, so no attack on membership can show that a model
    forgot their wrong labels.
    """
    return [
        each
        for each in visible_columns(request)
        if each.forgets and not (is_correction(request) and attacks_membership(each))
    ]


def is_correction(request: Request) -> bool:
    """Return whether a request replaced labels, so that its rows stay in the training."""
    return request.rows is not None and request.rows.corrects


def attacks_membership(column: Column) -> bool:
    """Return whether a column has a figure of the membership attack."""
    return column.source[0] == "membership" or column in (LOSS_AUC, MEMBERSHIP_AUC)


def _with_value(request: Request, columns: Sequence[Column]) -> list[Column]:
    """Return the columns in which at least one model has a value."""
    return [
        each
        for each in columns
        if any(each.value(method) is not None for method in request.methods)
    ]


def _has_other_labels(request: Request) -> bool:
    """Return whether the labels of a vertical request are not one of several classes."""
    return is_vertical(request) and not any(each.accuracy for each in request.methods)


def ratio_column(request: Request) -> Column:
    """Return the column of the ratio of distances on the forgotten rows, which decides a verdict.

    ``FORGOTTEN_RATIO`` has the same values, and the name of the ratio for labels that are classes.
    """
    found = [(each.divergence or {}).get("forgotten") for each in request.methods]
    number = any(each is not None and each.rms is not None for each in found)
    return DIFFERENCE_RATIOS[0] if number else FORGOTTEN_RATIO


def utility_column(request: Request) -> Column:
    """Return the main column of utility: the accuracy on test rows.

    If the labels are not one of several classes, it is R², or the first other figure of test rows
    that the models have.
    """
    if not is_vertical(request):
        return CLIENT_ACCURACY
    others = _with_value(request, OTHER_UTILITY) if _has_other_labels(request) else []
    return others[0] if others else TEST_ACCURACY


def error_columns(request: Request) -> tuple[Column, Column]:
    """Return the columns on forgotten and on test rows whose difference shows memory.

    They have the accuracy, the mean absolute error or the Hamming loss.
    """
    pairs = ((FORGOTTEN_ERROR, TEST_ERROR), (FORGOTTEN_HAMMING, TEST_HAMMING))
    others = [pair for pair in pairs if _with_value(request, pair)]
    if _has_other_labels(request) and others:
        return others[0]
    return FORGOTTEN_ACCURACY, TEST_ACCURACY


def decides(column: Column) -> bool:
    """Return whether a column has the ratio of distances on the forgotten rows."""
    return column.source == FORGOTTEN_RATIO.source


def attack_column(request: Request) -> Column:
    """Return the column of the membership attack's AUC."""
    if not is_vertical(request):
        return MEMBERSHIP_AUC
    return LOSS_AUC if _attacks_losses(request.methods) else ATTACK_AUC


def _attacks_losses(methods: Sequence[MethodRecord]) -> bool:
    """Whether the labels are not one of several classes, so that the attack reads losses."""
    return any(find_figure(each, "loss_auc") for each in methods) and not any(
        each.membership for each in methods
    )
