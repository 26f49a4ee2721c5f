"""Commands that ask: requests to forget or to correct rows, and to accept forgotten IDs again."""

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from parties.cli.commands.unlearn.options import KeyOption, UnlearnRun
from parties.cli.options import (
    CertificatesOption,
    ConfigArgument,
    DataOption,
    DebugOption,
    Format,
    FormatOption,
    MasterKeyOption,
    OutOption,
    PartyOption,
    SetOption,
)


class ListEncoding(StrEnum):
    """Encoding of a list of IDs."""

    UTF8 = "utf-8"
    CP1252 = "cp1252"


class RequesterOf(StrEnum):
    """Who asked for the deletion."""

    SUBJECT = "subject"
    REPRESENTATIVE = "representative"
    CONTROLLER = "controller"
    COURT = "court"


IdsOption = Annotated[
    Path | None,
    typer.Option(
        help="Forget the rows with the IDs in this file: a CSV file with or without a header, "
        "or one ID per line."
    ),
]

IdOption = Annotated[
    list[str] | None,
    typer.Option("--id", help="Forget the row with this ID; give the option for each ID."),
]

LabelOption = Annotated[str | None, typer.Option(help="Forget the rows of this class.")]

EverythingOption = Annotated[
    bool, typer.Option("--everything", help="At a client of a server: forget all its rows.")
]

RowsOption = Annotated[
    Path | None,
    typer.Option(
        help="At a client whose rows have no IDs: forget the rows with the numbers in this file, "
        "one per line."
    ),
]

TextsOption = Annotated[
    Path | None,
    typer.Option(
        help="At a client of the LLM mode: forget the texts in this file, one per line, by number "
        "or content hash (vfl language hashes)."
    ),
]

FractionOption = Annotated[
    float,
    typer.Option(min=1e-9, max=1, help="With --label or --everything: fraction of the rows."),
]

SeedOption = Annotated[
    int, typer.Option(min=0, help="With --label or --everything: seed for sampling the fraction.")
]

EncodingOption = Annotated[ListEncoding, typer.Option(help="Encoding of the file with the IDs.")]

GroundOption = Annotated[
    str,
    typer.Option(
        help="Why: gdpr-17-1-a to gdpr-17-1-f (the points of Article 17(1)), gdpr-16 (inaccurate "
        "data), contract, other-law or not-stated."
    ),
]

ReceivedOption = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%d"], help="Day on which the request was received. Default: today."
    ),
]

IdentityCheckOption = Annotated[
    str,
    typer.Option(
        help="How and by whom the identity of the requester was checked, as METHOD/NAME, "
        "without the name of the requester."
    ),
]

RequesterOption = Annotated[
    str, typer.Option(help="Office that makes the request, which all parties see; no data subject.")
]

ListIdsOption = Annotated[
    bool, typer.Option("--list-ids", help="Print each ID of the list, and what was found.")
]

RequestedByOption = Annotated[
    RequesterOf, typer.Option("--for", help="Who asked for the deletion.")
]


def unlearn_request_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    ids: IdsOption = None,
    identity: IdOption = None,
    label: LabelOption = None,
    everything: EverythingOption = False,
    rows: RowsOption = None,
    texts: TextsOption = None,
    fraction: FractionOption = 1.0,
    seed: SeedOption = 0,
    encoding: EncodingOption = ListEncoding.UTF8,
    ground: GroundOption = "not-stated",
    received: ReceivedOption = None,
    identity_check: IdentityCheckOption = "",
    requester: RequesterOption = "",
    requested_by: RequestedByOption = RequesterOf.CONTROLLER,
    list_ids: ListIdsOption = False,
    key: KeyOption = None,
    data: DataOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Request that the kept model forgets rows, and print the ID of the request.

    Unknown IDs are counted. Other parties receive row numbers, no ID. The same list is one request.
    In a run with a server, a client requests that all its rows, those of a class, or those of a
    list are forgotten; the other parties receive the number of rows of a list, no row. The server
    requests a class at all clients.

    Exit codes: 2 usage, 3 config, 4 data, 5 identity, 7 storage, 8 policy, 9 integrity.
    """
    from parties.cli.requests.asking import Asked, make_request

    asked = Asked(
        ids=ids, identities=tuple(identity or ()), label=label, everything=everything,
        fraction=_decimal(fraction), seed=seed, encoding=encoding.value, ground=ground,
        received=received, identity_check=identity_check, requester=requester,
        requested_by=requested_by.value, key=key, lists_ids=list_ids, rows=rows, texts=texts,
    )  # fmt: skip
    run = UnlearnRun(
        config, party, out, certificates, master_key, changes or [], output, debug, data
    )
    run.console.run(lambda: make_request(run.place, asked, run.console))


def unlearn_correct_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    labels: Annotated[
        Path,
        typer.Option(
            help="CSV file with an ID and its right label on each line. The header names the "
            "columns as the party's data does; without a header, the label is the last column."
        ),
    ],
    encoding: EncodingOption = ListEncoding.UTF8,
    ground: GroundOption = "gdpr-16",
    received: ReceivedOption = None,
    identity_check: IdentityCheckOption = "",
    requester: RequesterOption = "",
    requested_by: RequestedByOption = RequesterOf.CONTROLLER,
    list_ids: ListIdsOption = False,
    key: KeyOption = None,
    data: DataOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Request that the kept model unlearns wrong labels and learns the right ones.

    Only the active party has labels. The rows stay in the model; until the request is carried out,
    no prediction uses them. The other parties receive row numbers, and neither IDs nor labels.

    Exit codes: 2 usage, 3 config, 4 data, 5 identity, 7 storage, 8 policy, 9 integrity.
    """
    from parties.cli.requests.asking import Asked, make_correction

    asked = Asked(
        ids=None, identities=(), label=None, fraction="1", seed=0, encoding=encoding.value,
        ground=ground, received=received, identity_check=identity_check, requester=requester,
        requested_by=requested_by.value, key=key, lists_ids=list_ids,
    )  # fmt: skip
    run = UnlearnRun(
        config, party, out, certificates, master_key, changes or [], output, debug, data
    )
    run.console.run(lambda: make_correction(run.place, labels, asked, run.console))


def unlearn_readmit_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    identity: Annotated[
        list[str], typer.Option("--id", help="Accept this ID again; give the option for each ID.")
    ],
    reason: Annotated[str, typer.Option(help="Reason, which all parties see.")],
    key: KeyOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Accept forgotten IDs again in a later training, with a new legal ground."""
    from parties.cli.requests.deciding import readmit

    run = UnlearnRun(config, party, out, certificates, master_key, changes or [], output, debug)
    run.console.run(lambda: readmit(run.place, identity, reason, key, run.console))


def _decimal(fraction: float) -> str:
    """Return a fraction as the text that events contain: at most nine decimals."""
    return f"{fraction:.9f}".rstrip("0").rstrip(".")
