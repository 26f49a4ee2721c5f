"""The page of a forgetting study: what its columns mean, and all tables."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from parties.experiments.population.audit import AUDITS, U_LIRA
from parties.experiments.population.plan import Study, StudyMethod, read_study
from parties.experiments.population.recorded import RecordedStudy
from parties.experiments.population.summary import NULL, MethodSummary, PopulationSummary, Spread
from parties.vertical.methods.fedora import ConstraintUse
from unlearning.audit.bias_curve import BiasCurve, CorrectedAuc
from unlearning.audit.epsilon import CONFIDENCE

SHIPPED: Final = "forgetting"  # name of the study that the command reads by default
MIN_P: Final = 0.001  # smaller p-values are shown as "p < 0.001"
COLUMNS: Final = (
    "", *AUDITS.values(), "excess", "accuracy minus Retrain's", "equivalent", "trigger", "canaries",
    "changed on D_r", "rows", "constraint", "worst row", f"ε at least ({100 * CONFIDENCE:.0f} %)",
)  # fmt: skip
MIXED: Final = "**Mixed:** the parts were computed by more than one version of the program.\n\n"
SEARCHED: Final = """The settings of the methods were chosen on other seeds
by one rule, among 20 trials: the lowest leak with an accuracy on validation rows within a point of
Retrain's (`vfl bench forgetting-search`, {hours:.1f} h,
[forgetting-search.json](forgetting-search.json)){others}."""
DEFAULTS: Final = """The methods have their default settings."""
SHORT: Final = """The page [forgetting.md](forgetting.md) has the main figures and advice. This page has all of them.

"""  # noqa: E501
PAGE: Final = """# Forgetting, measured per example: the study

{short}Written by `{command}`; the methods took {hours:.1f} h, without the training of the models. The tables
show means over {seeds}. {settings}

{mixed}| column | meaning |
|---|---|
| leak | how well an attack distinguishes rows that a model unlearned from rows that it has never seen (U-LiRA). 0.5: not at all. This is what matters: it does not depend on how the models were trained. |
| closeness | how well an attack distinguishes unlearned models from Retrain models, on rows that were unlearned, after the logits of every model were scaled to the same confidence. It also finds other recipes of training: see the models that were retrained with other settings. |
| excess | the AUC of closeness on forgotten rows minus that on rows that the same models have never seen |
| equivalent | whether tests over seeds show that the test accuracy differs from Retrain's by less than one standard deviation of Retrain models |
| trigger | rows of the test set that a trigger moves to the planted class, in percent, above the same rows without the trigger; measured on other models, which forget the rows with the trigger |
| canaries | forgotten rows with a planted wrong label for which the model still predicts this label, in percent |
| changed on D_r | remaining rows for which the predicted class differs from that of the original model, in percent |
| rows | rows whose embeddings cross between the parties, relative to Retrain |
| worst row | AUC of the leak for single rows, at the 90th percentile; few models make it high, so compare it with the null in the first row |
| constraint | iterations in which FedORA's dual Ω was above 0 or at its maximum, of all iterations; means over models |
| ε at least | lower bound of ε from an attack on whole models, and the bound that a perfect attack would reach with these models; no method claims an ε |

The attacks fit Gaussians to few models, so their AUC is biased towards 0.5. Each AUC is the larger of an
attack with two Gaussians per row and an attack with one shift for all rows, corrected by the curve below
each table; in parentheses, the 95 % interval over seeds. After ± stands one standard error over the seeds.
The curve depends on how much of the shift all rows have in common. This share is estimated for each method, and the
interval does not contain its error: MNIST's FedORA has 0.532 with a share of 0, and 0.509 with 1. If unlearning
changes only how widely the scores of a row spread, the corrected AUC is too high: 0.60 for 0.57 in a simulation.

{rows}

![Leak against exchanged rows, for every method]({name}.png)

<!-- state: {name} -->
<!-- end -->

"""  # noqa: E501


def study_page(path: Path, recorded: RecordedStudy, search: Path) -> str:
    """Return the page of a study as Markdown.

    The marks of stale figures are empty; ``make docs`` fills them in.

    Args:
        path: the TOML file of the study.
        recorded: what is recorded of the study; at least one population.
        search: the file with the chosen settings and the trials of the search.

    Raises:
        ConfigError: the study is invalid.
    """
    study, summaries = read_study(path), list(recorded.populations.values())
    option = "" if path.stem == SHIPPED else f" --study {path.name}"
    seeds = {each.name: each.methods[0].auc[U_LIRA].seeds for each in summaries}
    text = PAGE.format(
        command=f"vfl bench forgetting{option} --seeds {max(seeds.values())} --data DIR",
        hours=recorded.hours, seeds=_seeds_text(study.first, seeds),
        settings=_origin_of_settings(study, list(recorded.populations), search),
        short=SHORT if path.stem == SHIPPED else "",
        mixed="" if all(each.code for each in recorded.measured) else MIXED, name=path.stem,
        rows=_row_table(study),
    )  # fmt: skip
    return text + study_table(summaries)


def _seeds_text(first: int, seeds: Mapping[str, int]) -> str:
    """The seeds of all tables, or those of each population if their numbers differ."""
    texts = {name: f"seeds {first} to {first + count - 1}" for name, count in seeds.items()}
    if len(set(texts.values())) == 1:
        return texts.popitem()[1]
    return "; ".join(f"{text} ({name})" for name, text in texts.items())


def _origin_of_settings(study: Study, measured: Sequence[str], search: Path) -> str:
    """How the settings were chosen, and which populations are not ``measured``."""
    hours = _hours_of_search(search, measured)
    unsearched = [row.name for row in study.row if row.from_defaults and not row.search]
    others = f"; not searched: {'; '.join(f'*{each}*' for each in unsearched)}"
    text = DEFAULTS
    if any(row.search for row in study.row):
        text = SEARCHED.format(hours=hours, others=others if unsearched else "")
    rest = [each.name for each in study.population if each.name not in measured]
    return f"{text}\n\n**Not measured:** the populations {'; '.join(rest)}." if rest else text


def _row_table(study: Study) -> str:
    """Say how each row of the tables differs from the defaults of its method."""
    lines = [f"| {row.name} | `{row.way}` | {_settings_text(row)} |" for row in study.row]
    head = ["| row | method | settings, where they are not the defaults |", "|---|---|---|"]
    return "\n".join([*head, *lines])


def _settings_text(row: StudyMethod) -> str:
    """The settings of a row, those of the search without a value, because each data set has its."""
    fixed = [f"`{key} = {json.dumps(value)}`" for key, value in row.settings.items()]
    parts = ["the form of the paper"] if row.paper else []
    parts += [", ".join(fixed)] if fixed else []
    parts += [f"D_u in {row.requests} requests, one after another"] if row.requests > 1 else []
    parts += [f"searched: {', '.join(f'`{key}`' for key in row.search)}"] if row.search else []
    return "; ".join(parts)


def _hours_of_search(path: Path, populations: Sequence[str]) -> float:
    """Return the hours that the trials of these populations took, without training of models."""
    choices = json.loads(path.read_text())["choices"] if path.exists() else []
    own = [each for each in choices if each["population"] in populations]
    seconds: float = sum(trial["seconds"] for each in own for trial in each["trials"])
    return seconds / 3600


def study_table(found: Sequence[PopulationSummary]) -> str:
    """Return all summaries as Markdown, two tables per population."""
    return "\n".join(f"{_table(each)}\n{_curve_table(each.curves)}" for each in found)


def _table(found: PopulationSummary) -> str:
    first = found.methods[0]
    lines = [
        f"### {found.name}\n\n{first.models} models and {first.models} Retrains per seed; "
        f"each model was trained on {first.training_rows:,} rows.\n",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
        *(f"| {' | '.join(_cells(each))} |" for each in found.methods),
    ]
    return "\n".join(lines) + "\n"


def _cells(own: MethodSummary) -> list[str]:
    null = own.name == NULL
    return [
        own.name,
        *(_interval(own.auc[audit]) for audit in AUDITS),
        "" if null else _spread(own.excess, "+.3f"),
        "" if null else _spread(own.gap, "+.2f"),
        _equivalent(own),
        _spread(own.triggered, ".1f"),
        _spread(own.planted, ".1f"),
        _spread(own.changed, ".1f"),
        f"{own.rows:.2f}",
        _constraint(own.constraint),
        f"{own.worst[U_LIRA]:.2f}",
        f"{own.bound.epsilon:.2f} of {own.bound.ceiling:.2f}",
    ]


def _interval(auc: CorrectedAuc) -> str:
    return f"{auc.value:.3f} ({auc.low:.3f} to {auc.high:.3f})"


def _spread(found: Spread | None, form: str) -> str:
    return "" if found is None else f"{found.mean:{form}} ± {found.error:{form.lstrip('+')}}"


def _constraint(use: ConstraintUse | None) -> str:
    if use is None:
        return ""
    if not use.active:
        return f"inactive in all {use.iterations}"
    maximum = f", at its maximum in {use.at_maximum:.3g}" if use.at_maximum else ""
    return f"active in {use.active:.3g} of {use.iterations}{maximum}"


def _equivalent(each: MethodSummary) -> str:
    found = each.equivalent
    if found is None:
        return ""
    p = f"p {found.p:.2g}" if found.p >= MIN_P else f"p < {MIN_P}"
    return f"{'yes' if found.shown else 'not shown'}, {p}"


def _curve_table(curves: Mapping[str, BiasCurve]) -> str:
    """The mean estimate of each audit by true AUC, in the layout of the table above."""
    true = curves[U_LIRA].true
    lines = [
        "Mean estimate of each audit on synthetic models with a known AUC, before the correction; "
        "the rows have a part of the squared shift in common:\n",
        f"| true AUC | {' | '.join(f'{each:.3f}' for each in true)} |",
        f"|{'---|' * (len(true) + 1)}",
        *(
            f"| {AUDITS[name]}, {share:.0%} in common | {' | '.join(f'{e:.3f}' for e in row)} |"
            for name in AUDITS
            for share, row in zip(curves[name].shares, curves[name].estimates, strict=True)
        ),
    ]
    return "\n".join(lines) + "\n"
