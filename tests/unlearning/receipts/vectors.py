"""The vectors of receipts: files with at most one fault each, and the verdict that is expected.

``python tests/unlearning/receipts/vectors.py`` writes them to ``tests/golden/receipts``. A vector
is a text archive: lines ``name: value``, an empty line, then each file after a line ``-- NAME --``.
The content of a file ends before the newline that precedes the next such line, or the end. All keys
are made from words and protect nothing. Another implementation can use the same vectors.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))

from sample_receipt import (
    IDS,
    PARTIES,
    REQUEST,
    digest,
    event_digest,
    export,
    journal,
    journal_with_end,
    openings,
    party_key,
    private_key,
    proof,
    signed,
    signed_event,
    trust,
    unsigned,
)

from unlearning.receipts.canonical import canonical_bytes
from unlearning.receipts.faults import ExitCode, Fault
from unlearning.receipts.keys import TrustedKey, TrustFile
from unlearning.receipts.receipt import SIGNING_DOMAIN

FOLDER = Path(__file__).parents[2] / "golden" / "receipts"
VALID = "valid"
OTHER_ULID = "01JQ0000000000000000000000"
Json = dict[str, Any]
Change = Callable[[Json], object]


@dataclass(frozen=True, slots=True)
class Vector:
    """A receipt with the files beside it, and the expected result."""

    name: str
    expect: str  # a fault, or valid
    about: str
    files: Mapping[str, bytes]

    @property
    def code(self) -> int:
        return int(ExitCode.VALID if self.expect == VALID else Fault(self.expect).exit_code)

    def encode(self) -> bytes:
        head = f"expect: {self.expect}\nexit: {self.code}\nabout: {self.about}\n\n".encode()
        parts = (f"-- {name} --\n".encode() + each + b"\n" for name, each in self.files.items())
        return head + b"".join(parts)


def read_vector(path: Path) -> Vector:
    """Return the vector in a file; its exit code is recomputed from the expectation."""
    head, _, rest = path.read_bytes().partition(b"\n\n-- ")
    about = dict(line.split(": ", 1) for line in head.decode().splitlines())
    files = {}
    for part in (b"\n" + rest).split(b"\n-- ") if rest else ():
        name, _, content = part.lstrip(b"\n").partition(b" --\n")
        files[name.decode()] = content
    last = [*files][-1]
    files[last] = files[last].removesuffix(b"\n")
    vector = Vector(path.stem, about["expect"], about["about"], files)
    if vector.code != int(about["exit"]):
        raise ValueError(f"{path.name} expects an exit code that does not belong to the fault")
    return vector


# --- receipts -------------------------------------------------------------------------------------


def signatures_of(content: Json, parties: Sequence[str], domain: bytes = SIGNING_DOMAIN) -> list:
    message = domain + canonical_bytes(content)
    return [
        {
            "party": each, "key_id": party_key(each).key_id,
            "signature": private_key(each).sign(message).hex(),
        }
        for each in parties
    ]  # fmt: skip


def signed_json(*changes: Change, parties: Sequence[str] = PARTIES) -> Json:
    """The sample receipt, changed and then signed: its signatures are right."""
    content = deepcopy(unsigned().to_json())
    del content["signatures"]
    for change in changes:
        change(content)
    return {**content, "signatures": signatures_of(content, parties)}


def changed_json(change: Change) -> Json:
    """The sample receipt, signed and then changed."""
    content = deepcopy(signed(unsigned()).to_json())
    change(content)
    return content


def put(*path: str | int, value: Any) -> Change:
    """A change that sets the value at a path of keys and positions."""

    def change(content: Any) -> None:
        *way, last = path
        for each in way:
            content = content[each]
        content[last] = value

    return change


def drop(*path: str | int) -> Change:
    def change(content: Any) -> None:
        *way, last = path
        for each in way:
            content = content[each]
        del content[last]

    return change


# --- vectors without evidence ---------------------------------------------------------------------


def vectors_of_bytes() -> Iterator[tuple[str, str, bytes]]:
    """Name, description and bytes of receipts that are not canonical."""
    good = signed(unsigned()).encode()
    fields = (
        ("newline-at-end", "a newline follows the object", good + b"\n"),
        ("space-before", "a space stands before the object", b" " + good),
        ("space-after-colon", "a space stands after a colon", good.replace(b'":', b'": ', 1)),
        ("key-twice", "a key appears twice", b'{"version":1,' + good[1:]),
        ("float", "a version is written as 1.0", good.replace(b'"version":1', b'"version":1.0')),
        ("exponent", "a version is 1e0", good.replace(b'"version":1', b'"version":1e0')),
        ("not-a-number", "a count is NaN", good.replace(b'"n":360', b'"n":NaN')),
        ("minus-zero", "a count is -0", good.replace(b'"failed":0', b'"failed":-0', 1)),
        ("large-integer", "a count is 2^53", good.replace(b'"n":360', b'"n":9007199254740992')),
        ("byte-order-mark", "the file begins with a byte order mark", b"\xef\xbb\xbf" + good),
        ("escaped-letter", "a letter is escaped", good.replace(b'"people"', b'"\\u0070eople"')),
        ("not-utf8", "a byte is not UTF-8", good.replace(b'"people"', b'"peopl\xff"')),
        ("lone-surrogate", "a lone surrogate", good.replace(b'"people"', b'"\\ud800"')),
        ("empty", "the file is empty", b""),
        ("truncated", "the last byte is missing", good[:-1]),
        ("two-objects", "two objects stand in the file", good + good),
        ("deep", "an array has 40 levels", b"[" * 40 + b"]" * 40),
        ("utf16", "the file is in UTF-16", good.decode().encode("utf-16-le")),
    )
    order = canonical_bytes(signed(unsigned()).to_json()["signatures"])
    moved = b'{"signatures":' + order + b"," + good[1:].replace(b',"signatures":' + order, b"")
    yield from fields
    yield "keys-out-of-order", "the keys are not sorted", moved


SCHEMA: Sequence[tuple[str, str, Change]] = (
    ("no-classes", "an inner field is missing", drop("requests", 0, "classes")),
    ("no-type", "the field type is missing", drop("type")),
    ("no-limits", "the fixed sentence is missing", drop("limits")),
    ("no-method", "the field method is missing", drop("method")),
    ("extra-field", "there is an unknown field", put("note", value="all is well")),
    ("extra-inner-field", "a statement has an unknown field",
     put("statements", 0, "note", value="")),
    ("other-type", "the type is another one", put("type", value="vfl-receipt")),
    ("limits-changed", "the fixed sentence was changed", put("limits", value="It is forgotten.")),
    ("limits-of-audit-changed", "the sentence of the audit level belongs to another level",
     put("audit", "level", value="full")),
    ("audit-none-with-results", "the audit level none has results", lambda receipt: receipt.update(
        audit={**receipt["audit"], "level": "none", "cannot_say": (
            "Nothing was measured, so the receipt says nothing about the model after the removal."
        )})),
    ("guarantee-free-text", "the guarantee is free text",
     put("guarantee", "kind", value="fully forgotten")),
    ("guarantee-without-epsilon", "a certified guarantee has no numbers",
     put("guarantee", "kind", value="certified")),
    ("guarantee-with-foreign-number", "an exact guarantee has a bound",
     put("guarantee", "bound", value="0.1")),
    ("guarantee-number-as-word", "a bound is no number", lambda receipt: receipt.update(
        guarantee={"kind": "distance-certified", "bound": "small", "epsilon": None,
                   "delta": None})),
    ("parties-out-of-order", "the parties are not sorted",
     lambda receipt: receipt["parties"].reverse()),
    ("party-twice", "a party stands twice in the list",
     lambda receipt: receipt["parties"].append(receipt["parties"][1])),
    ("no-parties", "there is no party", lambda receipt: receipt.update(parties=[], statements=[])),
    ("no-requests", "there is no request", put("requests", value=[])),
    ("statement-missing", "a party made no statement", drop("statements", 1)),
    ("statements-out-of-order", "the statements are in another order than the parties",
     lambda receipt: receipt["statements"].reverse()),
    ("role-unknown", "a role is unknown", put("parties", 0, "role", value="owner")),
    ("party-name-upper-case", "the name of a party has a capital",
     put("federation", value="People")),
    ("request-twice", "a request stands twice in the list",
     lambda receipt: receipt["requests"].append(receipt["requests"][0])),
    ("origin-unknown", "the origin of a request is no party",
     put("requests", 0, "origin", value="clinic")),
    ("rows-without-root", "a request for rows has no root",
     put("requests", 0, "subjects_root", value=None)),
    ("label-without-classes", "a request for a label names no class",
     put("requests", 0, "kind", value="label")),
    ("kind-unknown", "the kind of a request is unknown",
     put("requests", 0, "kind", value="columns")),
    ("basis-unknown", "the legal basis is unknown",
     put("requests", 0, "legal_basis_code", value="because")),
    ("exact-count", "the count is exact", put("requests", 0, "count_bucket", value="5")),
    ("bucket-not-a-power", "the range does not start at a power of two",
     put("requests", 0, "count_bucket", value="5-9")),
    ("time-with-seconds", "a time has seconds",
     put("completed_at", value="2027-03-01T09:50:00Z")),
    ("time-that-is-none", "a time does not exist", put("completed_at", value="2027-02-30T09:50Z")),
    ("time-with-offset", "a time is not in UTC",
     put("completed_at", value="2027-03-01T09:50+01:00")),
    ("flag-as-number", "a flag is 0", put("clock_anomaly", value=0)),
    ("count-as-text", "a count is text", put("version_after", value="7")),
    ("count-negative", "a count is negative", put("version_before", value=-1)),
    ("number-as-text-with-comma", "a number has a comma",
     put("audit", "results", 0, "value", value="0,951")),
    ("hash-upper-case", "a hash has capitals",
     lambda receipt: receipt.update(plan_hash=receipt["plan_hash"].upper())),
    ("hash-short", "a hash has 63 digits",
     lambda receipt: receipt.update(plan_hash=receipt["plan_hash"][1:])),
    ("ulid-lower-case", "a ULID has small letters",
     lambda receipt: receipt.update(receipt_id=receipt["receipt_id"].lower())),
    ("ulid-too-large", "a ULID begins with 8",
     lambda receipt: receipt.update(receipt_id="8" + receipt["receipt_id"][1:])),
    ("recipients-do-not-add-up", "more recipients were notified than there are",
     put("statements", 0, "art19", "notified", value=3)),
    ("retention-without-reason", "something is kept for no reason",
     put("statements", 0, "artefacts_retained", 0, "reason", value="")),
)  # fmt: skip
SIGNATURE_SCHEMA: Sequence[tuple[str, str, Change]] = (
    ("signature-upper-case", "a signature has capitals", lambda receipt: put(
        "signatures", 0, "signature", value=receipt["signatures"][0]["signature"].upper()
    )(receipt)),
    ("signature-short", "a signature has 63 bytes", lambda receipt: put(
        "signatures", 0, "signature", value=receipt["signatures"][0]["signature"][2:]
    )(receipt)),
    ("signatures-out-of-order", "the signatures are not sorted",
     lambda receipt: receipt["signatures"].reverse()),
    ("signature-twice", "a key signed twice",
     lambda receipt: receipt["signatures"].insert(0, receipt["signatures"][0])),
    ("signatures-missing", "the list of signatures is missing", drop("signatures")),
)  # fmt: skip
AFTER_SIGNING: Sequence[tuple[str, str, Change]] = (
    ("changed-model", "the model of a party was changed after signing",
     put("statements", 1, "model_after", value=digest("other model"))),
    ("changed-root", "the root of the subjects was changed after signing",
     put("requests", 0, "subjects_root", value=digest("other subjects"))),
    ("changed-time", "a time was changed after signing",
     put("completed_at", value="2027-03-01T09:49Z")),
    ("changed-method", "the method was changed after signing", put("method", value="sharded")),
    ("changed-guarantee", "the guarantee was changed after signing",
     put("guarantee", "kind", value="heuristic")),
    ("changed-previous", "the previous receipt was changed after signing",
     put("prev_receipt_hash", value=digest("other receipt"))),
    ("changed-destroyed", "a destroyed artefact was added after signing", lambda receipt:
     receipt["statements"][0]["artefacts_destroyed"].append(
         {"id": "version-5", "kind": "model", "destroyed_at": "2027-03-01T09:30Z"})),
    ("changed-retained", "a retained artefact was removed after signing",
     put("statements", 0, "artefacts_retained", value=[])),
    ("signatures-exchanged", "two parties have each other's signature", lambda receipt: (
        receipt.update(signatures=[
            {**receipt["signatures"][0], "signature": receipt["signatures"][1]["signature"]},
            {**receipt["signatures"][1], "signature": receipt["signatures"][0]["signature"]},
        ]))),
    ("one-bad-signature", "one of two signatures is wrong",
     put("signatures", 1, "signature", value="0" * 128)),
)  # fmt: skip
CONTRADICTIONS: Sequence[tuple[str, str, Change]] = (
    ("due-before-received", "a request was due before it was received",
     put("requests", 0, "due_at", value="2027-02-28T09:30Z")),
    ("completed-before-received", "a request was completed before it was received",
     put("requests", 0, "received_at", value="2027-03-01T09:51Z")),
    ("version-not-higher", "the version after is the version before",
     put("version_after", value=6)),
    ("wrong-verdict", "an audit result is below its threshold and passed",
     put("audit", "results", 0, "value", value="0.9")),
    ("destroyed-later", "an artefact was destroyed after the completion",
     put("statements", 0, "artefacts_destroyed", 0, "destroyed_at", value="2027-03-02T00:00Z")),
    ("guarantee-too-strong", "a heuristic method that changed the model is exact",
     put("method", value="fine-tune")),
)  # fmt: skip


def receipts() -> Iterator[tuple[str, str, str, bytes]]:
    """Name, expectation, description and bytes of receipts that need nothing beside them."""
    for name, about, data in vectors_of_bytes():
        yield name, Fault.BAD_CANONICAL, about, data
    for name, about, change in SCHEMA:
        yield name, Fault.BAD_SCHEMA, about, canonical_bytes(signed_json(change))
    for name, about, change in SIGNATURE_SCHEMA:
        yield name, Fault.BAD_SCHEMA, about, canonical_bytes(changed_json(change))
    for name, about, change in AFTER_SIGNING:
        yield name, Fault.BAD_SIGNATURE, about, canonical_bytes(changed_json(change))
    for name, about, change in CONTRADICTIONS:
        yield name, Fault.CONTRADICTION, about, canonical_bytes(signed_json(change))
    yield "no-object", Fault.BAD_SCHEMA, "the file is an array", b"[]"
    two = canonical_bytes(signed_json(put("version", value=2)))
    yield "version-2", Fault.UNKNOWN_VERSION, "the version is 2", two
    text = canonical_bytes(signed_json(put("version", value="1")))
    yield "version-as-text", Fault.UNKNOWN_VERSION, "the version is text", text
    yield from _signed_receipts()


def _signed_receipts() -> Iterator[tuple[str, str, str, bytes]]:
    """Receipts in the right form that the wrong keys signed."""
    content = signed_json(parties=())
    del content["signatures"]
    for name, domain in (("no-domain", b""), ("domain-of-events", b"vfl/event/v1\n")):
        marked = {**content, "signatures": signatures_of(content, PARTIES, domain)}
        about = f"the signed bytes begin with {domain.decode().strip() or 'no domain'}"
        yield name, Fault.BAD_SIGNATURE, about, canonical_bytes(marked)
    bad = signatures_of(content, PARTIES)
    bad[1]["signature"] = private_key("clinic").sign(SIGNING_DOMAIN + b"x").hex()
    forged = canonical_bytes({**content, "signatures": bad})
    yield "foreign-key-under-known-name", Fault.BAD_SIGNATURE, "another key signed as shop", forged
    for absent, present in (("bank", "shop"), ("shop", "bank")):
        data = canonical_bytes(signed_json(parties=[present]))
        yield f"{absent}-did-not-sign", Fault.MISSING_SIGNATURE, f"{absent} has not signed", data
    ignored = [
        *signatures_of(content, ["bank"]),
        {**signatures_of(content, ["shop"])[0], "key_id": "0" * 16},
    ]
    data = canonical_bytes({**content, "signatures": ignored})
    yield "unknown-key-id", Fault.MISSING_SIGNATURE, "a signature names an unknown key", data
    wrong = signed_json(put("parties", 1, "spki_sha256", value=digest("other key")))
    about = "the digest of the key of shop is wrong"
    yield "wrong-key-digest", Fault.WRONG_KEY, about, canonical_bytes(wrong)
    witness = content | {"signatures": signatures_of(content, ["bank", "shop", "witness"])}
    about = "an unknown key signed beside the parties"
    yield "unknown-witness", VALID, about, canonical_bytes(witness)
    about = "a clock went backwards, and the receipt says so"
    anomaly = signed_json(
        put("requests", 0, "received_at", value="2027-03-01T09:51Z"),
        put("clock_anomaly", value=True),
    )
    yield "clock-anomaly", VALID, about, canonical_bytes(anomaly)
    label = {"kind": "label", "classes": ["8"], "subjects_root": None}
    labels = signed_json(lambda receipt: receipt["requests"][0].update(label))
    yield "label", VALID, "a request for a label, without subjects", canonical_bytes(labels)
    bare = signed_json(parties=())
    yield "unsigned", Fault.UNSIGNED, "nobody has signed", canonical_bytes(bare)
    foreign = {**content, "signatures": signatures_of(content, ["witness"])}
    about = "only an unknown key signed"
    yield "only-unknown-keys", Fault.UNSIGNED, about, canonical_bytes(foreign)
    yield "plain", VALID, "nothing is wrong", signed(unsigned()).encode()


# --- vectors with evidence ------------------------------------------------------------------------


def evidence() -> Iterator[tuple[str, str, str, Mapping[str, bytes]]]:
    """Name, expectation, description and files of vectors with a file beside the receipt."""
    yield from _keys()
    yield from _subjects()
    yield from _journals()
    yield from _previous()
    yield from _departures()
    yield from _columns()


def _keys() -> Iterator[tuple[str, str, str, Mapping[str, bytes]]]:
    good = signed(unsigned()).encode()

    def with_trust(file: TrustFile, receipt: bytes = good) -> dict[str, bytes]:
        return {"receipt.json": receipt, "trust.json": canonical_bytes(file.to_json())}

    three = with_trust(trust("bank", "clinic", "shop"))
    yield "missing-party", Fault.MISSING_PARTY, "the receipt does not name clinic", three
    about = "the key of shop is not trusted"
    yield "unknown-key", Fault.UNKNOWN_KEY, about, with_trust(trust("bank"))
    other = trust("bank", "shop").model_copy(update={"federation": "cities"})
    yield "wrong-federation", Fault.WRONG_FEDERATION, "another federation", with_trust(other)
    rotated = [*trust("bank", "shop").keys]
    rotated.append(TrustedKey(party="shop", public_key=party_key("new").public.hex()))
    both = TrustFile(federation="people", keys=tuple(rotated))
    yield "two-keys-of-a-party", VALID, "shop has an old and a new key", with_trust(both)


def left_event(key: str | None = None, origin: str = "clinic") -> Json:
    """The statement of a party that left; ``key``: another key that signs it."""
    body = {"version": 6, "destroyed": [{"id": "model-6", "kind": "model"}]}
    content = {
        "origin": origin, "seq": 4, "prev": digest("third event"), "time": "2027-03-01T09:00:00Z",
        "request": OTHER_ULID, "kind": "left", "body": body,
    }  # fmt: skip
    return signed_event(content, key)


def departed(statement: Json | None) -> bytes:
    """A receipt of bank and shop that says that clinic left."""
    request = {"kind": "party", "subjects_root": None, "count_bucket": "0"}
    departure = {"party": "clinic", "statement": statement}
    change = lambda receipt: receipt["requests"][0].update(request, departure=departure)  # noqa: E731
    return canonical_bytes(signed_json(change))


def _departures() -> Iterator[tuple[str, str, str, Mapping[str, bytes]]]:
    keys = [
        each.model_copy(update={"until": 7}) if each.party == "clinic" else each
        for each in trust("bank", "clinic", "shop").keys
    ]
    file = TrustFile(federation="people", keys=tuple(keys))

    def shown(made: Json | None, /, **more: bytes) -> dict[str, bytes]:
        files = {"receipt.json": departed(made), "trust.json": canonical_bytes(file.to_json())}
        return files | {f"{name}.jsonl": each for name, each in more.items()}

    yield "departure", VALID, "clinic left, and stated what it erased", shown(left_event())
    yield "departure-without-statement", VALID, "clinic left, and stated nothing", shown(None)
    about = "another key than that of clinic signed its statement"
    yield "departure-wrong-key", Fault.BAD_STATEMENT, about, shown(left_event("shop"))
    late = export([left_event()])
    yield (
        "departure-late",
        VALID,
        "the statement lies beside the receipt",
        shown(None, statement=late),
    )
    changed = export([{**left_event(), "time": "2027-03-02T09:00:00Z"}])
    about = "the statement beside the receipt was changed"
    yield "departure-late-changed", Fault.BAD_STATEMENT, about, shown(None, statement=changed)
    other = export([left_event(origin="shop")])
    about = "the statement is that of a party that did not leave"
    yield "departure-of-another", Fault.NOT_INCLUDED, about, shown(None, statement=other)
    about = "the file of the statement has no event left"
    yield "departure-none", Fault.BAD_EVIDENCE, about, shown(None, statement=export(journal()))
    whole = {
        "receipt.json": departed(None),
        "trust.json": canonical_bytes(trust("bank", "clinic", "shop").to_json()),
    }
    about = "the trusted keys do not say that clinic has left"
    yield "departure-still-trusted", Fault.MISSING_PARTY, about, whole
    early = {**shown(None), "receipt.json": signed(unsigned()).encode()}
    early["trust.json"] = early["trust.json"].replace(b'"until":7', b'"until":8')
    about = "the receipt is of a version that clinic still had to sign"
    yield "departure-later", Fault.MISSING_PARTY, about, early
    foreign = departed(left_event(origin="shop"))
    about = "the statement in the receipt is that of another party"
    yield "departure-foreign", Fault.BAD_SCHEMA, about, {**shown(None), "receipt.json": foreign}


def _columns() -> Iterator[tuple[str, str, str, Mapping[str, bytes]]]:
    trusted = {"trust.json": canonical_bytes(trust("bank", "shop").to_json())}

    def left(**more: Any) -> dict[str, bytes]:
        request = {"kind": "columns", "subjects_root": None, "count_bucket": "0", **more}
        content = signed_json(lambda receipt: receipt["requests"][0].update(request))
        return {"receipt.json": canonical_bytes(content), **trusted}

    yield "columns", VALID, "two columns of shop left", left(columns_left=2)
    about = "the receipt does not say how many columns left"
    yield "columns-without-number", Fault.BAD_SCHEMA, about, left()
    yield "columns-none", Fault.BAD_SCHEMA, "no column left", left(columns_left=0)

    def repeat(receipt: Json) -> None:
        (first,) = receipt["requests"]
        first.update(kind="columns", subjects_root=None, count_bucket="0", columns_left=2)
        receipt["requests"] = [{**first, "request_id": OTHER_ULID, "columns_left": 3}, first]

    about = "two requests say how many columns of shop left"
    files = {"receipt.json": canonical_bytes(signed_json(repeat)), **trusted}
    yield "columns-twice", Fault.CONTRADICTION, about, files
    about = "a request for rows has a number of columns"
    root = openings().root()
    other = left(columns_left=2, kind="rows", subjects_root=root, count_bucket="4-7")
    yield "columns-of-rows", Fault.BAD_SCHEMA, about, other


def _subjects() -> Iterator[tuple[str, str, str, Mapping[str, bytes]]]:
    good, third = signed(unsigned()).encode(), openings().subjects[2]
    right: Json = {"subject": list(third.id), "salt": third.salt}

    def shown(subject: Json, path: Any) -> dict[str, bytes]:
        content = path if isinstance(path, bytes) else canonical_bytes(path)
        return {
            "receipt.json": good, "subject.json": canonical_bytes(subject), "proof.json": content
        }  # fmt: skip

    path, wrong = proof(2).to_json(), Fault.NOT_INCLUDED
    yield "subject", VALID, "the subject is in the request", shown(right, path)
    salt = {**right, "salt": digest("x")}
    yield "subject-wrong-salt", wrong, "the salt is another one", shown(salt, path)
    other = {**right, "subject": ["cora", "1993"]}
    yield "subject-other-id", wrong, "the ID is another one", shown(other, path)
    joined = {**right, "subject": ["cora1992"]}
    yield "subject-joined", wrong, "two columns were made one", shown(joined, path)
    about = "the proof belongs to another subject"
    yield "proof-of-another", wrong, about, shown(right, proof(1).to_json())
    swapped = deepcopy(path)
    swapped["path"][0]["side"] = {"left": "right", "right": "left"}[swapped["path"][0]["side"]]
    yield "proof-side", wrong, "a side of the proof is exchanged", shown(right, swapped)
    short = {**path, "path": path["path"][:-1]}
    yield "proof-short", wrong, "the last step of the proof is missing", shown(right, short)
    far = {**path, "request_id": OTHER_ULID}
    yield "proof-request", wrong, "the proof names another request", shown(right, far)
    broken = {**path, "path": "none"}
    yield "proof-malformed", Fault.BAD_EVIDENCE, "the proof is malformed", shown(right, broken)

    def opened(content: Json) -> dict[str, bytes]:
        return {"receipt.json": good, "openings.json": canonical_bytes(content)}

    every = openings().to_json()
    yield "openings", VALID, "the openings of all subjects", opened(every)
    fewer = {**every, "subjects": every["subjects"][1:]}
    yield "openings-fewer", wrong, "a subject is missing", opened(fewer)
    more = {**every, "subjects": [*every["subjects"], {"id": ["zoe"], "salt": digest("zoe")}]}
    yield "openings-more", wrong, "a subject was added", opened(more)
    twice = {**every, "subjects": [*every["subjects"], every["subjects"][0]]}
    yield "openings-twice", Fault.BAD_EVIDENCE, "a subject stands twice", opened(twice)


def _journals() -> Iterator[tuple[str, str, str, Mapping[str, bytes]]]:
    receipt = signed(unsigned())

    def shown(events: list[Json] | bytes) -> dict[str, bytes]:
        content = events if isinstance(events, bytes) else export(events)
        return {"receipt.json": receipt.encode(), "journal.jsonl": content}

    def resigned(index: int, key: str | None = None, **changes: Any) -> list[Json]:
        events = journal()
        content = {name: each for name, each in events[index].items() if name != "signature"}
        return [*events[:index], signed_event(content | changes, key), *events[index + 1 :]]

    requested, journaled, started = journal()
    right = journal_with_end(receipt.digest)
    yield "journal", VALID, "the journal ends with the receipt", shown(right)
    yield "journal-before", VALID, "the journal ends before the receipt", shown(journal())
    changed = [*right[:-1], {**right[-1], "time": "2027-03-01T09:00:00Z"}]
    yield "event-changed", Fault.BAD_EVENT, "an event was changed", shown(changed)
    superseded = journal_with_end(digest("later receipt"))
    yield "superseded", Fault.SUPERSEDED, "another receipt completed the request", shown(superseded)
    about = "another receipt completed the request afterwards"
    again = journal_with_end(receipt.digest, digest("later receipt"))
    yield "superseded-later", Fault.SUPERSEDED, about, shown(again)
    about = "another receipt completed the request before"
    latest = journal_with_end(digest("earlier receipt"), receipt.digest)
    yield "journal-again", VALID, about, shown(latest)
    without = [each for each in journal() if each != journaled]
    yield "event-missing", Fault.CHAIN_GAP, "an event is missing", shown(without)
    ended = [each for each in journal() if each != started]
    yield "head-missing", Fault.CHAIN_GAP, "the journal ends before the head", shown(ended)
    forked = [*journal(), resigned(2, body={"batch": []})[2]]
    yield "fork", Fault.FORK, "a party signed two events with one number", shown(forked)
    extra = {**requested, "origin": "clinic", "kind": "journaled", "body": {}}
    del extra["signature"]
    foreign = [*journal(), signed_event(extra)]
    yield "unknown-origin", Fault.UNKNOWN_ORIGIN, "an event of an unknown party", shown(foreign)
    text = export(journal())
    yield "journal-no-end", Fault.BAD_EVIDENCE, "the last line has no end", shown(text[:-1])
    blank = text.replace(b"\n", b"\n\n", 1)
    yield "journal-blank-line", Fault.BAD_EVIDENCE, "a line is empty", shown(blank)
    spaced = text.replace(b'":', b'": ', 1)
    yield "journal-not-canonical", Fault.BAD_EVIDENCE, "a line has a space", shown(spaced)
    yield from _other_requests()


def _other_requests() -> Iterator[tuple[str, str, str, Mapping[str, bytes]]]:
    """Receipts whose requests, or heads, differ from the journal."""
    text = export(journal())

    def shown(*changes: Change) -> dict[str, bytes]:
        return {"receipt.json": canonical_bytes(signed_json(*changes)), "journal.jsonl": text}

    origin = shown(put("requests", 0, "origin", value="bank"))
    about = "the journal names another origin of the request"
    yield "origin-differs", Fault.CONTRADICTION, about, origin
    none = shown(put("statements", 0, "journal_head", value="0" * 64))
    about = "bank had journaled nothing when it made its statement"
    yield "head-before-the-request", Fault.NOT_JOURNALED, about, none
    foreign = event_digest(journal()[0])
    swapped = shown(put("statements", 0, "journal_head", value=foreign))
    about = "the head of bank is an event of shop"
    yield "head-of-another", Fault.CHAIN_GAP, about, swapped


def _previous() -> Iterator[tuple[str, str, str, Mapping[str, bytes]]]:
    earlier = signed_json(
        put("receipt_id", value=OTHER_ULID),
        put("requests", 0, "request_id", value=OTHER_ULID),
        put("version_before", value=5),
        put("version_after", value=6),
    )
    content = {name: each for name, each in earlier.items() if name != "signatures"}
    named = event_digest(content)

    def shown(previous: bytes, *changes: Change) -> dict[str, bytes]:
        return {"receipt.json": canonical_bytes(signed_json(*changes)), "previous.json": previous}

    link = put("prev_receipt_hash", value=named)
    right = canonical_bytes(earlier)
    yield "previous", VALID, "the previous receipt is the named one", shown(right, link)
    other = put("prev_receipt_hash", value=digest("lost receipt"))
    yield "previous-differs", Fault.CHAIN_GAP, "another receipt was named", shown(right, other)
    yield "previous-not-named", Fault.CHAIN_GAP, "no previous receipt was named", shown(right)
    unsigned_one = canonical_bytes({**content, "signatures": signatures_of(content, ["bank"])})
    about = "shop has not signed the previous receipt"
    yield "previous-incomplete", Fault.MISSING_SIGNATURE, about, shown(unsigned_one, link)
    bad = deepcopy(earlier)
    bad["signatures"][0]["signature"] = "0" * 128
    about = "a signature of the previous receipt is wrong"
    yield "previous-bad", Fault.BAD_SIGNATURE, about, shown(canonical_bytes(bad), link)
    about = "the previous receipt is malformed"
    yield "previous-malformed", Fault.BAD_EVIDENCE, about, shown(right + b"\n", link)


def vectors() -> list[Vector]:
    """All vectors; each has at most one fault."""
    keys = {"trust.json": canonical_bytes(trust(*PARTIES).to_json())}
    found = [
        Vector(name, expect, about, keys | {"receipt.json": data})
        for name, expect, about, data in receipts()
    ]
    found += [
        Vector(name, expect, about, keys | files) for name, expect, about, files in evidence()
    ]
    return found


def write_vectors(folder: Path = FOLDER) -> None:
    """Write all vectors, and remove files that are none."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.txt"):
        path.unlink()
    for each in vectors():
        (folder / f"{each.name}.txt").write_bytes(each.encode())


if __name__ == "__main__":
    write_vectors()
    print(f"{len(vectors())} vectors in {FOLDER}; request {REQUEST}, {len(IDS)} subjects")
