"""What is longer than a text may be is told, by a client of its own and once for a simulation."""

from typing import Any

import pytest

from configs.federated_file import LanguageConfig, read_language
from parties.language.setup import take_language_seat
from parties.session.setup import Place
from tests.parties.horizontal.language.ferries import facts, with_keys

SHORT = "model.length=24"


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> tuple[LanguageConfig, Place]:
    return with_keys(tmp_path_factory.mktemp("ferries"))


def told(ready: tuple[LanguageConfig, Place], name: str, *changes: str) -> tuple[list[str], Any]:
    events: list[Any] = []
    config = read_language(ready[0].path, list(changes))
    party = take_language_seat(config, name, ready[1], events.append)
    said = [each["text"] for each in events if each["event"] == "warning"]
    return [each for each in said if "model.length" in each], party


def test_a_client_says_what_of_its_texts_is_lost(ready: tuple[LanguageConfig, Place]) -> None:
    (said,), party = told(ready, "client-0", SHORT)
    rows = [*party.shelf.rows, *party.shelf.held, *party.shelf.validation]
    cut = [each.cut for each in rows if each.cut]
    assert said == (
        f"{len(cut)} of {len(rows)} texts are longer than model.length = 24: "
        f"{sum(cut)} tokens are neither learned nor measured"
    )
    assert cut
    assert not told(ready, "client-0")[0], "all of them fit into 64"


def test_a_simulation_says_it_once_of_all_its_clients(ready: tuple[LanguageConfig, Place]) -> None:
    (said,), _ = told(ready, "server", SHORT)
    each = [told(ready, name, SHORT)[0][0] for name in ready[0].agreement.spokes]
    rows = sum(int(one.split()[0]) for one in each)
    assert said.startswith(f"{rows} of {len(facts())} texts are longer")
    assert not told(ready, "server")[0]
