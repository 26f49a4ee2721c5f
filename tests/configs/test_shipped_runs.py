"""Shipped runs: every shipped config has a name, and every name has one config."""

from pathlib import Path

import pytest

from configs.errors import ConfigError
from configs.shipped import FOLDERS, find_config, shipped_runs

CONFIGS = Path(__file__).parents[2] / "configs"


def test_every_shipped_config_has_one_name_and_a_summary() -> None:
    runs = shipped_runs()
    files = [path for folder in FOLDERS for path in (CONFIGS / folder).glob("*.toml")]
    assert sorted(each.path for each in runs) == sorted(files)
    assert len({each.name for each in runs}) == len(runs)
    for each in runs:
        assert find_config(Path(each.name)) == each.path
        assert 20 < len(each.summary) < 250, each
        assert "\n" not in each.summary


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("digits", "vertical/digits.toml"),
        ("vertical/digits", "vertical/digits.toml"),
        ("horizontal/digits", "horizontal/digits.toml"),
        ("tofu", "llm/tofu.toml"),
        ("horizontal/mnist", "horizontal/mnist.toml"),
    ],
)
def test_short_and_full_names_are_found(name: str, file: str) -> None:
    assert find_config(Path(name)) == CONFIGS / file


def test_runs_that_need_files_are_marked() -> None:
    marked = {each.name: each.needs_data for each in shipped_runs()}
    assert not marked["digits"]
    assert not marked["horizontal/digits"]
    assert marked["income"]
    assert marked["tofu"]


def test_file_is_preferred_to_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").write_text("")
    assert find_config(Path("digits")) == Path("digits")
    assert find_config(Path("none.toml")) == Path("none.toml")  # its reader reports that it is gone


@pytest.mark.parametrize("name", ["digit", "bench/fedora", "vertical", "../vertical/digits"])
def test_unknown_name_is_refused_with_a_hint(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="neither a file nor the name of a shipped run") as error:
        find_config(Path(name))
    assert "vfl runs" in error.value.hint
