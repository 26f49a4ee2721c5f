"""Two versions of vfl in one federation, in real processes, and folders that are upgraded."""

import json
from pathlib import Path

import pytest
from request_federation import PATIENCE, person_id, write_trio
from three_parties import PARTIES
from two_versions import ROOT, TwoVersions, canonical_agreements, unpack_version_before

PERSON = person_id(7)
CONFIGS = ("vertical/digits.toml", "horizontal/digits.toml")  # one of each family of agreements


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of the version before."""
    return unpack_version_before(tmp_path_factory.mktemp("before"))


def patient_trio(folder: Path) -> Path:
    """The config of three parties that wait long for each other, on a loaded machine."""
    config = write_trio(folder).config
    text = config.read_text()
    for limit in ("join_seconds", "step_seconds"):
        text = text.replace(f"{limit} = 60.0", f"{limit} = {PATIENCE - 60}")
    config.write_text(text)
    return config


def request_to_forget(federation: TwoVersions, out: Path, name: str) -> str:
    """Request at a party, in its version, to forget a person; return the ID of the request."""
    words = ["unlearn", "request", str(federation.config), "--party", name, "--id", PERSON]
    words += ["--certificates", str(federation.keys), "--format", "json"]
    printed = federation.call(name, out, *words).splitlines()
    return next(found for line in printed if (found := json.loads(line).get("request")))


def carry_out(federation: TwoVersions, out: Path, request: str, *readers: str) -> None:
    """Carry out a request; the versions of the parties ``readers`` verify the receipt."""
    with federation.serve(out) as service:
        federation.wait_certified(service, request)
        assert set(service.stop().values()) == {0}, federation.notes(out)
    receipts = federation.receipts(out, request)
    assert set(receipts) == set(federation.roles)
    for name in readers:
        federation.verify(name, receipts[federation.hub])
    assert len({path.read_bytes() for path in receipts.values()}) == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("old", [("left",), ("hub", "right")], ids=["old passive", "old active"])
def test_two_versions_train_predict_and_forget_together(
    before: Path, tmp_path: Path, old: tuple[str, ...]
) -> None:
    config = patient_trio(tmp_path / "trio")
    federation, out = TwoVersions(config, before, old), tmp_path / "out"
    federation.train(out)
    assert PERSON in federation.predict(out)
    request = request_to_forget(federation, out, "left")
    carry_out(federation, out, request, "hub", "left")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_folders_of_the_version_before_are_read(before: Path, tmp_path: Path) -> None:
    """All parties are upgraded with a kept model and an open request of the version before."""
    config = patient_trio(tmp_path / "trio")
    old, out = TwoVersions(config, before, PARTIES), tmp_path / "out"
    old.train(out)
    request = request_to_forget(old, out, "right")
    new = TwoVersions(config, before)
    for command in ("models", "unlearn"):
        words = [command, "list", str(config), "--party", "right", "--format", "json"]
        words += ["--certificates", str(new.keys)] * (command == "unlearn")
        printed = new.call("right", out, *words)
        assert request in printed if command == "unlearn" else '"readable": true' in printed
    carry_out(new, out, request, "hub")
    assert PERSON not in new.predict(out)


@pytest.mark.slow
def test_agreements_of_the_version_before_keep_their_digests(before: Path) -> None:
    """A key that a later version added is listed in ``added_later`` of its table."""
    configs = [before / "configs" / name for name in CONFIGS]
    then, now = (canonical_agreements(root, configs) for root in (before, ROOT))
    assert len(then) == len(CONFIGS)
    assert now == then
