"""The generated classes are those of vfl.proto as it stands."""

from pathlib import Path

import pytest
from grpc_tools import protoc

import protocol

ROOT = Path(protocol.__path__[0]).parent


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make proto` would write."""
    folder = tmp_path_factory.mktemp("generated")
    made = protoc.main(
        [
            "protoc",
            f"-I{ROOT}",
            f"--python_out={folder}",
            f"--pyi_out={folder}",
            str(ROOT / "protocol" / "vfl.proto"),
        ]
    )
    assert made == 0
    return folder / "protocol"


@pytest.mark.parametrize("name", ["vfl_pb2.py", "vfl_pb2.pyi"])
def test_generated_code_is_current(generated: Path, name: str) -> None:
    fresh, committed = (generated / name).read_text(), (ROOT / "protocol" / name).read_text()
    assert fresh == committed, "run `make proto`"
