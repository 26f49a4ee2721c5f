"""Privacy claims: the (ε, δ) that a run may claim for each party, or the reason for no claim."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from configs.agreement import VerticalAgreement
from configs.privacy import EmbedOnce
from parties.report.quantities import format_epsilon
from parties.report.sentences import NO_FORMAL_PRIVACY
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.privacy.accounting import ACCOUNTANT, SENSITIVITY, epsilon_of
from parties.vertical.privacy.ledger import PrivacySpending, spending_from_message
from protocol import vfl_pb2

_RELATIONS = {
    "replace_one": "replace-one: any other features take their place",
    "zero_out": "zero-out: no features take their place",
}
_BEYOND = (
    "not covered: which rows are common, time and failures, releases that are not in the ledger "
    "of this folder, settings and preprocessing that were chosen with these rows"
)
_UNREAD = "the run ended before the ledger was read"
_OTHERS = "earlier releases in this folder had noise without a bound on the embedding"


@dataclass(frozen=True, slots=True)
class PrivacyClaim:
    """The claim, or the reason for no claim, for the features or the labels of one party."""

    party: str  # the party
    covers: str  # "features" or "labels"
    epsilon: float | None  # the claimed ε; None without a claim
    # The claimed δ, which is 0 for pure ε-differential privacy; None without a claim.
    delta: float | None
    text: str  # the sentence for the report


def privacy_claims(
    agreement: VerticalAgreement, spent: Mapping[str, PrivacySpending]
) -> list[PrivacyClaim]:
    """The claims for the features of each party and for the labels.

    ``spent`` maps a party to its privacy spending, which is read from the party's ledger. A party
    without a reported spending is not in ``spent``.
    """
    found = [_features(agreement, name, spent.get(name)) for name in agreement.feature_parties]
    return [*found, _labels(agreement, spent.get(agreement.active))]


def claims_summary(found: list[PrivacyClaim]) -> str:
    """A phrase that names the features and labels with a formal privacy claim."""
    held = [f"{each.covers} of {each.party}" for each in found if each.epsilon is not None]
    return f"formal privacy for the {', '.join(held)} alone" if held else NO_FORMAL_PRIVACY


def _features(
    agreement: VerticalAgreement, name: str, spent: PrivacySpending | None
) -> PrivacyClaim:
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
            "its bottom model is trained on the raw rows without DP-SGD, so each row changes the "
            "embeddings of all later rows, and the noise does not hide that change",
        )
    return _refused(name, "features", "no noise is added to its embeddings")


def _released_once(name: str, plan: EmbedOnce, spent: PrivacySpending | None) -> PrivacyClaim:
    if spent is None:
        return _refused(name, "features", _UNREAD)
    epsilon = epsilon_of(spent.square, plan.relation, plan.delta)
    if math.isinf(epsilon):
        return _refused(name, "features", _OTHERS)
    text = (
        f"{name}: (ε, δ) = ({format_epsilon(epsilon)}, {plan.delta:g}) for the features of each "
        f"row against the active party ({_RELATIONS[plan.relation]}, sensitivity "
        f"{SENSITIVITY[plan.relation]:g} C); T = {spent.releases} at most releases of a row, "
        f"z = σ/C = {plan.noise_multiplier:g} in this run; accountant: {ACCOUNTANT}; covered: "
        f"every embedding that {name} sent from this folder before this report; a row whose "
        "features or settings change is released again, also by a prediction after this report, "
        f"which raises ε: vfl doctor at {name} shows the present value; {_BEYOND}"
    )
    return PrivacyClaim(name, "features", epsilon, plan.delta, text)


def _labels(agreement: VerticalAgreement, spent: PrivacySpending | None) -> PrivacyClaim:
    name, plan = agreement.active, agreement.privacy
    if plan.label_dp:
        if spent is None:
            return _refused(name, "labels", _UNREAD)
        text = (
            f"{name}: ε = {format_epsilon(spent.epsilon)} (pure, δ = 0) for the label of each "
            f"training and validation row against the passive parties (replace-one: any other "
            f"label takes its place); "
            f"T = {spent.releases} at most releases of a label by randomised response; accountant: "
            "the sum of their ε, in closed form; covered: everything that was sent, because only "
            "flipped labels are used; test labels are used for the report only; not covered: what "
            f"features reveal of labels, which rows a file of IDs names; {_BEYOND}"
        )
        return PrivacyClaim(name, "labels", spent.epsilon, 0.0, text)
    if plan.grad_noise:
        return _refused(
            name,
            "labels",
            "the top model is trained on every label, so each label changes all later gradients, "
            "and the noise does not hide that change; the label attack measures the leak",
        )
    if plan.embed_once:
        return _refused(
            name,
            "labels",
            "no gradient is sent, but the number of epochs and the rows of a request depend on "
            "the labels",
        )
    return _refused(name, "labels", "no noise is added to its gradients")


def _refused(name: str, covers: str, reason: str) -> PrivacyClaim:
    return PrivacyClaim(
        name, covers, None, None, f"{name}: {NO_FORMAL_PRIVACY} for its {covers}: {reason}"
    )


def collect_spending(split_model: SplitModel) -> dict[str, PrivacySpending]:
    """The privacy spending of each party for which the agreement allows a privacy claim."""
    spent = split_model.used_labels.spent
    found = {} if spent is None else {split_model.party.name: spent}
    if split_model.agreement.privacy.embed_once is None:
        return found
    request = partial(_request_spending, split_model)
    return found | split_model.once("privacy", dict[str, PrivacySpending], request, durable=False)


def _request_spending(split_model: SplitModel) -> dict[str, PrivacySpending]:
    command = vfl_pb2.ModelCommand(report_privacy_spent=vfl_pb2.ReportPrivacySpent())
    replies = split_model.send_to_passive(vfl_pb2.CLOSE, command)
    return {name: spending_from_message(each.spent) for name, each in replies.items()}
