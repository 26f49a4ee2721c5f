"""Two versions of vfl in one federation, in real processes, and a folder that is upgraded."""

import json
from pathlib import Path

import pytest
from request_federation import person_id, write_trio
from two_versions import TwoVersions, unpack_version_before


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of the version before."""
    return unpack_version_before(tmp_path_factory.mktemp("before"))


def forget(federation: TwoVersions, out: Path, origin: str) -> str:
    """Request at ``origin`` to forget a person, and carry it out; return the ID of the request."""
    keys = ["--certificates", str(federation.keys), "--format", "json"]
    words = ["unlearn", "request", str(federation.config), "--party", origin, *keys]
    printed = federation.call(origin, out, "vfl", *words, "--id", person_id(7))
    request = next(
        found for line in printed.splitlines() if (found := json.loads(line).get("request"))
    )
    with federation.serve(out) as service:
        federation.wait_certified(service, request)
        assert set(service.stop().values()) == {0}, federation.notes(out)
    return request


def check_receipts(federation: TwoVersions, out: Path, request: str, readers: list[str]) -> None:
    """All parties have the same receipt, which the versions of the ``readers`` verify."""
    receipts = federation.receipts(out, request)
    assert set(receipts) == set(federation.roles)
    trust = receipts[federation.hub].parent / "trust.json"
    for name in readers:
        for path in receipts.values():
            federation.call(name, out, "vfl-verify", str(path), "--keys", str(trust))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("old", [("left",), ("hub", "right")], ids=["old left", "old hub"])
def test_two_versions_train_predict_and_forget_together(
    before: Path, tmp_path: Path, old: tuple[str, ...]
) -> None:
    config = write_trio(tmp_path / "trio").config
    federation, out = TwoVersions(config, before, old), tmp_path / "out"
    federation.train(out)
    first = federation.predict(out)
    request = forget(federation, out, "left")
    check_receipts(federation, out, request, ["hub", "left"])
    second = federation.predict(out)
    assert set(first) - set(second) == {person_id(7)}
