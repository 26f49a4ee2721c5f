"""Party settings in the modes with a server: a setting that would be ignored is refused."""

from pathlib import Path

import pytest

from configs.config_file import read_config
from configs.errors import ConfigError
from parties.horizontal.registry import SCHEMA as HORIZONTAL
from tests.configs.four_clients import WARDS

SETTINGS = """
[settings.client]
data = {{ kind = "sklearn", name = "digits" }}
{client}
[settings.server]
{server}
"""


@pytest.mark.parametrize("who", ["client", "server"])
@pytest.mark.parametrize(
    "setting",
    [
        'device = "cuda"',
        'statistics = "public.json"',
        'module = "wards.nets:Bottom"',
        'unlearn = { leaver = "ids.csv" }',
    ],
)
def test_unknown_settings_of_the_horizontal_mode_are_refused(
    tmp_path: Path, who: str, setting: str
) -> None:
    path, lines = tmp_path / "wards.toml", {"client": "", "server": "", who: setting}
    path.write_text(WARDS + SETTINGS.format(**lines))
    with pytest.raises(ConfigError, match=rf"settings\.{who}\.{setting.split(maxsplit=1)[0]}"):
        read_config(path, HORIZONTAL)


def test_settings_of_every_party_are_read(tmp_path: Path) -> None:
    path = tmp_path / "wards.toml"
    path.write_text(WARDS + SETTINGS.format(client="threads = 2", server='listen = "localhost:1"'))
    config = read_config(path, HORIZONTAL)
    assert (config.settings("client-1").threads, config.settings("server").listen) == (
        2,
        "localhost:1",
    )


def test_invalid_horizontal_agreement_is_reported_without_settings_of_unknown_roles(
    tmp_path: Path,
) -> None:
    path = tmp_path / "wards.toml"
    path.write_text(WARDS + SETTINGS.format(client="", server='listen = "localhost:1"'))
    with pytest.raises(ConfigError) as caught:
        read_config(path, HORIZONTAL, ["training.rounds=0"])
    problems = str(caught.value).splitlines()
    assert len(problems) == 1
    assert "training.rounds: " in problems[0]


def test_table_of_no_party_is_refused_with_the_parties(tmp_path: Path) -> None:
    path = tmp_path / "wards.toml"
    path.write_text(WARDS + SETTINGS.format(client="", server="") + "[settings.servr]\n")
    with pytest.raises(ConfigError, match=r"\[settings\.servr\]: no party has this name") as caught:
        read_config(path, HORIZONTAL, ["settings.servr.data={kind='sklearn', name='digits'}"])
    assert "the parties are server, client-0, client-1" in str(caught.value)
