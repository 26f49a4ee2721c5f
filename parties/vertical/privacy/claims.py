"""Claims: which (ε, δ) a run may print, for what, and why it may print none for the rest."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from configs.agreement import Agreement
from configs.privacy import EmbedOnce
from parties.vertical.privacy import NONE
from parties.vertical.privacy.accounting import ACCOUNTANT, SENSITIVITY, at_most, epsilon_of
from parties.vertical.privacy.ledger import Spent

_RELATIONS = {
    "replace_one": "replace-one: they become any others",
    "zero_out": "zero-out: they become nothing",
}
_BEYOND = (
    "not covered: which rows are common, time and failures, releases that are not in the ledger "
    "of this folder, settings and preprocessing that were chosen by looking at these rows"
)
_UNREAD = "the run ended before the ledger was read"
_OTHERS = "earlier releases in this folder had noise without a bound"


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence about the features or the labels of one party.

    Attributes:
        epsilon: None where nothing may be claimed.
        delta: 0 for a pure ε.
        text: the whole of it, as the report prints it.
    """

    party: str
    covers: str
    epsilon: float | None
    delta: float | None
    text: str


def claims(agreement: Agreement, spent: Mapping[str, Spent]) -> list[Claim]:
    """A claim or a refusal for the features of each party, and for the labels.

    ``spent`` is what the ledgers say, by party; a party may be absent.
    """
    found = [_features(agreement, name, spent.get(name)) for name in agreement.feature_parties]
    return [*found, _labels(agreement, spent.get(agreement.active))]


def summary(found: list[Claim]) -> str:
    """All claims in a few words."""
    held = [f"{each.covers} of {each.party}" for each in found if each.epsilon is not None]
    return f"formal privacy for the {', '.join(held)} alone" if held else NONE


def _features(agreement: Agreement, name: str, spent: Spent | None) -> Claim:
    plan = agreement.privacy
    if name == agreement.active:
        sent = "control messages" if plan.embed_once else "the gradients that it sends"
        return _refused(name, "features", f"no noise hides them in {sent}")
    if plan.embed_once:
        return _released_once(name, plan.embed_once, spent)
    if plan.embed_train:
        return _refused(
            name,
            "features",
            "its bottom is trained on the raw rows, without DP-SGD, so each row moves the "
            "embeddings of all rows that follow, whatever noise they bear",
        )
    return _refused(name, "features", "no noise is added to its embeddings")


def _released_once(name: str, plan: EmbedOnce, spent: Spent | None) -> Claim:
    if spent is None:
        return _refused(name, "features", _UNREAD)
    epsilon = epsilon_of(spent.square, plan.relation, plan.delta)
    if math.isinf(epsilon):
        return _refused(name, "features", _OTHERS)
    text = (
        f"{name}: (ε, δ) = ({at_most(epsilon)}, {plan.delta:g}) for the features of each row "
        f"against the active party ({_RELATIONS[plan.relation]}, sensitivity "
        f"{SENSITIVITY[plan.relation]:g} C); T = {spent.releases} at most releases of a row, "
        f"z = σ/C = {plan.noise_multiplier:g} in this run; accountant: {ACCOUNTANT}; covered: "
        f"every embedding that {name} sent from this folder; {_BEYOND}"
    )
    return Claim(name, "features", epsilon, plan.delta, text)


def _labels(agreement: Agreement, spent: Spent | None) -> Claim:
    name, plan = agreement.active, agreement.privacy
    if plan.label_dp:
        if spent is None:
            return _refused(name, "labels", _UNREAD)
        text = (
            f"{name}: ε = {at_most(spent.epsilon)} (pure, δ = 0) for the label of each training "
            f"and validation row against the passive parties (replace-one: it becomes any other); "
            f"T = {spent.releases} at most releases of a label by randomised response; accountant: "
            "the sum of their ε, in closed form; covered: all that was sent, since every use is of "
            "the flipped labels; test labels are used for the report alone; not covered: what "
            f"features tell of labels, which rows a file of IDs names; {_BEYOND}"
        )
        return Claim(name, "labels", spent.epsilon, 0.0, text)
    if plan.grad_noise:
        return _refused(
            name,
            "labels",
            "the top model learns from every label, so each label moves all gradients that "
            "follow, whatever noise they bear; the label attack says what was measured",
        )
    if plan.embed_once:
        return _refused(
            name,
            "labels",
            "no gradient is sent, but when training ends and which rows a request names "
            "depend on them",
        )
    return _refused(name, "labels", "no noise is added to its gradients")


def _refused(name: str, covers: str, reason: str) -> Claim:
    return Claim(name, covers, None, None, f"{name}: {NONE} for its {covers}: {reason}")
