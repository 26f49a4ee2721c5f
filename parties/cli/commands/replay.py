"""``vfl replay`` and ``vfl compare``: carry out a request again, to check it or to measure it."""

from pathlib import Path
from typing import Annotated

import typer

from parties.cli.console import Console
from parties.cli.options import (
    CertificatesOption,
    ConfigArgument,
    DataOption,
    DebugOption,
    Format,
    FormatOption,
    HubOption,
    MasterKeyOption,
    OutOption,
    PartyOption,
    SetOption,
)

ReceiptArgument = Annotated[
    str, typer.Argument(help="ID of the request, or the file of its receipt (.json).")
]


def replay_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    receipt: ReceiptArgument,
    party: PartyOption,
    hub: HubOption = None,
    data: DataOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Carry out a request again with the other parties, and compare the models with its receipt.

    Stop `vfl serve`, and run this command at every party. Nothing is stored or
    erased. A replay starts from the version before the request, which is kept
    if the agreement has `requests.replay_days`. The methods retrain-paired,
    retrain-local and short-retrain can also be replayed later, as long as the
    version that they made is kept.

    Exit codes: 0 all models are equal, 3 config, 4 data, 5 identity, 6 peer,
    7 storage, 8 policy, 9 a model differs.
    """
    from parties.cli.replay_actions import replay_request
    from parties.cli.requests.place import Place

    console = Console(party, json_lines=output is Format.JSON, debug=debug)
    place = Place(config, party, out, certificates, master_key, changes or [], data)
    console.run(lambda: replay_request(place, receipt, hub, console))


def compare_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    receipt: ReceiptArgument,
    party: PartyOption,
    hub: HubOption = None,
    data: DataOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Compare the model after a request with models that never used its rows (Retrains).

    The request is carried out again, as `vfl replay` does; then the Retrains
    and the methods in `unlearning.compare` are trained, and the active party
    writes a report. Stop `vfl serve`, and run this command at every party. It
    needs the version before the request: agree on `requests.replay_days`. With
    `requests.audit = "full"`, each request is compared when it is carried out.

    Exit codes: 0 compared, 3 config, 4 data, 5 identity, 6 peer, 7 storage,
    8 policy, 9 a model differs from the one that the receipt states.
    """
    from parties.cli.replay_actions import replay_request
    from parties.cli.requests.place import Place

    console = Console(party, json_lines=output is Format.JSON, debug=debug)
    place = Place(config, party, out, certificates, master_key, changes or [], data)
    console.run(lambda: replay_request(place, receipt, hub, console, compares=True))
