"""Check of the privacy ledger of one party: the ε that it has spent, beside the budget."""

import os
from collections.abc import Iterator

from parties.common.errors import IntegrityError, StorageError
from parties.doctor.check import ExaminedVerticalParty, Finding, fail, ok, warning
from parties.doctor.folders import path_exists
from parties.vertical.privacy.accounting import epsilon_of, spent_words
from parties.vertical.privacy.ledger import FOLDER, LEDGER_FILES, PrivacyLedger

_CHECK = "privacy ledger"


def check_privacy_ledger(party: ExaminedVerticalParty) -> Iterator[Finding]:
    """Report the largest ε of a row in the ledger; nothing if no noise of the party has an ε."""
    privacy = party.config.agreement.privacy
    plan = privacy.label_dp if party.active else privacy.embed_once
    if plan is None:
        return
    if not path_exists(party.state / FOLDER / LEDGER_FILES[0]):
        yield ok(_CHECK, f"no release is recorded; {spent_words(0.0, plan.budget)}")
        return
    try:
        ledger = PrivacyLedger(party.state, os.urandom)  # draws no key: one with a ledger exists
    except (IntegrityError, StorageError) as error:
        yield fail(_CHECK, error)
        return
    spent = ledger.spent_of_any("response" if party.active else "once")
    epsilon = spent.epsilon
    if privacy.embed_once and not party.active:
        once = privacy.embed_once
        epsilon = epsilon_of(spent.square, once.relation, once.delta)
    values = "label" if party.active else "embedding"
    text = (
        f"at most {spent.releases} releases of a row's {values}; the largest "
        f"{spent_words(epsilon, plan.budget)}"
    )
    if plan.budget is not None and epsilon > plan.budget:
        hint = "a run ends before it releases such a row again: agree on a larger budget"
        yield warning(_CHECK, text, hint)
    else:
        yield ok(_CHECK, text)
