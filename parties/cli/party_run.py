"""Starts of parties: one party of ``vfl-party`` and ``vfl serve``, or all of ``vfl simulate``."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parties.cli.arguments import check_continues, check_hub_address
from parties.cli.console import Console
from parties.cli.options import Role
from parties.common.signals import stop_with_parent
from parties.session.setup import Begin

if TYPE_CHECKING:
    from configs.config_file import ConfigFile, FederatedConfig
    from parties.common.progress import ProgressListener
    from parties.horizontal.party import FederatedMode
    from parties.session.setup import StartOptions
    from parties.session.simulation import SimulationPlan


@dataclass(frozen=True, slots=True)
class PartyRun:
    """The options of one party's process."""

    role: Role | None  # None: the role in the agreement
    config: Path
    party: str
    hub: str | None
    data: Path | None
    certificates: Path | None
    out: Path
    changes: list[str]
    begin: Begin = Begin.AUTO
    supervised: bool = False
    serve: bool = False  # whether to stay with a kept model, in place of a training
    once: bool = False  # whether to end when no request is left to carry out
    http: str | None = None  # address at which predictions are answered
    master_key: Path | None = None  # file of the key that wraps the keys of sealed files
    continues: str | None = None  # the version from which a training goes on; None: new weights
    track: list[str] = field(default_factory=list)  # trackers, in the form of --track


def run_party(run: PartyRun, console: Console) -> None:
    """Run one party until its training ends, or, with ``serve``, until it is stopped.

    Raises:
        ConfigError: the options or the config cannot be used.
        PartyError: the party failed.
        ProtocolError: another party broke the protocol, or was lost.
    """
    from parties.cli.modes import read_runnable

    if run.supervised:
        stop_with_parent()
    config = read_runnable(run.config, run.changes, run.party)
    for notice in config.notices:
        console.warn(notice)
    settings = config.settings(run.party)
    agreed = _role(config, run)
    check_continues(config.agreement.mode, run.continues, serves=run.serve)
    _lock_and_run(config, run, agreed, settings.folder, console)


def _role(config: "ConfigFile[Any, Any]", run: PartyRun) -> str:
    """The agreed role of the party; refuse another role, or a hub's address that does not fit."""
    from configs.errors import ConfigError

    if run.party not in config.agreement.parties:
        raise ConfigError(
            f"party {run.party} is a simulated client in {run.config}; vfl-party cannot run such a "
            "client",
            f"run all parties with vfl simulate {run.config}",
        )
    agreed = config.agreement.parties[run.party].role
    if run.hub is not None:
        check_hub_address(run.hub, dials=agreed in (Role.PASSIVE, Role.CLIENT))
    if run.role is not None and agreed != run.role.value:
        raise ConfigError(
            f"party {run.party} has the role {agreed} in {run.config}, but --role is "
            f"{run.role.value}",
            f"give --role {agreed}",
        )
    return str(agreed)


def _lock_and_run(
    config: "ConfigFile[Any, Any]",
    run: PartyRun,
    agreed: str,
    data: Path | None,
    console: Console,
) -> None:
    """Run the party while its folder is locked; ``data`` is the data folder of its settings."""
    from parties.session.identity import load_identity
    from parties.session.run_folder import check_run_folder, lock_run_folder

    beside = run.config.parent / data if data else None
    check_run_folder(run.out, run.data or beside)
    # A wrong certificate is reported now, before torch is imported, which takes seconds.
    load_identity(config, run.party, run.certificates, datetime.now(UTC))

    from parties.experiments.tracking import tracking
    from parties.session.setup import StartOptions

    federation = config.agreement.federation
    folder = run.out / federation
    with (
        lock_run_folder(folder / run.party),
        console.progress({run.party: agreed}) as listener,
        tracking(run.track, federation, listener) as to,
    ):
        options = StartOptions(
            run.out,
            run.data,
            run.certificates,
            run.begin,
            run.supervised,
            master_key=run.master_key,
            serves=run.serve,
            continues=run.continues or "",
        )
        if run.serve:
            _serve(config, run, options, to.receive)
            return
        metrics = _run_mode(config, run.party, options, run.hub, to.receive)
        if metrics is not None:
            to.finish(metrics, folder)
    if metrics is not None:
        console.show_result(metrics, folder)


def _serve(
    config: "ConfigFile[Any, Any]",
    run: PartyRun,
    options: "StartOptions",
    listener: "ProgressListener",
) -> None:
    from configs.errors import ConfigError
    from configs.federated import FederatedAgreement

    agreement = config.agreement
    if isinstance(agreement, FederatedAgreement):
        if run.http is not None:
            raise ConfigError(
                f"{run.config} is the agreement of a {agreement.mode} run, whose parties have the "
                "whole model: no party answers predictions for others",
                "omit --http, and predict with vfl predict",
            )
        from parties.horizontal.service.run import serve_federated_party

        mode, where = federated_mode(config), (run.hub, listener)
        serve_federated_party(mode, config, run.party, options, *where, once=run.once)
        return
    if run.http is not None and agreement.parties[run.party].role == "passive":
        raise ConfigError(
            f"{run.party} is a passive party in {run.config}, but only the active party answers "
            "predictions",
            "omit --http",
        )
    from parties.vertical.service.run import serve_vertical_party
    from parties.web.kept_model_queue import prediction_door

    door = prediction_door(run.http)
    serve_vertical_party(config, run.party, options, run.hub, listener, door=door, once=run.once)


def _run_mode(
    config: "ConfigFile[Any, Any]",
    party: str,
    options: "StartOptions",
    hub: str | None,
    listener: "ProgressListener",
) -> dict[str, Any] | None:
    """Run one party in the mode of its config; only that mode is imported."""
    from configs.federated import FederatedAgreement

    if isinstance(config.agreement, FederatedAgreement):
        from parties.horizontal.run_party import run_federated_party

        return run_federated_party(federated_mode(config), config, party, options, hub, listener)
    from parties.vertical.run_party import run_vertical_party

    return run_vertical_party(config, party, options, hub, listener)


def federated_mode(config: "FederatedConfig") -> "FederatedMode":
    """Return the mode of a config, horizontal or LLM; import only the libraries of this mode."""
    from configs.language import LanguageAgreement

    if isinstance(config.agreement, LanguageAgreement):
        from parties.language.setup import LANGUAGE_MODE

        return LANGUAGE_MODE
    from parties.horizontal.setup import ROW_MODE

    return ROW_MODE


def plan_simulation(
    config: Path,
    changes: tuple[str, ...],
    out: Path,
    data: Path | None,
    *,
    begin: Begin = Begin.AUTO,
    continues: str | None = None,
    keys: Path | None = None,
) -> "SimulationPlan":
    """Check the options of a run of all parties on this machine.

    Args:
        config: the config file, or the name of a shipped run.
        changes: changed settings, in the form of ``--set``.
        out: folder of the runs.
        data: folder in which relative data paths are resolved; None: those of the settings.
        begin: how to use the checkpoints of an unfinished run.
        continues: the version from which the training goes on; None: new weights.
        keys: folder of the keys and certificates of all parties; None: a temporary folder.

    Raises:
        ConfigError: there is no such config, or it is not valid.
        StorageError: the folder of the runs cannot be used.
        UsageProblem: the mode does not support ``continues``.
    """
    from configs.shipped import find_config
    from parties.cli.modes import SCHEMAS, read_runnable
    from parties.session.run_folder import check_run_folder
    from parties.session.simulation import SimulationPlan

    path = find_config(config)
    check_continues(read_runnable(path, changes).agreement.mode, continues)
    check_run_folder(out, data)
    where = (path, changes, out, data, begin)
    return SimulationPlan(*where, schemas=SCHEMAS, continues=continues or "", keys=keys)


def simulate_parties(plan: "SimulationPlan", listener: "ProgressListener") -> dict[str, Any]:
    """Run all parties, each as a process; simulated clients run in this process.

    Returns:
        The metrics of the run.

    Raises:
        Failed: a party failed; all processes have ended.
    """
    from configs.config_file import read_any
    from configs.federated import FederatedAgreement

    config = read_any(plan.config, plan.schemas, plan.changes)
    if isinstance(config.agreement, FederatedAgreement) and config.agreement.clients:
        from parties.horizontal.simulation.simulate import simulate_federated

        return simulate_federated(federated_mode(config), plan, listener)
    from parties.session.simulation import simulate_processes

    return simulate_processes(plan, listener)
