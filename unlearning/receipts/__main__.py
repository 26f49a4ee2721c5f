"""``vfl-verify``: checks a receipt on any machine, without the other programs of the product.

The program opens no connection and loads neither PyTorch nor gRPC.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from unlearning.receipts.commitment import SALT_BYTES
from unlearning.receipts.errors import ReceiptError
from unlearning.receipts.faults import ExitCode, Fault, FoundFault
from unlearning.receipts.keys import read_trust
from unlearning.receipts.receipt import MAX_RECEIPT_BYTES
from unlearning.receipts.verify import Evidence, SubjectEvidence, Verification, verify

MAX_BYTES = 256 << 20  # of a file beside the receipt
RESULTS = {
    ExitCode.VALID: "valid",
    ExitCode.INVALID: "invalid",
    ExitCode.MALFORMED: "malformed",
    ExitCode.INCOMPLETE: "incomplete",
    ExitCode.CHAIN_GAP: "superseded or chain gap",
}

app = typer.Typer(pretty_exceptions_enable=False)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"vfl-verify {version('vfl')}, receipts of version 1")
        raise typer.Exit


@app.command("vfl-verify", epilog="Example: vfl-verify receipt.json --keys trust.json")
def verify_command(  # noqa: PLR0913  a command has the options that it has
    *,
    receipt: Annotated[Path, typer.Argument(help="File of the receipt.")],
    keys: Annotated[Path, typer.Option(help="File with the public keys of all parties.")],
    subject: Annotated[
        list[str] | None,
        typer.Option(help="ID of a removed subject; repeat it for each further ID column."),
    ] = None,
    salt: Annotated[str, typer.Option(help="Salt of the subject, 64 hexadecimal digits.")] = "",
    proof: Annotated[Path | None, typer.Option(help="File with the subject's proof.")] = None,
    openings: Annotated[
        Path | None, typer.Option(help="File with all subjects of a request and their salts.")
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(help="Export of the journal of requests, one event a line.")
    ] = None,
    previous: Annotated[
        Path | None, typer.Option(help="File of the previous receipt of the federation.")
    ] = None,
    statement: Annotated[
        Path | None, typer.Option(help="Statement of a party that left (vfl leave).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=lambda value: _print_version(wanted=value),
            help="Print the version of vfl-verify, and exit.",
        ),
    ] = False,
) -> None:  # fmt: skip
    """Check a signed receipt of unlearning, offline.

    The exit code is 0 for a valid receipt, 1 for an invalid one, 2 for a malformed file or a wrong
    command line, 3 for a receipt without the signatures of all parties, and 4 for a superseded
    receipt or a gap in a chain.
    """
    del show_version
    try:
        shown = Evidence(
            subject=_subject(subject or [], salt, proof), openings=_read(openings),
            journal=_read(journal), previous=_read(previous), statement=_read(statement),
        )  # fmt: skip
        content = _required(receipt, MAX_RECEIPT_BYTES)
        result = verify(content, read_trust(_required(keys, MAX_BYTES)), shown)
    except ReceiptError as error:
        message = f"{error} (hint: {error.hint})" if error.hint else str(error)
        result = Verification(None, [FoundFault(Fault.BAD_EVIDENCE, message)], [])
    typer.echo(json.dumps(_as_json(result), indent=2) if as_json else _as_text(result))
    sys.exit(result.exit_code)


def _subject(columns: list[str], salt: str, proof: Path | None) -> SubjectEvidence | None:
    """The evidence of a subject; its three options are given together or not at all."""
    if not columns and not salt and proof is None:
        return None
    if not columns or not salt or proof is None:
        raise typer.BadParameter("--subject, --salt and --proof must be given together")
    try:
        decoded = bytes.fromhex(salt)
    except ValueError:
        decoded = b""
    if len(decoded) != SALT_BYTES:
        raise typer.BadParameter(f"--salt must be {2 * SALT_BYTES} hexadecimal digits")
    return SubjectEvidence(columns, decoded, _required(proof, MAX_BYTES))


def _read(path: Path | None) -> bytes | None:
    return None if path is None else _required(path, MAX_BYTES)


def _required(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise ReceiptError(f"cannot read {path}: {error.strerror}") from None
    if len(content) > most:
        raise ReceiptError(f"{path} has more than {most:,} bytes")
    return content


def _as_json(result: Verification) -> dict[str, object]:
    receipt = result.receipt
    return {
        "result": RESULTS[result.exit_code],
        "exit_code": int(result.exit_code),
        "receipt_id": receipt and receipt.receipt_id,
        "receipt_sha256": receipt and receipt.digest,
        "findings": [
            {"fault": each.fault.value, "message": each.message} for each in result.findings
        ],
        "confirmed": list(result.confirmed),
        "notes": list(result.notes),
        "limits": receipt and receipt.limits,
    }


def _as_text(result: Verification) -> str:
    receipt = result.receipt
    lines = [
        f"{RESULTS[result.exit_code]}:" + (f" receipt {receipt.receipt_id}" if receipt else "")
    ]
    lines += [f"  {each.fault.value}: {each.message}" for each in result.findings]
    lines += [f"  confirmed: {each}" for each in result.confirmed]
    lines += [f"  note: {each}" for each in result.notes]
    if receipt and not result.findings:
        lines += [receipt.limits, receipt.audit.cannot_say]
    return "\n".join(lines)


def verify_main() -> None:
    """Entry point of ``vfl-verify``."""
    app()


if __name__ == "__main__":
    verify_main()
