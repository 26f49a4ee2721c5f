"""What a seat may say in the modes with a server: nothing that would be ignored."""

from pathlib import Path

import pytest

from configs.errors import ConfigError
from configs.federated_file import read_horizontal
from tests.configs.wards import WARDS

SEATS = """
[seats.client]
data = {{ kind = "sklearn", name = "digits" }}
{client}
[seats.server]
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
def test_what_the_horizontal_mode_does_not_know_is_refused(
    tmp_path: Path, who: str, setting: str
) -> None:
    path, lines = tmp_path / "wards.toml", {"client": "", "server": "", who: setting}
    path.write_text(WARDS + SEATS.format(**lines))
    with pytest.raises(ConfigError, match=rf"seats\.{who}\.{setting.split(maxsplit=1)[0]}"):
        read_horizontal(path)


def test_what_every_seat_has_is_read(tmp_path: Path) -> None:
    path = tmp_path / "wards.toml"
    path.write_text(WARDS + SEATS.format(client="threads = 2", server='listen = "localhost:1"'))
    found = read_horizontal(path)
    assert (found.seat("client-1").threads, found.seat("server").listen) == (2, "localhost:1")
