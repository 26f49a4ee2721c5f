"""Persons: keys, the file of persons, the policy of a party, and signed decisions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from journals import Federation, content, federation

from configs.errors import ConfigError
from configs.requests import PartyRequestSettings
from parties.common.errors import PolicyError
from parties.requests.events import DecisionBody, EventKind, RequestedBody
from parties.requests.lifecycle import RequestRules, RequestState, requests_of
from parties.requests.persons import (
    Person,
    PersonKey,
    PersonRole,
    RequestPolicy,
    decision_message,
    make_person_key,
    read_person_key,
    read_persons,
    read_policy,
    read_public_key,
    request_message,
    write_persons,
)
from protocol.errors import IdentityError
from protocol.keyring import make_party_key, private_key_pem, write_new_file

SEPARATE = RequestRules(("bank", "shop"), "bank", separate_persons=True)


def person(folder: Path, name: str) -> PersonKey:
    make_person_key(folder / f"{name}.key")
    return read_person_key(folder / f"{name}.key")


def listed(key: PersonKey, *roles: PersonRole) -> Person:
    return Person(key.name, frozenset(roles), key.public)


def test_key_file_is_private_and_never_replaced(tmp_path: Path) -> None:
    public = make_person_key(tmp_path / "anna.key")
    assert (tmp_path / "anna.key").stat().st_mode & 0o077 == 0
    key = read_person_key(tmp_path / "anna.key")
    assert (key.name, key.public) == ("anna", public)
    with pytest.raises(IdentityError, match="already exists"):
        make_person_key(tmp_path / "anna.key")


def test_other_files_are_no_key_of_a_person(tmp_path: Path) -> None:
    write_new_file(tmp_path / "party.key", private_key_pem(make_party_key()), 0o600)
    with pytest.raises(IdentityError, match="contains no Ed25519 key"):
        read_person_key(tmp_path / "party.key")
    write_new_file(tmp_path / "text.key", b"text", 0o600)
    with pytest.raises(IdentityError, match="is not a PEM file"):
        read_person_key(tmp_path / "text.key")
    make_person_key(tmp_path / "open.key")
    (tmp_path / "open.key").chmod(0o644)
    with pytest.raises(IdentityError, match="can be read by other users"):
        read_person_key(tmp_path / "open.key")


def test_file_of_persons_is_read_as_written(tmp_path: Path) -> None:
    anna, ben = person(tmp_path, "anna"), person(tmp_path, "ben")
    persons = (listed(anna, *PersonRole), listed(ben, PersonRole.AUDITOR))
    write_persons(tmp_path / "persons.toml", reversed(persons))
    assert read_persons(tmp_path / "persons.toml") == persons


def test_persons_have_different_names_and_keys(tmp_path: Path) -> None:
    anna = listed(person(tmp_path, "anna"), PersonRole.AUDITOR)
    with pytest.raises(ConfigError, match="two persons have the same key"):
        write_persons(tmp_path / "persons.toml", [anna, replace(anna, name="ben")])
    with pytest.raises(ConfigError, match="already has a person of this name"):
        write_persons(tmp_path / "persons.toml", [anna, anna])
    with pytest.raises(ConfigError, match="is not a valid name"):
        write_persons(tmp_path / "persons.toml", [replace(anna, name="Anna B")])


@pytest.mark.parametrize("text", ["", "ab", "x" * 64])
def test_text_that_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(IdentityError, match="is not 64 hexadecimal digits"):
        read_public_key(text)


def test_policy_of_roles_refuses_persons_without_key_or_role(tmp_path: Path) -> None:
    anna, eve = person(tmp_path, "anna"), person(tmp_path, "eve")
    write_persons(
        tmp_path / "persons.toml", [replace(listed(anna, PersonRole.REQUESTER), name="a")]
    )
    settings = PartyRequestSettings(policy="roles", persons=Path("persons.toml"))
    policy = read_policy(settings, tmp_path)
    acting = policy.acting(anna, PersonRole.REQUESTER)
    assert acting is not None
    assert acting.name == "a"  # the name in the file of persons
    with pytest.raises(PolicyError, match="a person with the role approver must act"):
        policy.acting(None, PersonRole.APPROVER)
    with pytest.raises(PolicyError, match="a does not have the role approver"):
        policy.acting(anna, PersonRole.APPROVER)
    with pytest.raises(PolicyError, match="belongs to no person"):
        policy.acting(eve, PersonRole.REQUESTER)


def test_automatic_policy_needs_no_key() -> None:
    assert RequestPolicy(automatic=True).acting(None, PersonRole.APPROVER) is None


def test_absent_file_of_persons_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_policy(PartyRequestSettings(policy="roles", persons=Path("no.toml")), tmp_path)


# --- signed decisions -----------------------------------------------------------------------------


def ask(made: Federation, requester: PersonKey | None, **changes: Any) -> str:
    body = content()
    if requester is not None:
        body = body.model_copy(update={"requester": requester.sign(request_message(body))})
    request = "01KARVB9G0000000000000000G"
    body = RequestedBody.model_validate(body.model_copy(update=changes).model_dump())
    made.journals["shop"].append(EventKind.REQUESTED, request, body)
    made.exchange()
    return request


def approve(
    made: Federation, name: str, request: str, key: PersonKey | None, **changes: Any
) -> None:
    journal = made.journals[name]
    asked = next(e for e in journal.events(request) if e.kind is EventKind.REQUESTED)
    body = DecisionBody(reason="ok")
    if key is not None:
        signature = key.sign(decision_message(EventKind.APPROVED, asked, "ok"))
        body = body.model_copy(update={"person": signature})
    body = DecisionBody.model_validate(body.model_copy(update=changes).model_dump())
    journal.append(EventKind.APPROVED, request, body)
    made.exchange()


def state(made: Federation, rules: RequestRules | None = None) -> RequestState:
    (view,) = requests_of(made.journals["bank"].events(), rules or made.rules)
    return view.state


def test_decision_signed_by_a_person_counts(tmp_path: Path) -> None:
    with federation(tmp_path, ("bank", "shop")) as made:
        request = ask(made, person(tmp_path, "anna"))
        approve(made, "bank", request, None)
        approve(made, "shop", request, person(tmp_path, "ben"))
        assert state(made) is RequestState.ALIGNED
        assert state(made, SEPARATE) is RequestState.ALIGNED


@pytest.mark.parametrize("changes", [{"reason": "other"}, {"person": None}])
def test_changed_decision_does_not_count(tmp_path: Path, changes: dict[str, Any]) -> None:
    with federation(tmp_path, ("bank", "shop")) as made:
        request = ask(made, person(tmp_path, "anna"))
        approve(made, "bank", request, None)
        approve(made, "shop", request, person(tmp_path, "ben"), **changes)
        assert state(made, SEPARATE) is RequestState.RECEIVED


def test_request_with_a_changed_ground_is_not_authorised(tmp_path: Path) -> None:
    with federation(tmp_path, ("bank", "shop")) as made:
        request = ask(made, person(tmp_path, "anna"), ground="other")
        approve(made, "bank", request, None)
        approve(made, "shop", request, None)
        assert state(made) is RequestState.RECEIVED


def test_requester_may_not_approve_where_persons_are_separate(tmp_path: Path) -> None:
    with federation(tmp_path, ("bank", "shop")) as made:
        anna = person(tmp_path, "anna")
        request = ask(made, anna)
        approve(made, "bank", request, None)
        approve(made, "shop", request, anna)
        assert state(made, SEPARATE) is RequestState.RECEIVED
        assert state(made) is RequestState.ALIGNED
        approve(made, "shop", request, person(tmp_path, "ben"))
        assert state(made, SEPARATE) is RequestState.ALIGNED


def test_request_that_nobody_signed_is_not_authorised_where_persons_are_separate(
    tmp_path: Path,
) -> None:
    with federation(tmp_path, ("bank", "shop")) as made:
        request = ask(made, None)
        approve(made, "bank", request, None)
        approve(made, "shop", request, person(tmp_path, "ben"))
        assert state(made, SEPARATE) is RequestState.RECEIVED
