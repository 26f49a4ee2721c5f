"""Building, encoding and signing a receipt; the refusals of a party that is asked to sign."""

import hashlib
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError
from sample_receipt import (
    IDS,
    PARTIES,
    REQUEST,
    digest,
    openings,
    party_key,
    private_key,
    proof,
    request,
    signed,
    statement,
    trust,
    unsigned,
)

from unlearning.guarantee import Guarantee
from unlearning.receipts.canonical import canonical_bytes
from unlearning.receipts.errors import ReceiptError
from unlearning.receipts.faults import ExitCode, Fault
from unlearning.receipts.keys import read_trust
from unlearning.receipts.receipt import (
    LIMITS,
    MAX_SIGNATURES,
    NO_HASH,
    Receipt,
    ReceiptSignature,
    RequestKind,
    StatedGuarantee,
    count_bucket,
    decode_receipt,
    sign_receipt,
    with_signatures,
)
from unlearning.receipts.table import minute_text, number_text, table_of, upper_bound_text
from unlearning.receipts.verify import verify


def test_receipt_returns_from_its_bytes() -> None:
    receipt = signed(unsigned())
    assert decode_receipt(receipt.encode()) == receipt
    assert decode_receipt(receipt.encode()).digest == receipt.digest == unsigned().digest


def test_signing_bytes_are_domain_and_content_without_signatures() -> None:
    content = unsigned().to_json()
    assert content.pop("signatures") == []
    expected = b"vfl/receipt/v1\n" + canonical_bytes(content)
    receipt = signed(unsigned())
    assert receipt.signing_bytes == expected
    assert receipt.digest == hashlib.sha256(canonical_bytes(content)).hexdigest()
    for each in receipt.signatures:
        key = private_key(each.party).public_key()
        key.verify(bytes.fromhex(each.signature), expected)


def test_receipt_contains_no_id_and_no_salt() -> None:
    text = signed(unsigned()).encode().decode()
    for each in openings().subjects:
        assert each.salt not in text
        assert each.commitment.hex() not in text
        assert not [column for column in each.id if f'"{column}"' in text]
    shown = repr(openings())
    assert IDS[0][0] not in shown
    assert openings().subjects[0].salt not in shown


def test_key_names_are_hashes_of_party_and_key() -> None:
    key = party_key("bank")
    note = b"bank\n\x01" + key.public
    assert key.key_id == hashlib.sha256(note).hexdigest()[:16]
    spki = bytes.fromhex("302a300506032b6570032100") + key.public
    assert key.spki_sha256 == hashlib.sha256(spki).hexdigest()
    assert party_key("bank", owner="shop").key_id != key.key_id


def test_missing_signatures_are_named() -> None:
    assert unsigned().parties_without_signature == ["bank", "shop"]
    assert signed(unsigned(), "bank").parties_without_signature == ["shop"]
    assert signed(unsigned()).parties_without_signature == []


def test_signatures_that_come_one_after_another_are_joined_once() -> None:
    one = signed(unsigned(), "shop")
    both = signed(one, "bank")
    assert [each.party for each in both.signatures] == ["bank", "shop"]
    assert with_signatures(both, one.signatures) == both
    other = ReceiptSignature(party="shop", key_id=party_key("shop").key_id, signature="0" * 128)
    with pytest.raises(ReceiptError, match="shop sent two different signatures"):
        with_signatures(both, [other])


def test_party_does_not_sign_a_changed_statement_of_its_own() -> None:
    shop = statement("shop").model_copy(update={"model_after": digest("other")})
    changed = unsigned().model_copy(update={"statements": (statement("bank"), shop)})
    key = party_key("shop")
    with pytest.raises(ReceiptError, match="changes the statement that shop made"):
        sign_receipt(changed, key, statement("shop"), NO_HASH, private_key("shop").sign)
    bank = party_key("bank")
    assert sign_receipt(changed, bank, statement("bank"), NO_HASH, private_key("bank").sign)


def test_party_does_not_sign_under_a_key_that_is_not_named() -> None:
    key = party_key("other", owner="shop")
    with pytest.raises(ReceiptError, match=f"does not name shop with key {key.key_id}"):
        sign_receipt(unsigned(), key, statement("shop"), NO_HASH, private_key("other").sign)


def test_party_does_not_sign_a_contradiction() -> None:
    changed = unsigned().model_copy(update={"version_after": 6})
    with pytest.raises(ReceiptError, match="contradicts itself: version 6 follows version 6"):
        sign_receipt(
            changed, party_key("bank"), statement("bank"), NO_HASH, private_key("bank").sign
        )


def test_party_does_not_sign_a_receipt_that_leaves_out_an_earlier_one() -> None:
    sign, earlier = private_key("bank").sign, digest("earlier receipt")
    with pytest.raises(ReceiptError, match="the newest receipt that bank signed is"):
        sign_receipt(unsigned(), party_key("bank"), statement("bank"), earlier, sign)
    follows = unsigned().model_copy(update={"prev_receipt_hash": earlier})
    assert sign_receipt(follows, party_key("bank"), statement("bank"), earlier, sign)


def test_number_of_signatures_is_limited() -> None:
    content = signed(unsigned()).to_json()
    (first, _) = content["signatures"]
    most = [{**first, "key_id": f"{number:016x}"} for number in range(MAX_SIGNATURES)]
    assert decode_receipt(canonical_bytes({**content, "signatures": most}))
    most.append({**first, "key_id": "f" * 16})
    with pytest.raises(ReceiptError, match="malformed at signatures"):
        decode_receipt(canonical_bytes({**content, "signatures": most}))


@pytest.mark.parametrize(
    ("kind", "numbers", "legal"),
    [
        (Guarantee.EXACT, {}, True),
        (Guarantee.HEURISTIC, {}, True),
        (Guarantee.KKT_REPORT, {}, True),
        (Guarantee.CERTIFIED, {"epsilon": "1", "delta": "1e-5"}, True),
        (Guarantee.DISTANCE_CERTIFIED, {"bound": "0.0012"}, True),
        (Guarantee.CERTIFIED, {"epsilon": "1"}, False),
        (Guarantee.CERTIFIED, {"epsilon": "-1", "delta": "1e-5"}, False),
        (Guarantee.EXACT, {"bound": "0"}, False),
        (Guarantee.DISTANCE_CERTIFIED, {}, False),
        (Guarantee.AUDITED, {"epsilon": "1", "delta": "1e-5"}, False),
    ],
)
def test_guarantee_has_the_numbers_of_its_kind(
    kind: Guarantee, numbers: dict[str, str], legal: bool
) -> None:
    if legal:
        assert StatedGuarantee(kind=kind, **numbers).kind is kind
    else:
        with pytest.raises(ValidationError):
            StatedGuarantee(kind=kind, **numbers)


def test_every_kind_of_guarantee_can_stand_in_a_receipt() -> None:
    for kind in Guarantee:
        numbers: dict[str, str] = {}
        if kind is Guarantee.CERTIFIED:
            numbers = {"epsilon": "1", "delta": "0.00001"}
        if kind is Guarantee.DISTANCE_CERTIFIED:
            numbers = {"bound": "0"}
        stated = StatedGuarantee(kind=kind, **numbers)
        receipt = unsigned().model_copy(update={"guarantee": stated})
        assert decode_receipt(receipt.encode()).guarantee == stated


def stating(receipt: Receipt, method: str, kind: Guarantee, *changed: str) -> Receipt:
    """The receipt of a method with a guarantee, after which the parts of ``changed`` differ."""
    numbers = {"epsilon": "1", "delta": "1e-5"} if kind is Guarantee.CERTIFIED else {}
    statements = tuple(
        each
        if each.party in changed
        else each.model_copy(update={"model_after": each.model_before})
        for each in receipt.statements
    )
    update = {
        "method": method,
        "guarantee": StatedGuarantee(kind=kind, **numbers),
        "statements": statements,
    }
    return receipt.model_copy(update=update)


@pytest.mark.parametrize(
    ("method", "kind", "changed", "refused"),
    [
        ("fine-tune", Guarantee.EXACT, ("bank", "shop"), True),
        ("fine-tune", Guarantee.EXACT, ("shop",), True),
        ("fine-tune", Guarantee.EXACT, (), False),  # it had nothing to do
        ("fine-tune", Guarantee.HEURISTIC, ("shop",), False),
        ("fine-tune", Guarantee.KKT_REPORT, ("shop",), True),
        ("fedora", Guarantee.KKT_REPORT, ("shop",), False),
        ("newton-cg", Guarantee.CERTIFIED, ("shop",), False),
        ("newton-cg", Guarantee.EXACT, ("shop",), True),
        ("retrain-paired", Guarantee.EXACT, ("shop",), False),
        ("retrain-paired", Guarantee.HEURISTIC, ("shop",), False),
        ("a-later-method", Guarantee.EXACT, ("shop",), False),
    ],
)
def test_method_that_changed_the_model_gives_at_most_its_own_guarantee(
    method: str, kind: Guarantee, changed: tuple[str, ...], *, refused: bool
) -> None:
    receipt = stating(unsigned(), method, kind, *changed)
    found = [each for each in receipt.contradictions() if "strongest" in each]
    assert bool(found) is refused


def test_model_before_of_a_client_does_not_show_that_a_method_changed_the_model() -> None:
    """A client that was restored from a backup had an older model."""
    roles = {"bank": "server", "shop": "client"}
    parties = tuple(
        each.model_copy(update={"role": roles[each.party]}) for each in unsigned().parties
    )
    federated = unsigned().model_copy(update={"parties": parties})
    assert not stating(federated, "fedosd", Guarantee.EXACT, "shop").overstatement
    assert stating(federated, "fedosd", Guarantee.EXACT, "bank").overstatement


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0"), (1, "1"), (2, "2-3"), (3, "2-3"), (4, "4-7"), (15, "8-15"), (16, "16-31"),
     (1000, "512-1023")],
)  # fmt: skip
def test_counts_are_given_as_ranges(count: int, expected: str) -> None:
    assert count_bucket(count) == expected


def test_a_request_for_a_label_has_classes_and_needs_no_subjects() -> None:
    changes: dict[str, Any] = {"kind": "label", "classes": ["8"], "subjects_root": None}
    label = request().to_json() | changes
    assert table_of(type(request()), label, "it").kind is RequestKind.LABEL
    for wrong in ({"kind": "rows"}, {"classes": []}):
        with pytest.raises(ReceiptError):
            table_of(type(request()), label | wrong, "it")


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (0.25, "0.25"), (1e-05, "1e-5"), (-2.5, "-2.5"), (1e22, "1e22"), (0.0, "0")],
)
def test_numbers_are_written_as_shortest_text(value: float, text: str) -> None:
    assert number_text(value) == text
    assert float(text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5.339611e-05, "5.33962e-5"),
        (0.00012345678901234567, "0.000123457"),
        (1e-5, "1e-5"),
        (1.0, "1"),
        (1234567.8, "1234570"),
        (1.0000001, "1.00001"),
    ],
)
def test_upper_bounds_are_rounded_up(value: float, text: str) -> None:
    assert upper_bound_text(value) == text
    assert StatedGuarantee(kind=Guarantee.DISTANCE_CERTIFIED, bound=text).bound == text


def test_a_bound_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ReceiptError, match="must be finite"):
        upper_bound_text(float("inf"))


def test_numbers_and_times_without_meaning_are_refused() -> None:
    with pytest.raises(ReceiptError, match="finite"):
        number_text(float("nan"))
    with pytest.raises(ReceiptError, match="time zone"):
        minute_text(datetime(2027, 1, 1))


def test_times_are_minutes_in_utc() -> None:
    east = timezone(timedelta(hours=2))
    assert minute_text(datetime(2027, 3, 1, 1, 30, 59, tzinfo=east)) == "2027-02-28T23:30Z"
    assert minute_text(datetime(2027, 3, 1, 1, 30, tzinfo=UTC)) == "2027-03-01T01:30Z"


def test_proof_names_no_index_and_no_number_of_leaves() -> None:
    for index, each in enumerate(openings().subjects):
        content = proof(index).to_json()
        assert content.keys() == {"type", "version", "request_id", "path"}
        assert proof(index).request_id == REQUEST
        assert proof(index).root(each.commitment) == openings().root()


def test_limits_are_the_fixed_sentence() -> None:
    assert unsigned().limits == LIMITS
    with pytest.raises(ValidationError, match="fixed sentence"):
        type(unsigned())(**{**dict(unsigned()), "limits": "It proves everything."})


def test_trust_file_is_read_and_damage_is_named() -> None:
    file = trust(*PARTIES)
    assert read_trust(file.model_dump_json(indent=1).encode()) == file
    assert file.signers(1) == {"bank", "shop"}
    with pytest.raises(ReceiptError, match="file of trusted keys is malformed at keys"):
        read_trust(file.model_dump_json().replace(file.keys[0].public_key, "00").encode())
    with pytest.raises(ReceiptError, match="not JSON"):
        read_trust(b"")


def test_party_signs_only_receipts_of_versions_since_it_joined() -> None:
    keys = [
        each.model_copy(update={"since": 7}) if each.party == "clinic" else each
        for each in trust("bank", "clinic", "shop").keys
    ]
    file = trust(*PARTIES).model_copy(update={"keys": tuple(keys)})
    assert [len(file.signers(each)) for each in (6, 7)] == [2, 3]
    assert read_trust(canonical_bytes(file.to_json())) == file
    without = signed(unsigned()).encode()  # of version 7
    (found,) = verify(without, file).findings
    assert found.fault is Fault.MISSING_PARTY
    keys[1] = keys[1].model_copy(update={"since": 8})
    later = file.model_copy(update={"keys": tuple(keys)})
    assert verify(without, later).exit_code is ExitCode.VALID


def test_trust_file_of_an_earlier_version_stays_the_same_bytes() -> None:
    (first, *_) = trust(*PARTIES).to_json()["keys"]
    assert first.keys() == {"party", "public_key"}
