"""The generated modules match the present vfl.proto."""

import subprocess
import sys
from pathlib import Path

import pytest

import protocol

ROOT = Path(protocol.__path__[0]).parent


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make proto` would write, by a process of its own as there.

    In ours the compiler's own protobuf and TenSEAL's would meet, which ends the process.
    """
    folder = tmp_path_factory.mktemp("generated")
    compiler = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}"]
    ways = [f"--python_out={folder}", f"--pyi_out={folder}"]
    subprocess.run([*compiler, *ways, str(ROOT / "protocol" / "vfl.proto")], check=True)
    return folder / "protocol"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vfl_pb2.py", "vfl_pb2.pyi"])
def test_generated_code_is_current(generated: Path, name: str) -> None:
    fresh, committed = (generated / name).read_text(), (ROOT / "protocol" / name).read_text()
    assert fresh == committed, "run `make proto`"
