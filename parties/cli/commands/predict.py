"""``vfl predict``: predicts with a trained model; each party runs the command in its own role."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    PartyOption,
    SetOption,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Event

    from configs.horizontal import HorizontalConfig
    from parties.common.progress import ProgressListener
    from parties.data.party_settings import VerticalConfig
    from parties.data.predictions import Predictions
    from parties.vertical.engine.party import VerticalParty
    from parties.vertical.prediction.setup import TrainedNetwork
    from parties.web.prediction_service import PredictionService
    from protocol.grpc_line import LineServer

LATENCY_INTERVAL = 10.0  # seconds between two lines with latencies


@dataclass(frozen=True, slots=True)
class _Run:
    """The options of ``vfl predict``."""

    config: Path
    party: str
    ids: Path | None
    out: Path | None
    http: str | None
    force: bool
    hub: str | None
    data: Path | None
    certificates: Path | None
    runs: Path
    master_key: Path | None
    changes: list[str]


def predict_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    ids: Annotated[
        Path | None,
        typer.Option(
            help="Predict the rows with the IDs in this file: a .csv with the party's ID columns, "
            "or one ID per line. Without --ids, predict all rows of the party's data."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write predictions to this .csv or .parquet file.")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(help="Answer HTTP requests at this host:port until interrupted."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the --out file.")] = False,
    hub: HubOption = None,
    data: DataOption = None,
    certificates: CertificatesOption = None,
    runs: Annotated[
        Path,
        typer.Option(
            help="Read the trained model from this folder, which was the --out folder of the "
            "training run."
        ),
    ] = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Predict class probabilities with a trained model.

    Vertical mode: run this command at all parties at the same time. The active party writes a file
    (--out) or runs an HTTP service (--http). Passive parties answer the active party until the
    command of the active party ends. A prediction needs no labels.

    Horizontal mode: a client has the whole model, predicts alone, and writes a file (--out).

    Exit codes: 2 usage, 3 config, 4 data, 5 identity, 6 peer, 7 storage, 8 policy, 9 integrity.
    """
    console = Console(party, json_lines=output is Format.JSON, debug=debug)
    run = _Run(
        config, party, ids, out, http, force, hub, data, certificates, runs, master_key,
        changes or [],
    )  # fmt: skip
    console.run(lambda: _predict(run, console))


def _predict(run: _Run, console: Console) -> None:
    from configs.errors import ConfigError
    from configs.federated import FederatedAgreement
    from configs.horizontal import HorizontalAgreement
    from parties.cli.modes import read_runnable
    from parties.session.run_folder import lock_run_folder

    config = read_runnable(run.config, run.changes, run.party)
    config.settings(run.party)
    if isinstance(config.agreement, HorizontalAgreement):
        _predict_alone(run, config, console)
        return
    if isinstance(config.agreement, FederatedAgreement):
        raise ConfigError(
            f"{run.config}: vfl predict does not work with a language model",
            "merge the adapters into the base model with vfl language merge",
        )
    role = config.agreement.parties[run.party].role
    _check_options(run, role)
    folder = run.runs / config.agreement.federation / run.party
    lock = lock_run_folder(folder) if folder.is_dir() else nullcontext()
    with lock, console.progress({run.party: role}) as listener:
        if role == "passive":
            _answer(run, config, listener)
        elif run.http is None:
            _write_file(run, config, listener, console)
        else:
            _serve(run, config, listener, console)


def _predict_alone(run: _Run, config: "HorizontalConfig", console: Console) -> None:
    """Predict at a client of a horizontal run, which has the whole model."""
    from configs.errors import ConfigError
    from parties.common.progress import ProgressReporter
    from parties.data.predictions import check_output_path, write_predictions
    from parties.horizontal.predict import RowPredictionRequest, predict_rows

    if run.http is not None or run.hub is not None or run.out is None:
        raise ConfigError(
            "a client of a horizontal run predicts without the other parties, so it needs --out "
            "and neither --http nor --hub",
            "give --out predictions.csv, and omit --http and --hub",
        )
    check_output_path(run.out, force=run.force)
    request = RowPredictionRequest(run.party, run.runs, run.data, run.ids)
    with console.progress({run.party: "client"}) as listener:
        predictions = predict_rows(config, request, ProgressReporter(run.party, listener).step)
    write_predictions(run.out, predictions)
    _print_counts(console, run, predictions, "not in the data")


def _check_options(run: _Run, role: str) -> None:
    """Refuse options that do not fit the role, or do not fit together."""
    from configs.errors import ConfigError

    given = {"--ids": run.ids, "--out": run.out, "--http": run.http, "--force": run.force or None}
    named = [name for name, value in given.items() if value is not None]
    if role == "passive" and named:
        raise ConfigError(
            f"{run.party} is a passive party in {run.config}, but only the active party accepts "
            f"{', '.join(named)}",
            f"omit {', '.join(named)}",
        )
    if role == "active" and (run.out is None) is (run.http is None):
        raise ConfigError(
            "expected exactly one of --out FILE and --http HOST:PORT",
            "give --out predictions.csv, or --http 127.0.0.1:8080",
        )
    if run.http is not None and len(named) > 1:
        raise ConfigError(
            "--http cannot be combined with --ids or --force: HTTP requests name the IDs, and no "
            "file is written",
            "omit --ids and --force",
        )


def _set_up(
    run: _Run,
    config: "VerticalConfig",
    listener: "ProgressListener",
    ids: "Sequence[bytes] | None",
) -> tuple["VerticalParty", "TrainedNetwork"]:
    """Return the party and its trained network; of its data only rows with ``ids``, if given."""
    from parties.session.setup import StartOptions
    from parties.vertical.prediction.setup import set_up_trained_party

    options = StartOptions(run.runs, run.data, run.certificates, master_key=run.master_key)
    return set_up_trained_party(config, run.party, options, listener, ids)


def _answer(run: _Run, config: "VerticalConfig", listener: "ProgressListener") -> None:
    """Answer the active party's requests until the active party ends the connection."""
    from parties.session.setup import hub_address
    from parties.vertical.prediction.passive import serve_predictions
    from protocol.grpc_line import dial_hub

    party, trained = _set_up(run, config, listener, None)
    address = hub_address(party.settings, run.party, run.hub)
    serve_predictions(
        party, trained, lambda: dial_hub(address, party.keyring, config.agreement.active)
    )


def _write_file(
    run: _Run, config: "VerticalConfig", listener: "ProgressListener", console: Console
) -> None:
    """Predict the requested IDs and write a file."""
    from parties.data.predictions import check_output_path, write_predictions
    from parties.data.requested_ids import all_ids, id_columns, read_ids
    from parties.vertical.prediction.active import predict_vertical_rows

    out = run.out or Path()
    check_output_path(out, force=run.force)
    columns = id_columns(config.settings(run.party).data)
    asked = None if run.ids is None else read_ids(run.ids, columns)
    party, trained = _set_up(run, config, listener, None if asked is None else asked.ids)
    asked = asked or all_ids(party.holding, columns)
    with _port(run, party) as port:
        predictions = predict_vertical_rows(party, trained, port, asked)
    check_output_path(out, force=run.force)
    write_predictions(out, predictions)
    _print_counts(console, run, predictions, "not held by all parties")


def _print_counts(console: Console, run: _Run, predictions: "Predictions", missed: str) -> None:
    """Print how many rows were predicted; ``missed`` says why the other rows were not."""
    predicted = int(predictions.held.sum())
    missing, out = len(predictions.texts) - predicted, run.out or Path()
    console.print(
        f"{predicted} rows predicted, {missing} {missed}: {out}",
        event="result",
        party=run.party,
        predicted=predicted,
        not_held=missing,
        out=str(out),
    )


def _serve(
    run: _Run, config: "VerticalConfig", listener: "ProgressListener", console: Console
) -> None:
    from threading import Thread

    from parties.web.prediction_http import parse_serve_address, serve_http
    from parties.web.prediction_service import PredictionService

    address = parse_serve_address(run.http or "")
    party, trained = _set_up(run, config, listener, None)
    with _port(run, party) as port:
        service = PredictionService(party, trained, port)
        with serve_http(address, service) as number, _interrupts(service.stopped):
            url = f"http://{address[0]}:{number}"
            console.print(f"serving at {url}", event="serving", party=run.party, url=url)
            worker = Thread(target=service.run, name="federation")
            worker.start()
            try:
                _print_latencies(service, run.party, console)
            finally:
                service.stopped.set()
                worker.join()
    if service.latencies.requests:
        _print_latency(console, run.party, service.latencies.summary())
    if service.failure is not None:
        raise service.failure


def _print_latencies(service: "PredictionService", party: str, console: Console) -> None:
    """Print latencies at intervals until the service is stopped."""
    printed = 0
    while not service.stopped.wait(LATENCY_INTERVAL):
        if service.latencies.requests > printed:
            printed = _print_latency(console, party, service.latencies.summary())


def _print_latency(console: Console, party: str, summary: dict[str, int]) -> int:
    """Print latencies; return the number of requests so far."""
    console.print(
        "{requests} requests, {rows} rows: p50 {p50_ms} ms, p99 {p99_ms} ms".format(**summary),
        event="latency",
        party=party,
        **summary,
    )
    return summary["requests"]


@contextmanager
def _interrupts(stopped: "Event") -> Iterator[None]:
    """Set ``stopped`` on SIGTERM and Ctrl-C while the body runs."""
    import signal

    signals = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: stopped.set()) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def _port(run: _Run, party: "VerticalParty") -> "LineServer":
    """Listen for passive parties."""
    from parties.session.setup import hub_address
    from parties.vertical.run_party import open_line_server

    return open_line_server(party, hub_address(party.settings, run.party, run.hub))
