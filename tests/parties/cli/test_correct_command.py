"""``vfl unlearn correct``: lists of labels, every refusal, and the purge of a correction."""

import shutil
from pathlib import Path

import pytest
from kept_trio import KeptTrio, train_trio
from typer.testing import CliRunner
from unlearn_desk import Desk, known

from parties.cli.main import app
from parties.common.errors import DataError
from parties.data.id_lists import read_label_list

CLASSES = ("a", "b", "c")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    return train_trio(tmp_path_factory.mktemp("trained"), requests={"guard": 1.0})


@pytest.fixture
def desk(trained: KeptTrio, tmp_path: Path) -> Desk:
    shutil.copytree(trained.folder, tmp_path / "trio")
    return Desk(KeptTrio(tmp_path / "trio", trained.plan))


def labels_of(desk: Desk) -> dict[str, str]:
    """The labels in the active party's data, by ID."""
    lines = (desk.folder / "hub.csv").read_text().splitlines()[1:]
    return {line.split(",")[0]: line.split(",")[-1] for line in lines}


def corrections(desk: Desk, count: int) -> dict[str, str]:
    """Other labels than those in the data, for IDs that the model knows."""
    now = labels_of(desk)
    return {each: "abc"[("abc".index(now[each]) + 1) % 3] for each in known(desk, count, "hub")}


def write_list(desk: Desk, lines: list[str]) -> Path:
    path = desk.folder / "corrected.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_list_counts_every_row_and_prints_no_id(desk: Desk) -> None:
    wanted = corrections(desk, 3)
    same = next(each for each in known(desk, 9, "hub") if each not in wanted)
    lines = ["ID;age;Label", *(f"{each};3;{label}" for each, label in wanted.items())]
    lines += [f"{same};3;{labels_of(desk)[same]}", "nobody;3;a", ";3;a"]
    lines += [f"{each};3;{label}" for each, label in list(wanted.items())[:1]]
    result = desk.run("correct", "--labels", write_list(desk, lines), party="hub")
    assert result.exit_code == 0, result.output
    assert not any(each in result.output for each in wanted)
    found = desk.event("correct", "--labels", desk.folder / "corrected.csv", party="hub")
    assert found["found"] == {
        "aligned": 3, "not_common": 0, "not_held": 1, "forgotten": 0, "unchanged": 1,
        "unusable_lines": 1, "repeated": 1,
    }  # fmt: skip
    assert found["new"] is False  # the same list is one request
    view = desk.trio.view("hub", found["request"])
    assert (view.content.kind, view.content.ground) == ("correction", "gdpr-16")
    assert len(view.rows or ()) == 3


def test_another_label_for_the_same_row_is_another_request(desk: Desk) -> None:
    (identity,) = known(desk, 1, "hub")
    others = [each for each in CLASSES if each != labels_of(desk)[identity]]
    made = [
        desk.event("correct", "--labels", write_list(desk, [f"{identity},{each}"]), party="hub")
        for each in others
    ]
    assert made[0]["request"] != made[1]["request"]


def test_list_with_the_labels_of_the_model_makes_no_request(desk: Desk) -> None:
    lines = [f"{each},{labels_of(desk)[each]}" for each in known(desk, 2, "hub")]
    found = desk.event("correct", "--labels", write_list(desk, lines), party="hub")
    assert (found["request"], found["found"]["unchanged"]) == (None, 2)


def test_party_without_labels_and_unfit_method_are_refused(desk: Desk) -> None:
    path = write_list(desk, ["p1,a"])
    desk.refused(8, "left has no labels", "correct", "--labels", path)
    unlearning = desk.trio.plan["unlearning"] | {"method": "gradient-ascent"}
    desk.write(unlearning=unlearning)
    desk.refused(8, "cannot correct labels", "correct", "--labels", path, party="hub")


def test_purge_waits_until_the_data_is_corrected(desk: Desk) -> None:
    wanted = corrections(desk, 2)
    lines = [f"{each},{label}" for each, label in wanted.items()]
    made = desk.event("correct", "--labels", write_list(desk, lines), party="hub")
    desk.trio.carry_out()
    request, data = made["request"], ("--data", desk.folder)
    message = "still has 2 labels that the request"
    desk.refused(8, message, "purge", "--request", request, *data, party="hub")
    path = desk.folder / "hub.csv"
    rows = [line.split(",") for line in path.read_text().splitlines()]
    path.write_text(
        "\n".join(",".join([*row[:-1], wanted.get(row[0], row[-1])]) for row in rows) + "\n"
    )
    assert desk.event("purge", "--request", request, *data, party="hub")["request"] == request


def test_later_correction_of_the_same_rows_does_not_block_the_purge(desk: Desk) -> None:
    (identity,) = known(desk, 1, "hub")
    now = labels_of(desk)[identity]
    others = [each for each in CLASSES if each != now]
    made = []
    for label in others:
        path = write_list(desk, [f"{identity},{label}"])
        made.append(desk.event("correct", "--labels", path, party="hub")["request"])
        desk.trio.carry_out()
    path = desk.folder / "hub.csv"
    text = path.read_text()
    path.write_text(
        "".join(
            line.rsplit(",", 1)[0] + f",{others[1]}\n" if line.startswith(f"{identity},") else line
            for line in text.splitlines(keepends=True)
        )
    )
    for request in made:
        desk.event("purge", "--request", request, "--data", desk.folder, party="hub")


def test_audit_of_the_kept_models_expects_corrected_rows(desk: Desk) -> None:
    lines = [f"{each},{label}" for each, label in corrections(desk, 2).items()]
    desk.event("correct", "--labels", write_list(desk, lines), party="hub")
    desk.trio.carry_out()
    words = ["models", "audit", str(desk.folder / "trio.toml"), "--party", "hub"]
    words += ["--out", str(desk.folder / "runs"), "--data", str(desk.folder)]
    result = CliRunner().invoke(app, words, env={"VFL_MASTER_KEY_FILE": None})
    assert result.exit_code == 0, result.output


# --- lists ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p1,a\np2,z\n", "line 2 has a label that is no class"),
        ("p1,a\np1,b\n", "line 2 names another label than an earlier line"),
        ("p1\np2\n", "the first line has 1 columns, expected 2"),
        (",a\n", "contains no usable ID with a label"),
        ("", "is empty"),
    ],
)
def test_list_that_cannot_be_used_is_refused_without_an_id(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "list.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_label_list(path, ("id",), "label", CLASSES)
    assert "p1" not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    "text", ["id,label\np1,a\np2,b\n", "p1;a\np2;b\n", "\ufefflabel\tid\na\tp1\nb\tp2\n"]
)
def test_list_with_and_without_a_header(tmp_path: Path, text: str) -> None:
    path = tmp_path / "list.csv"
    path.write_text(text)
    found = read_label_list(path, ("id",), "label", CLASSES)
    assert (found.listed.texts, found.labels) == (("p1", "p2"), ("a", "b"))


def test_ids_of_several_columns(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text("first,born,label\nAda,1815,a\n")
    found = read_label_list(path, ("first", "born"), "label", CLASSES)
    assert (found.listed.texts, found.labels) == (("Ada\t1815",), ("a",))
