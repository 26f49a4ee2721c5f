"""A spoke that denies the key of the hub during a session ends the session."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from handshake_parties import open_hub_port, party

from parties.session import handshake
from parties.session.handshake import accept_spokes, join_hub
from protocol import vfl_pb2
from protocol.credentials import DenyList, fingerprint
from protocol.errors import IdentityError
from tests.conftest import HUB, SPOKE


def test_denied_key_of_the_hub_ends_the_session(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "RECHECK_SECONDS", 0.0)
    listed = tmp_path / "denied.txt"
    listed.write_text("")
    bank, shop = party(keys, HUB, []), party(keys, SPOKE, [])
    shop = replace(shop, trust=replace(shop.trust, denied_file=DenyList(listed)))
    with open_hub_port("grpc", bank, keys, tmp_path) as at, ThreadPoolExecutor(3) as pool:
        joining = pool.submit(join_hub, shop, partial(at.connect, SPOKE))
        pool.submit(join_hub, party(keys, "hospital", []), partial(at.connect, "hospital"))
        hub, _ = accept_spokes(bank, at.port)
        channel = joining.result(30)
        hub.channels[SPOKE].send(vfl_pb2.Abort(code="9", reason="one"))
        listed.write_text(fingerprint(bank.keyring.identity.certificate) + "\n")
        with pytest.raises(IdentityError, match="the key of bank is denied"):
            channel.receive(30)
