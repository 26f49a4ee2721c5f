"""The command ``vfl predict``: the same words at every party, whose role is the agreement's."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parties.cli.console import Teller
from parties.cli.options import DataOption, DebugOption, Format, FormatOption, SetOption

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Event

    from configs.federated_file import HorizontalConfig
    from configs.schema import Config
    from parties.common.progress import Listener
    from parties.session.handshake import Port
    from parties.session.party import Party
    from parties.vertical.prediction.trained import Trained
    from parties.web.prediction_service import Service

TELL_EVERY = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class _Run:
    """The options of ``vfl predict``."""

    config: Path
    seat: str
    ids: Path | None
    out: Path | None
    serve: str | None
    force: bool
    hub: str | None
    data: Path | None
    certificates: Path | None
    runs: Path
    changes: list[str]


def predict(  # noqa: PLR0913  a command has the options that it has
    *,
    config: Annotated[Path, typer.Argument(help="The agreement: one TOML file that all share.")],
    seat: Annotated[str, typer.Option(help="Our name in the agreement.")],
    ids: Annotated[
        Path | None,
        typer.Option(
            help="Whom to predict: a .csv with the seat's ID columns, or one ID a line. "
            "Without it, every row of the seat's data."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where predictions go: a .csv or .parquet file.")
    ] = None,
    serve: Annotated[
        str | None,
        typer.Option(help="Answer HTTP requests at host:port instead, until interrupted."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the --out file.")] = False,
    hub: Annotated[
        str | None, typer.Option(help="host:port to dial, or to listen on if we are the hub.")
    ] = None,
    data: DataOption = None,
    certificates: Annotated[
        Path | None, typer.Option(help="Folder with ca.pem, SEAT.pem and SEAT.key.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder of the runs, with our trained half.")] = Path(
        "runs"
    ),
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Predict with the trained halves, all parties being online.

    The active party asks, with --ids and --out for a file or with --serve for a service; passive
    parties wait, and answer until it says goodbye. Labels are not needed. A client of a horizontal
    run has the whole model and predicts alone, with --out.

    Exit codes: 2 usage, 3 config, 4 data, 5 identity, 6 peer, 7 storage, 8 policy, 9 integrity.
    """
    told = Teller(seat, json_lines=output is Format.JSON, debug=debug)
    run = _Run(
        config, seat, ids, out, serve, force, hub, data, certificates, runs, changes or []
    )  # fmt: skip
    told.guard(lambda: _predict(run, told))


def _predict(run: _Run, told: Teller) -> None:
    from configs.any_file import read_any
    from configs.errors import ConfigError
    from configs.federated_file import FederatedConfig, HorizontalConfig
    from parties.session.run_folder import alone

    config = read_any(run.config, run.changes)
    config.seat(run.seat)
    if isinstance(config, HorizontalConfig):
        _whole(run, config, told)
        return
    if isinstance(config, FederatedConfig):
        raise ConfigError(
            f"{run.config}: a language model answers no rows",
            "merge its adapters: vfl language merge",
        )
    role = config.agreement.parties[run.seat].role
    _refuse_words(run, role)
    folder = run.runs / config.agreement.federation / run.seat
    held = alone(folder) if folder.is_dir() else nullcontext()
    with held, told.view({run.seat: role}) as show:
        if role == "passive":
            _answer(run, config, show)
        elif run.serve is None:
            _batch(run, config, show, told)
        else:
            _serve(run, config, show, told)


def _whole(run: _Run, config: "HorizontalConfig", told: Teller) -> None:
    """A client of a horizontal run has the whole model: nobody else need be there."""
    from configs.errors import ConfigError
    from parties.common.progress import Watch
    from parties.data.predictions import check_out, write_predictions
    from parties.horizontal.predict import Question, predict_rows

    if run.serve is not None or run.hub is not None or run.out is None:
        raise ConfigError(
            "a client of a horizontal run predicts alone: --out FILE, without --serve and --hub",
            "--out predictions.csv",
        )
    check_out(run.out, force=run.force)
    asks = Question(run.seat, run.runs, run.data, run.ids)
    with told.view({run.seat: "client"}) as show:
        found = predict_rows(config, asks, Watch(run.seat, show).step)
    write_predictions(run.out, found)
    held = int(found.held.sum())
    told.say(
        f"{held} rows predicted, {len(found.texts) - held} not in the data: {run.out}",
        event="result",
        party=run.seat,
        predicted=held,
        not_held=len(found.texts) - held,
        out=str(run.out),
    )


def _refuse_words(run: _Run, role: str) -> None:
    """Options that do not go with the role, or with each other."""
    from configs.errors import ConfigError

    given = {"--ids": run.ids, "--out": run.out, "--serve": run.serve, "--force": run.force or None}
    named = [name for name, value in given.items() if value is not None]
    if role == "passive" and named:
        raise ConfigError(
            f"{run.seat} is passive in {run.config}: it answers, and {', '.join(named)} "
            "belongs to the active party",
            "leave it out",
        )
    if role == "active" and (run.out is None) is (run.serve is None):
        raise ConfigError(
            "predictions need one of --out FILE and --serve HOST:PORT",
            "--out predictions.csv, or --serve 127.0.0.1:8080",
        )
    if run.serve is not None and len(named) > 1:
        raise ConfigError("--serve takes its IDs from requests", "leave out --ids and --force")


def _seated(
    run: _Run, config: "Config", listener: "Listener", asked: "Sequence[bytes] | None"
) -> tuple["Party", "Trained"]:
    from parties.session.setup import Place
    from parties.vertical.prediction.trained import take_trained_seat

    place = Place(run.runs, run.data, run.certificates)
    return take_trained_seat(config, run.seat, place, listener, asked)


def _answer(run: _Run, config: "Config", show: "Listener") -> None:
    from parties.session.setup import hub_address
    from parties.vertical.prediction.answer import answer_predictions
    from protocol.grpc_line import dial

    party, trained = _seated(run, config, show, None)
    where = hub_address(party.seat, run.seat, run.hub)
    answer_predictions(party, trained, lambda: dial(where, party.keyring, config.agreement.active))


def _batch(run: _Run, config: "Config", show: "Listener", told: Teller) -> None:
    from parties.data.asked_ids import all_held, id_columns, read_ids
    from parties.data.predictions import check_out, write_predictions
    from parties.vertical.prediction.ask import predict as ask

    out = run.out or Path()
    check_out(out, force=run.force)
    columns = id_columns(config.seat(run.seat).data)
    asked = None if run.ids is None else read_ids(run.ids, columns)
    party, trained = _seated(run, config, show, None if asked is None else asked.ids)
    asked = asked or all_held(party.holding, columns)
    with _port(run, party) as port:
        found = ask(party, trained, port, asked)
    check_out(out, force=run.force)
    write_predictions(out, found)
    held = int(found.held.sum())
    told.say(
        f"{held} rows predicted, {len(asked) - held} not held by all parties: {out}",
        event="result",
        party=run.seat,
        predicted=held,
        not_held=len(asked) - held,
        out=str(out),
    )


def _serve(run: _Run, config: "Config", show: "Listener", told: Teller) -> None:
    from threading import Thread

    from parties.web.prediction_http import listening, where
    from parties.web.prediction_service import Service

    address = where(run.serve or "")
    party, trained = _seated(run, config, show, None)
    with _port(run, party) as port:
        service = Service(party, trained, port)
        with listening(address, service) as number, _interrupts(service.stopped):
            url = f"http://{address[0]}:{number}"
            told.say(f"serving at {url}", event="serving", party=run.seat, url=url)
            worker = Thread(target=service.run, name="federation")
            worker.start()
            try:
                _watch(service, run.seat, told)
            finally:
                service.stopped.set()
                worker.join()
    if service.latencies.requests:
        _tell(told, run.seat, service.latencies.summary())
    if service.failure is not None:
        raise service.failure


def _watch(service: "Service", seat: str, told: Teller) -> None:
    """Say now and then how fast answers came, until the service is stopped."""
    served = 0
    while not service.stopped.wait(TELL_EVERY):
        if service.latencies.requests > served:
            served = _tell(told, seat, service.latencies.summary())


def _tell(told: Teller, seat: str, summary: dict[str, int]) -> int:
    """Say how fast answers came; the number of requests."""
    told.say(
        "{requests} requests, {rows} rows: p50 {p50_ms} ms, p99 {p99_ms} ms".format(**summary),
        event="latency",
        party=seat,
        **summary,
    )
    return summary["requests"]


@contextmanager
def _interrupts(stopped: "Event") -> Iterator[None]:
    """SIGTERM and Ctrl-C end the service, not the process."""
    import signal

    words = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(word, lambda *_: stopped.set()) for word in words]
    try:
        yield
    finally:
        for word, handler in zip(words, before, strict=True):
            signal.signal(word, handler)


@contextmanager
def _port(run: _Run, party: "Party") -> Iterator["Port"]:
    """Where the passive parties dial."""
    from parties.common.errors import StorageError
    from parties.session.setup import admit, hub_address
    from protocol.errors import LineBroken
    from protocol.grpc_line import Server

    where, seats = hub_address(party.seat, run.seat, run.hub), len(party.agreement.passive)
    try:
        server = Server(where, party.keyring, lambda leaf: admit(party, leaf), seats)
    except LineBroken as error:
        raise StorageError(str(error), error.hint) from error
    with server:
        yield server
