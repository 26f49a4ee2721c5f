"""The desk for requests of a vertical party, and the rows that they name by label."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from configs.agreement import VerticalAgreement
from configs.config_file import agreement_digest
from configs.unlearning import table_name
from parties.common.shared_randomness import Index, derive_key, permutation
from parties.requests.duties import RequestDesk
from parties.requests.lifecycle import RequestView
from parties.requests.receipts import Federation, params_hash
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.forgotten_rows import request_rules
from parties.vertical.service.departure import refuse_departure


def federation_of(agreement: VerticalAgreement) -> Federation:
    """What receipts say about the federation."""
    method = agreement.unlearning.method
    settings = getattr(agreement.unlearning, table_name(method), None)
    content = settings.model_dump_json() if settings is not None else "{}"
    return Federation(
        name=agreement.federation,
        roles={name: each.role for name, each in agreement.parties.items()},
        plan_hash=agreement_digest(agreement).hex(),
        params_hash=params_hash(f"{method} {content}"),
        guard=agreement.requests.guard,
    )


def open_desk(party: VerticalParty, agreement: VerticalAgreement) -> RequestDesk:
    """Open the journal of requests of a vertical party."""
    rules, federation = request_rules(agreement), federation_of(agreement)
    settings = party.settings.requests
    automatic, recipients = settings.policy == "automatic", settings.recipients
    return RequestDesk(
        party,
        rules,
        federation,
        automatic=automatic,
        recipients=recipients,
        refusal=partial(refuse_departure, party),
    )


def labelled_rows(split_model: SplitModel, view: RequestView) -> Index:
    """The rows of a request by label, [rows], ascending; only the active party has the labels."""
    content = view.content
    share, stream = float(content.fraction), f"{view.id} {content.seed}"
    return rows_of_labels(split_model, content.classes, share=share, stream=stream)


def rows_of_labels(
    split_model: SplitModel, classes: Sequence[str], *, share: float, stream: str
) -> Index:
    """A keyed sample of the rows of some classes, [rows], ascending; unknown classes have no rows.

    Args:
        split_model: the model, with the labels of all rows that were not erased.
        classes: names of the classes.
        share: fraction of the training rows of each class. If it is 1, validation and test rows of
            the classes are returned, too.
        stream: random stream of the sample.
    """
    known, labels = split_model.agreement.labels.classes, split_model.labels
    found = [np.empty(0, np.int64)]
    for name in classes:
        if name not in known:
            continue
        members = np.flatnonzero((labels == known.index(name)).numpy())
        if share < 1:
            members = np.intersect1d(members, split_model.rows.train)
            secret = derive_key(split_model.agreement.seed, "request by label", stream, name)
            members = members[permutation(secret, len(members))[: round(share * len(members))]]
        found.append(members)
    return np.unique(np.concatenate(found)).astype(np.int64)
