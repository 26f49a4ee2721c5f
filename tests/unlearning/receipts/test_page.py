"""The page of a receipt: what it says, that it escapes texts, and that it loads nothing."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from sample_receipt import request, signed, statement, unsigned

from unlearning.guarantee import Guarantee
from unlearning.receipts import page
from unlearning.receipts.page import DataRecipient, NotificationResult, Notifications, receipt_page
from unlearning.receipts.receipt import (
    AUDIT_LIMITS,
    ArtefactKind,
    Audit,
    AuditLevel,
    LegalBasis,
    Receipt,
    RequesterKind,
    RequestKind,
    RetentionReason,
    StatedGuarantee,
)

MADE = datetime(2027, 3, 2, 8, 5, tzinfo=UTC)


class Reader(HTMLParser):
    """The text of a page, and its tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def text_of(
    receipt: Receipt, *recipients: DataRecipient, party: str = "", informed: str = ""
) -> str:
    notified = {receipt.requests[0].request_id: Notifications(recipients, informed)}
    page = receipt_page(receipt, MADE, party, notified if party else None)
    return " ".join(" ".join(Reader(page).text).split())


def test_page_says_who_asked_what_was_removed_how_and_who_signed() -> None:
    text = text_of(signed(unsigned()))
    for each in (
        "Data were removed from a model on 1 March 2027, 09:50 UTC",
        "this page was made on 2 March 2027, 08:05 UTC",
        "(bank and shop) carried out a request to remove data. Version 7 of the model replaces",
        "the person whose data it is, at shop",
        "Received 1 March 2027, 06:30 UTC",
        "Consent was withdrawn (GDPR Article 17(1)(b)).",
        "Of the persons that the request names, 4 to 7 rows were in the model.",
        "Method: retrain. Exact: the method gives a model that is bit-equal to one trained without",
        "utility: accuracy 0.951 at least 0.94 360 passed",
        "Statement of shop about itself Destroyed what name when model version-6 1 March 2027",
        "list of forgotten IDs, under a key forgotten It prevents that removed data come back. "
        "1 March 2030",
        "Recipients of the data to notify: 2; notified: 1; failed: 0.",
        "shop passive",
        "it does not prove absence of influence by itself",
        AUDIT_LIMITS[AuditLevel.QUICK],
    ):
        assert each in text, each
    assert "Incomplete" not in text
    assert "Recipients to notify" not in text
    assert "completed late" not in text


def test_page_names_the_party_that_has_not_signed() -> None:
    assert "Incomplete: shop has not signed the receipt." in text_of(signed(unsigned(), "bank"))
    assert "Incomplete: bank, shop have not signed the receipt." in text_of(unsigned())


def test_page_of_a_party_lists_its_recipients_with_results() -> None:
    text = text_of(
        unsigned(),
        DataRecipient("Acme Analytics", NotificationResult.NOTIFIED, "2027-03-02"),
        DataRecipient("Old Archive"),
        DataRecipient("Gone GmbH", NotificationResult.FAILED, "2027-03-03", "it was dissolved"),
        party="shop",
        informed="2027-03-04",
    )
    assert "Acme Analytics notified 2 March 2027 Old Archive open Gone GmbH failed: it was " in text
    assert "it was dissolved 3 March 2027" in text
    assert "The one who asked was informed on 4 March 2027." in text
    empty = text_of(unsigned(), party="shop")
    assert "shop has no record of recipients of the data." in empty
    assert "was informed on" not in empty


def test_page_loads_nothing_and_runs_nothing() -> None:
    content = receipt_page(signed(unsigned()), MADE)
    reader = Reader(content)
    assert not {"script", "img", "link", "iframe", "object", "form"} & set(reader.tags)
    assert not [name for name, _ in reader.attributes if name in ("src", "href", "onload")]
    assert "url(" not in content
    assert re.search(r"default-src 'none'", content)


def test_texts_are_escaped() -> None:
    hostile = "<script>alert(1)</script>"
    label = request().model_copy(
        update={"kind": RequestKind.LABEL, "classes": (hostile,), "subjects_root": None}
    )
    receipt = unsigned().model_copy(update={"requests": (label,)})
    recipient = DataRecipient(hostile, NotificationResult.FAILED, "2027-03-02")
    recipient = replace(recipient, reason=hostile)
    notified = {receipt.requests[0].request_id: Notifications((recipient,))}
    content = receipt_page(receipt, MADE, "shop", notified)
    assert hostile not in content
    assert content.count("&lt;script&gt;") == 3
    assert "All rows with the label &lt;script" in content


def test_late_completion_and_wrong_clock_are_said() -> None:
    late = request().model_copy(update={"due_at": "2027-03-01T09:00Z"})
    receipt = unsigned().model_copy(update={"requests": (late,), "clock_anomaly": True})
    text = text_of(receipt)
    assert "1 March 2027, 09:00 UTC – completed late" in text
    assert "A clock was wrong during the run" in text


def test_nothing_destroyed_and_nothing_kept_is_said() -> None:
    empty = {"artefacts_destroyed": (), "artefacts_retained": ()}
    bare = tuple(statement(each).model_copy(update=empty) for each in ("bank", "shop"))
    text = text_of(unsigned().model_copy(update={"statements": bare}))
    assert text.count("states that nothing was destroyed.") == 2
    assert text.count("states that nothing of the removed data remains.") == 2


@pytest.mark.parametrize("kind", Guarantee)
def test_every_guarantee_has_a_sentence_with_its_numbers(kind: Guarantee) -> None:
    stated = StatedGuarantee.model_construct(kind=kind, epsilon="0.5", delta="1e-6", bound="0.125")
    text = text_of(unsigned().model_copy(update={"guarantee": stated}))
    assert "None" not in text
    assert ("0.5 and δ = 1e-6" in text) == (kind is Guarantee.CERTIFIED)
    assert ("at most 0.125" in text) == (kind is Guarantee.DISTANCE_CERTIFIED)


@pytest.mark.parametrize("level", AuditLevel)
def test_every_audit_level_says_what_it_cannot(level: AuditLevel) -> None:
    audit = Audit(level=level, cannot_say=AUDIT_LIMITS[level])
    assert AUDIT_LIMITS[level] in text_of(unsigned().model_copy(update={"audit": audit}))


def test_every_code_of_a_receipt_has_words() -> None:
    assert page._ARTEFACTS.keys() == set(ArtefactKind)
    assert page._BASES.keys() == set(LegalBasis)
    assert page._REASONS.keys() == set(RetentionReason)
    assert page._REQUESTERS.keys() == set(RequesterKind)
