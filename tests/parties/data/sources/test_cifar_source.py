"""Tests of CIFAR's batches, binary and pickled; no code in a pickle is run."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from python2 import array, batch, integer, integers, string, strings
from reading import held, refusal

from parties.data.holding import read_holding
from parties.data.sources.cifar_pickle import read_pickle
from parties.data.sources.cifar_source import CifarData
from parties.data.sources.images import ImagePart
from parties.data.sources.medmnist_source import MedMnistData
from parties.data.sources.source import IdColumns
from tests.data_folder import needed

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 3072), np.uint8)
LABELS = [6, 9, 0]
NAMES = [b"leptodactylus_s_4.png", b"camion_s_148.png", b"plane_s_1.png"]


def binary(labels: list[int], coarse: int | None = None) -> bytes:
    before = b"" if coarse is None else bytes([coarse])
    return b"".join(
        before + bytes([label]) + pixels.tobytes()
        for label, pixels in zip(labels, PIXELS, strict=True)
    )


def pickled(key: str = "labels", **changes: bytes) -> bytes:
    parts = {
        "batch_label": string(b"training batch 1 of 5"),
        key: integers(LABELS),
        "data": array(PIXELS),
        "filenames": strings(NAMES),
    }
    return batch(**parts | changes)


def cifar(folder: Path, content: bytes, **options: Any) -> CifarData:
    (folder / "data_batch_1.bin").write_bytes(content)
    given: dict[str, Any] = {"name": "cifar10", "train": (Path("data_batch_1.bin"),)}
    return CifarData(kind="cifar", **given | options)


@pytest.mark.parametrize("content", [binary(LABELS), pickled()], ids=["binary", "pickled"])
def test_batch_of_cifar10(tmp_path: Path, content: bytes) -> None:
    holding = held(tmp_path, cifar(tmp_path, content, label=True), active=True)
    assert list(holding.ids) == [b"data_batch_1:0", b"data_batch_1:1", b"data_batch_1:2"]
    assert holding.labels is not None
    assert holding.images is not None
    assert holding.labels.tolist() == LABELS
    expected = PIXELS.reshape(3, 3, 32, 32).astype("f4") / 255
    np.testing.assert_equal(holding.images, expected)


@pytest.mark.parametrize("content", [binary(LABELS, coarse=19), pickled("fine_labels")])
def test_fine_labels_of_cifar100(tmp_path: Path, content: bytes) -> None:
    holding = held(tmp_path, cifar(tmp_path, content, name="cifar100", label=True), active=True)
    assert holding.labels is not None
    assert holding.labels.tolist() == LABELS


def test_several_batches_and_a_test_batch(tmp_path: Path) -> None:
    for name in ("data_batch_2.bin", "test_batch.bin"):
        (tmp_path / name).write_bytes(binary(LABELS)[: 2 * 3073])
    data = cifar(
        tmp_path, binary(LABELS), part=ImagePart(columns=(16, 32)), test=Path("test_batch.bin"),
        train=(Path("data_batch_1.bin"), Path("data_batch_2.bin")),
    )  # fmt: skip
    holding = held(tmp_path, data)
    assert holding.in_test.tolist() == [False] * 5 + [True] * 2
    assert list(holding.ids)[3:6] == [b"data_batch_2:0", b"data_batch_2:1", b"test_batch:0"]
    assert holding.images is not None
    assert holding.images.shape == (7, 3, 32, 16)


def test_both_forms_name_rows_alike(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").write_bytes(pickled())
    left = held(tmp_path, cifar(tmp_path, binary(LABELS)))
    right = held(tmp_path, cifar(tmp_path, binary(LABELS), train=(Path("data_batch_1"),)))
    assert list(left.ids) == list(right.ids)
    np.testing.assert_equal(left.images, right.images)


def test_array_by_columns_is_read_alike() -> None:
    pixels = read_pickle("x", pickled(data=array(PIXELS, by_column=True)))["data"]
    np.testing.assert_equal(pixels, PIXELS)


def test_restricted_reader_equals_pickle_loads() -> None:
    """The words that the tests write are a legal pickle, which Python loads alike."""
    loaded = pickle.loads(pickled(), encoding="latin-1")
    parsed = read_pickle("x", pickled())
    assert loaded.keys() == parsed.keys()
    np.testing.assert_equal(loaded["data"], parsed["data"])
    assert {k: v for k, v in loaded.items() if k != "data"} == {
        k: v for k, v in parsed.items() if k != "data"
    }


class Hostile:
    """Runs a program when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(6))
def test_malicious_pickle_is_refused_and_not_executed(tmp_path: Path, protocol: int) -> None:
    executed = tmp_path / "struck"
    content = pickle.dumps({"data": Hostile(executed), "labels": [1]}, protocol)
    error = refusal(tmp_path, cifar(tmp_path, b"\x80\x02" + content, label=True), True)
    assert "which does not occur in CIFAR" in error or "is not a pickled CIFAR batch" in error
    assert not executed.exists()


def test_name_of_a_function_in_a_pickle_is_refused_by_name(tmp_path: Path) -> None:
    executed = tmp_path / "struck"
    content = pickle.dumps(Hostile(executed), 2)
    error = refusal(tmp_path, cifar(tmp_path, content))
    assert (
        "data_batch_1.bin names the function 'posix.system', which does not occur in CIFAR" in error
    )
    assert "do not load this file with another program" in error
    assert not executed.exists()


@pytest.mark.parametrize(
    "name",
    [b"builtins\neval", b"numpy\nload", b"numpy.core.multiarray\nscalar", b"numpy\nndarray.tofile"],
)
def test_other_names_in_a_pickle_are_refused(tmp_path: Path, name: bytes) -> None:
    content = pickled(data=b"c" + name + b"\n" + string(b"x") + b"\x85R")
    error = refusal(tmp_path, cifar(tmp_path, content))
    assert f"names the function '{name.decode().replace(chr(10), '.')}'" in error


@pytest.mark.parametrize(
    "word", [b"Pwho\n", b"\x82\x01", b"i__main__\nx\n", b"X\x01\x00\x00\x00x", b"B\x00\x00\x00\x00"]
)
def test_opcodes_that_no_batch_has_are_refused(tmp_path: Path, word: bytes) -> None:
    error = refusal(tmp_path, cifar(tmp_path, pickled(extra=word)))
    assert "which does not occur in CIFAR" in error


@pytest.mark.parametrize(
    "part",
    [
        b"K\x01)R",  # a call of a number
        b"cnumpy\nndarray\nK\x01R",  # arguments that are no tuple
        b"]K\x01b",  # a state for a list
        b"h\x63",  # memory that holds nothing
        b"K\x01K\x02a",  # an item for a number
        array(PIXELS, kind=b"f8"),
        array(PIXELS, kind=b"O8"),
        array(PIXELS.reshape(3, 3, 1024)),
        array(PIXELS).replace(integer(3072), integer(3071)),
    ],
)
def test_pickle_with_another_structure_is_refused(tmp_path: Path, part: bytes) -> None:
    error = refusal(tmp_path, cifar(tmp_path, pickled(data=part)))
    assert "is not a pickled CIFAR batch" in error


@pytest.mark.parametrize("cut", [1, 30, 4000, len(pickled()) - 3])
def test_truncated_pickle_is_refused(tmp_path: Path, cut: int) -> None:
    error = refusal(tmp_path, cifar(tmp_path, pickled()[:-cut]))
    assert "is not a pickled CIFAR batch" in error


def test_pickle_above_the_limit_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parties.data.sources.cifar_pickle.LARGEST", 1000)
    assert "has more than 0 MiB" in refusal(tmp_path, cifar(tmp_path, pickled()))


def test_pickle_of_the_other_cifar_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, cifar(tmp_path, pickled("fine_labels")))
    assert "has no array 'data' or no list 'labels' | choose a batch of cifar10" in error


@pytest.mark.parametrize("labels", [integers([6, 9]), integers([]), strings([b"6", b"9", b"0"])])
def test_pickled_labels_that_do_not_fit_are_refused(tmp_path: Path, labels: bytes) -> None:
    error = refusal(tmp_path, cifar(tmp_path, pickled(labels=labels)))
    assert "labels" in error


@pytest.mark.parametrize("content", [b"", binary(LABELS)[:-1], binary(LABELS, coarse=1)])
def test_binary_file_without_whole_records_is_refused(tmp_path: Path, content: bytes) -> None:
    error = refusal(tmp_path, cifar(tmp_path, content))
    assert "expected cifar10 records of 3073 bytes" in error


def test_unknown_label_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, cifar(tmp_path, binary([6, 10, 0]), label=True), True)
    assert "an unknown label in 1 row of data_batch_1.bin (1)" in error


def test_label_that_is_no_class_is_named_by_its_own_batch(tmp_path: Path) -> None:
    (tmp_path / "data_batch_2.bin").write_bytes(binary([1, 2, 99]))
    (tmp_path / "test_batch.bin").write_bytes(binary([99, 2, 3]))
    files = (Path("data_batch_1.bin"), Path("data_batch_2.bin"))
    data = cifar(tmp_path, binary(LABELS), label=True, train=files, test=Path("test_batch.bin"))
    assert "1 row of data_batch_2.bin (2)" in refusal(tmp_path, data, True)
    (tmp_path / "data_batch_2.bin").write_bytes(binary([1, 2, 3]))
    assert "1 row of test_batch.bin (0)" in refusal(tmp_path, data, True)


def test_two_batches_of_one_name_are_refused(tmp_path: Path) -> None:
    data = cifar(tmp_path, binary(LABELS), test=Path("other/data_batch_1.bin"))
    assert "two batches have the same name" in refusal(tmp_path, data)


def test_part_outside_the_images_is_refused(tmp_path: Path) -> None:
    data = cifar(tmp_path, binary(LABELS), part=ImagePart(columns=(16, 33)))
    assert "is outside the images of data_batch_1.bin" in refusal(tmp_path, data)


def test_id_columns_are_refused(tmp_path: Path) -> None:
    data = cifar(tmp_path, binary(LABELS), id=IdColumns(columns=("id",)))
    assert "no ID columns" in refusal(tmp_path, data)


def test_settings_without_features_and_labels_are_refused(tmp_path: Path) -> None:
    data = cifar(tmp_path, binary(LABELS), features=False)
    assert "neither images nor labels" in refusal(tmp_path, data)


def test_real_records_equal_the_archive() -> None:
    """2,000 of the original test images, once in records and once in an archive."""
    test = CifarData(
        kind="cifar", name="cifar10", label=True,
        train=(Path("cifar10-subset/cifar-10-batches-bin/test_batch.bin"),),
    )  # fmt: skip
    archive = MedMnistData(
        kind="medmnist", path=Path("cifar10-subset/cifar10_subset_10000_2000.npz"), label=True,
        train=("test",), test=None, names=("x_{}", "y_{}"),
    )  # fmt: skip
    folder, classes = needed(test, archive), tuple("0123456789")
    one, other = (
        read_holding(data, folder=folder, classes=classes, active=True) for data in (test, archive)
    )
    np.testing.assert_equal(one.images, other.images)
    np.testing.assert_equal(one.labels, other.labels)
