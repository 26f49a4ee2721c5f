"""Warnings about truncated texts: from each client, and once from a simulation."""

from typing import Any

import pytest

from configs.config_file import read_config
from configs.language import LanguageConfig
from parties.language.registry import SCHEMA as LANGUAGE
from parties.language.setup import set_up_language_party
from parties.session.setup import StartOptions
from tests.parties.language.ferries import facts, prepare_federation

SHORT = "model.length=24"


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> tuple[LanguageConfig, StartOptions]:
    return prepare_federation(tmp_path_factory.mktemp("ferries"))


def set_up(
    ready: tuple[LanguageConfig, StartOptions], name: str, *changes: str
) -> tuple[list[str], Any]:
    events: list[Any] = []
    config = read_config(ready[0].path, LANGUAGE, list(changes))
    party = set_up_language_party(config, name, ready[1], events.append)
    warnings = [each["text"] for each in events if each["event"] == "warning"]
    return [each for each in warnings if "model.length" in each], party


def test_a_client_warns_of_truncated_texts(
    ready: tuple[LanguageConfig, StartOptions],
) -> None:
    (warning,), party = set_up(ready, "client-0", SHORT)
    rows = [*party.dataset.rows, *party.dataset.test, *party.dataset.validation]
    cut = [each.cut for each in rows if each.cut]
    assert warning == (
        f"{len(cut)} of {len(rows)} texts are longer than model.length = 24: "
        f"{sum(cut)} tokens are neither trained on nor measured"
    )
    assert cut
    assert not set_up(ready, "client-0")[0], "all of them fit into 64"


def test_a_simulation_warns_once_for_all_clients(
    ready: tuple[LanguageConfig, StartOptions],
) -> None:
    (warning,), _ = set_up(ready, "server", SHORT)
    each = [set_up(ready, name, SHORT)[0][0] for name in ready[0].agreement.spokes]
    rows = sum(int(one.split()[0]) for one in each)
    assert warning.startswith(f"{rows} of {len(facts())} texts are longer")
    assert not set_up(ready, "server")[0]
