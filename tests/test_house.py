"""The structure of the product: imports, packages, names, docstrings, and code that is forbidden.

Every rule is measured by ``tests/structure`` and has planted breaches, which must be found by name.
"""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from textwrap import dedent

import pytest
from structure.docstrings import (
    gives_shape,
    is_reference,
    references,
    without_raises,
    without_shapes,
)
from structure.duplicates import (
    MOST_DUPLICATES,
    REASONS,
    duplicates,
    unlisted_duplicates,
    unused_reasons,
)
from structure.forbidden import (
    MAY_USE_ENVIRONMENT,
    UNSAFE_MODULES,
    environment_use,
    long_functions,
    unsafe_loading,
    without_module_docstring,
)
from structure.imports import (
    LAYERS,
    LONGEST_CHAIN,
    MOST_LAYERS,
    circles,
    core_breaches,
    large_folders,
    layer_breaches,
    layers,
    library_breaches,
    longest_chain,
    loose_files,
    order_breaches,
    unknown_packages,
)
from structure.model_digests import tensors_digest
from structure.repeats import line_count, repeats
from structure.rows import mode_kill_rows
from structure.source import FRONT, PRODUCT, ROOT, Culprit, Source, read_source

Plant = Callable[..., Source]


@pytest.fixture(scope="module")
def everything() -> Source:
    """All source files of the product and of the tests."""
    return read_source(folders=(*PRODUCT, "tests"))


@pytest.fixture(scope="module")
def product(everything: Source) -> Source:
    """All source files of the product."""
    files = everything.trees.items()
    return Source({path: tree for path, tree in files if not path.startswith("tests/")})


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Writes a small product, as texts by path, and reads it."""

    def write(files: dict[str, str]) -> Source:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
        return read_source(tmp_path)

    return write


def expect_none(culprits: Iterable[Culprit]) -> None:
    """Fail with a line for each place that breaks a rule."""
    if lines := [str(each) for each in culprits]:
        pytest.fail("\n".join([*lines, f"{len(lines)} in all"]), pytrace=False)


# --- rule 1: core packages ------------------------------------------------------------------------


def test_core_packages_import_only_themselves_and_libraries(product: Source) -> None:
    expect_none(core_breaches(product))


def test_receipts_and_intersection_import_no_large_library(product: Source) -> None:
    expect_none(library_breaches(product))


def test_folders_are_the_product() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == set(PRODUCT)
    assert [path.name for path in ROOT.glob("*.py")] == [FRONT]
    assert not packages & sys.stdlib_module_names


@pytest.mark.parametrize(
    ("package", "line", "reason"),
    [
        ("psi", "from protocol.channel import Channel", "1 psi.x: psi may not import protocol"),
        ("models", "import parties", "1 models.x: models may not import parties"),
        (
            "protocol",
            "import numpy, configs.table",
            "1 protocol.x: protocol may not import config",
        ),
        (
            "unlearning",
            "def f():\n    import models",
            "2 unlearning.x: unlearning may not import m",
        ),
        ("configs", "import tests", "1 configs.x: configs may not import tests"),
        ("parties", "from tests import conftest", "1 parties.x: parties may not import tests"),
    ],
)
def test_planted_core_import_is_found(plant: Plant, package: str, line: str, reason: str) -> None:
    (breach,) = core_breaches(plant({f"{package}/x.py": line}))
    assert str(breach).startswith(f"{package}/x.py:{reason}")


@pytest.mark.parametrize("line", ["import psi", "from psi.ids import hashed", "import torch"])
def test_own_imports_and_libraries_are_allowed(plant: Plant, line: str) -> None:
    assert core_breaches(plant({"psi/x.py": line})) == []


def test_planted_torch_is_found_behind_an_import(plant: Plant) -> None:
    files = {
        "unlearning/receipts/check.py": "from unlearning.digest import digest",
        "unlearning/digest.py": "import torch\ndef digest(): ...",
        "unlearning/other.py": "import torch",
    }
    (breach,) = library_breaches(plant(files))
    assert str(breach).startswith("unlearning/digest.py:1 unlearning.digest: unlearning/receipts/")


@pytest.mark.parametrize("library", ["torch", "pandas"])
def test_planted_library_is_found_behind_the_intersection(plant: Plant, library: str) -> None:
    files = {
        "parties/vertical/alignment/align.py": "from parties.vertical.engine.party import Party",
        "parties/vertical/engine/party.py": f"import {library}.nn\nclass Party: ...",
        "parties/vertical/engine/networks.py": "import torch",
    }
    (breach,) = library_breaches(plant(files))
    reason = f"parties/vertical/alignment/ may not depend on {library}"
    assert reason in str(breach)


# --- rule 2: layers of parties --------------------------------------------------------------------


def test_packages_of_parties_import_lower_layers_only(product: Source) -> None:
    expect_none(layer_breaches(product))


def test_packages_of_parties_stand_on_few_layers(product: Source) -> None:
    expect_none(unknown_packages(product))
    assert layers(product) <= MOST_LAYERS
    assert len(LAYERS) <= MOST_LAYERS


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("from parties.cli.console import Console", "1 parties.data.x: data imports {}: up (top)"),
        ("import parties.report.page", "1 parties.data.x: data imports {}: sideways (top)"),
        (
            "def f():\n    from parties.cli import console",
            "2 parties.data.x: data imports {}: up (lazy)",
        ),
        (
            "if TYPE_CHECKING:\n    from parties.report import page",
            "2 parties.data.x: data imports {}: sideways (typing)",
        ),
    ],
)
def test_planted_import_between_layers_is_found(plant: Plant, line: str, reason: str) -> None:
    files = {"parties/data/x.py": line, "parties/cli/console.py": "", "parties/report/page.py": ""}
    module = "parties.cli.console" if "cli" in line else "parties.report.page"
    breaches = [str(each) for each in layer_breaches(plant(files))]
    assert breaches == [f"parties/data/x.py:{reason.format(module)}"]


def test_import_of_a_lower_layer_is_allowed(plant: Plant) -> None:
    files = {"parties/cli/x.py": "from parties.data import y", "parties/data/y.py": ""}
    assert layer_breaches(plant(files)) == []


def test_planted_package_on_no_layer_is_found(plant: Plant) -> None:
    source = plant({"parties/utils/x.py": "", "parties/cli/y.py": ""})
    assert [str(each) for each in unknown_packages(source)] == [
        "parties/utils/__init__.py:1 utils: package on no layer"
    ]
    assert layers(source) == 2


# --- rule 3: no loose file, no folder with more files than a dozen --------------------------------


def test_parties_has_no_loose_file(product: Source) -> None:
    expect_none(loose_files(product))


def test_folders_hold_at_most_a_dozen_files(product: Source) -> None:
    expect_none(large_folders(product))


def test_planted_loose_file_is_found(plant: Plant) -> None:
    source = plant({"parties/__main__.py": "", "parties/x.py": "", "parties/cli/y.py": ""})
    assert [str(each) for each in loose_files(source)] == [
        "parties/x.py:1 parties.x: loose file in parties/"
    ]


def test_planted_large_folder_is_found(plant: Plant) -> None:
    files = {f"parties/data/f{number}.py": "" for number in range(13)}
    registry = {f"parties/data/sources/f{number}.py": "" for number in range(13)}
    (breach,) = large_folders(plant(files | registry | {"parties/data/__init__.py": ""}))
    assert str(breach) == "parties/data:1 data: 13 files, at most 12"


# --- rule 4: order inside a mode's package --------------------------------------------------------


def test_modes_keep_their_order(product: Source) -> None:
    expect_none(order_breaches(product))


@pytest.mark.parametrize(
    ("path", "module", "reason"),
    [
        ("vertical/engine/x.py", "vertical.methods.y", "the engine may not import methods"),
        ("vertical/privacy/x.py", "vertical.active", "the engine may not import the role programs"),
        ("horizontal/methods/x.py", "horizontal.evaluation.y", "methods may not import evaluation"),
        (
            "horizontal/evaluation/x.py",
            "horizontal.simulation.y",
            "evaluation may not import the role programs",
        ),
    ],
)
def test_planted_import_against_the_order_is_found(
    plant: Plant, path: str, module: str, reason: str
) -> None:
    other = f"parties/{module.replace('.', '/')}.py"
    (breach,) = order_breaches(
        plant({f"parties/{path}": f"import parties.{module}", other: f"import parties.{module}"})
    )
    here = f"parties.{path.removesuffix('.py').replace('/', '.')}"
    assert str(breach) == f"parties/{path}:1 {here}: {reason} (parties.{module}) (top)"


# --- rule 5: one name, one module -----------------------------------------------------------------


def test_public_names_are_defined_once(product: Source) -> None:
    expect_none(unlisted_duplicates(product))


def test_exceptions_for_names_are_few_and_used(product: Source) -> None:
    assert len(duplicates(product)) <= MOST_DUPLICATES
    assert len(REASONS) <= MOST_DUPLICATES
    assert unused_reasons(product) == []


def test_planted_duplicate_name_is_found(plant: Plant) -> None:
    files = {
        "psi/x.py": "class Line: ...\ndef _private(): ...",
        "models/y.py": "def Line(): ...\ndef _private(): ...",
    }
    assert [str(each) for each in unlisted_duplicates(plant(files))] == [
        "models/y.py:1 Line: also in psi/x.py",
        "psi/x.py:1 Line: also in models/y.py",
    ]


# --- chains of imports ----------------------------------------------------------------------------


def test_chains_of_imports_are_short(product: Source) -> None:
    chain = longest_chain(product)
    if len(chain) > LONGEST_CHAIN:
        pytest.fail("\n".join([*chain, f"{len(chain)} files"]), pytrace=False)


def test_no_circle_of_imports(product: Source) -> None:
    assert circles(product) == []


def test_planted_chain_and_circle_are_found(plant: Plant) -> None:
    files = {
        "psi/a.py": "from psi import b, c",
        "psi/b.py": "import psi.c",
        "psi/c.py": "def f():\n    import psi.d",
        "psi/d.py": "",
    }
    assert longest_chain(plant(files)) == ["psi/a.py", "psi/b.py", "psi/c.py"]
    files["psi/c.py"] = "from psi import a"
    assert circles(plant(files)) == [["psi/a.py", "psi/b.py", "psi/c.py", "psi/a.py"]]


# --- repeated code --------------------------------------------------------------------------------


def test_planted_repeat_is_found(tmp_path: Path) -> None:
    pytest.importorskip("pylint")
    body = "".join(f"    print({number})\n" for number in range(6))
    (tmp_path / "a.py").write_text(f"import os\n\n\ndef f():\n{body}")
    (tmp_path / "b.py").write_text(f"def g():\n    return\n\n\ndef h():\n{body}")
    (tmp_path / "c.py").write_text(f"def i():\n{body.replace('5', '7')}")
    assert repeats(tmp_path, ["a.py", "b.py", "c.py"]) == [(6, ["a.py:5-10", "b.py:6-11"])]
    assert line_count(tmp_path.parent, [tmp_path.name]) == 28


# --- docstrings -----------------------------------------------------------------------------------


def test_docstrings_give_shapes(product: Source) -> None:
    expect_none(without_shapes(product))


def test_docstrings_name_raised_exceptions(product: Source) -> None:
    expect_none(without_raises(product))


def test_no_docstring_points_elsewhere(product: Source) -> None:
    expect_none(references(product))


def test_planted_missing_shape_is_found(plant: Plant) -> None:
    files = {
        "models/types.py": "Rows = NDArray[int]",
        "models/x.py": '''
            from models.types import Rows
            class Net:
                def forward(self, x: "torch.Tensor") -> int:
                    """Add."""
                def _own(self, x: Tensor): ...
            def take(rows: list[Rows]) -> Rows:
                """Take [0] of list[int]."""
            def good(rows: Rows):
                """Take rows [rows, width]."""
            def free(shape: TensorShape): ...
        ''',
    }
    assert [str(each) for each in without_shapes(plant(files))] == [
        "models/x.py:4 Net.forward: no shape for x",
        "models/x.py:7 take: no shape for rows, the result",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "The loss, a scalar.",
        "Tensors of any shape.",
        "Rows ``[rows, width]``.",
        "A vector [n].",
        "Images [batch, 3, height, width].",
        "Bits [rows, width // 8], packed.",
        "Logits [..., classes].",
        "Votes [clients + 1, 2 * width] or nothing.",
    ],
)
def test_shape_is_recognised(text: str) -> None:
    assert gives_shape(text)


@pytest.mark.parametrize(
    "text", ["In [0, 1].", "A list[int].", "The first, x[n].", "A note [see below].", "Shapes."]
)
def test_other_brackets_are_no_shape(text: str) -> None:
    assert not gives_shape(text)


def test_planted_missing_raises_is_found(plant: Plant) -> None:
    text = '''
        def open(path):
            """Open a file."""
            if path:
                raise errors.StorageError("x") from None
            raise broken(path)
        def broken(path) -> DataError:
            """An error."""
        def read():
            """Read.

            Raises:
                DataError: the file is damaged.
            """
            def inner():
                raise ValueError
            try:
                raise DataError
            except OSError as error:
                raise
            except KeyError as error:
                raise error
    '''
    assert [str(each) for each in without_raises(plant({"psi/x.py": text}))] == [
        "psi/x.py:2 open: raises DataError, StorageError"
    ]


def test_planted_reference_is_found(plant: Plant) -> None:
    text = '''
        """A module."""
        class A:
            """See ``B``."""
            def f(self):
                """ """
            def g(self):
                """Seed of the run."""
    '''
    assert [str(each) for each in references(plant({"psi/x.py": text}))] == [
        "psi/x.py:3 A: See ``B``.",
        "psi/x.py:5 f: empty docstring",
    ]


@pytest.mark.parametrize("text", ["As ``Line``.", "As in Protocol.", "As Line does.", "see B"])
def test_reference_is_recognised(text: str) -> None:
    assert is_reference(text)


@pytest.mark.parametrize("text", ["Seen rows.", "As bytes.", "As many rows as a batch has."])
def test_other_beginnings_are_no_reference(text: str) -> None:
    assert not is_reference(text)


# --- forbidden code -------------------------------------------------------------------------------


def test_nothing_can_execute_the_data_it_loads(product: Source) -> None:
    expect_none(unsafe_loading(product))


def test_environment_is_used_in_few_files(product: Source) -> None:
    expect_none(environment_use(product))
    assert product.trees.keys() >= MAY_USE_ENVIRONMENT


def test_functions_are_short(everything: Source) -> None:
    expect_none(long_functions(everything))


def test_every_file_has_a_docstring(everything: Source) -> None:
    expect_none(without_module_docstring(everything))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        *((f"import {module}", f"imports {module}") for module in sorted(UNSAFE_MODULES)),
        ("from pickle import loads", "imports pickle"),
        ("torch.load(path)", "calls torch.load"),
        ("torch.load(path, weights_only=True)", "calls torch.load"),
        ("from torch import load", "imports torch.load"),
        ("joblib.load(path)", "calls joblib.load"),
        ("np.load(path, allow_pickle=True)", "calls np.load"),
        ("np.load(path, allow_pickle=chosen)", "calls np.load"),
        ("yaml.load(text)", "calls yaml.load"),
        ("eval(text)", "calls eval"),
        ("exec(text)", "calls exec"),
        ("__import__(name)", "calls __import__"),
    ],
)
def test_planted_unsafe_loading_is_found(plant: Plant, line: str, reason: str) -> None:
    breaches = [str(each) for each in unsafe_loading(plant({"psi/x.py": line}))]
    assert breaches == [f"psi/x.py:1 psi.x: {reason}"]


@pytest.mark.parametrize(
    "line", ["np.load(path, allow_pickle=False)", "model.eval()", "json.load(file)"]
)
def test_safe_calls_are_allowed(plant: Plant, line: str) -> None:
    assert unsafe_loading(plant({"psi/x.py": line})) == []


@pytest.mark.parametrize(
    "line", ["os.environ['A'] = 'b'", "os.getenv('A')", "from os import environ"]
)
def test_planted_environment_is_found(plant: Plant, line: str) -> None:
    breaches = [str(each) for each in environment_use(plant({"psi/x.py": line}))]
    assert breaches == ["psi/x.py:1 psi.x: uses an environment variable"]


def test_planted_long_function_is_found(plant: Plant) -> None:
    text = "def long():\n" + "    pass\n" * 50
    assert [str(each) for each in long_functions(plant({"psi/x.py": text}))] == [
        "psi/x.py:1 long: 51 lines, at most 50"
    ]


def test_planted_file_without_docstring_is_found(plant: Plant) -> None:
    assert [str(each) for each in without_module_docstring(plant({"psi/x.py": "x = 1"}))] == [
        "psi/x.py:1 psi.x: no module docstring"
    ]


# --- digests of models ----------------------------------------------------------------------------


def test_digest_of_tensors_depends_on_names_types_shapes_and_bytes(tmp_path: Path) -> None:
    def digest(header: str, content: bytes) -> str:
        file = tmp_path / "model.safetensors"
        file.write_bytes(len(header).to_bytes(8, "little") + header.encode() + content)
        return tensors_digest(file)

    one = '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}'
    moved = '{"__metadata__":{},"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}'
    same = digest(one, b"xy")
    assert digest(moved, b"zxy") == same
    others = [one.replace('"a"', '"b"'), one.replace("U8", "I8"), one.replace("[2]", "[1,2]")]
    assert len({same, digest(one, b"xz"), *(digest(each, b"xy") for each in others)}) == 5


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({}, []),
        ({"repeated": {"hub": 1}}, ["methods killed"]),
        ({"repeated": {"hub": 1, "spoke": 2}}, ["most steps that one of 4 kills repeated"]),
        ({"equal": False}, ["methods whose results and models equal those without a kill"]),
    ],
)
def test_a_kill_that_costs_too_much_breaks_a_row(change: dict, broken: list[str]) -> None:
    good = {"method": "x", "steps": 6, "repeated": {"hub": 1, "spoke": 0}, "equal": True}
    found = {"equal_models": True, "methods": [good, good | change]}
    rows = list(mode_kill_rows("LLM", found))
    assert [row.name.partition("each method, ")[2] for row in rows if not row.ok] == broken
