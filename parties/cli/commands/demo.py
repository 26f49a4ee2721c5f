"""``vfl demo``: a run on this machine, and the day after, when customers ask to be forgotten."""

from pathlib import Path
from typing import Annotated

import typer

from parties.cli.console import Console
from parties.cli.options import DebugOption

RUN = "digits"
PARTY = "left"  # the passive party that takes the requests
# Half of the steps of the config, so that the demo ends within a minute.
QUICK = ("training.batch=64", "training.learning_rate=0.003")
# On the day after: an exact method that sends a tenth of the rows of a Retrain.
DAY_AFTER = (*QUICK, 'unlearning.method="retrain-local"')
MANY = 50  # IDs of the second request, one of them unknown


def demo_command(
    *,
    out: Annotated[
        Path, typer.Option(help="Write the results into this folder; it must not exist.")
    ] = Path("runs/demo"),
    debug: DebugOption = False,
) -> None:
    """Show the life of a federation on this machine, in less than a minute.

    Three organisations find their common rows, train a model, forget rows and compare. Then all
    processes end, start again with the model that they kept, and carry out two requests to forget
    that a passive party takes. The data comes with scikit-learn.

    Exit codes: as those of vfl simulate.
    """
    console = Console("vfl", json_lines=False, debug=debug)
    console.run(lambda: _demo(out, console))


def _demo(out: Path, console: Console) -> None:
    from parties.common.errors import StorageError
    from parties.session.simulation import import_for_parties

    if out.exists():
        raise StorageError(f"{out} exists already", "remove it, or name another folder with --out")
    import_for_parties()  # while this process imports the modes
    from configs.shipped import find_config
    from parties.cli.modes import SCHEMAS, read_runnable
    from parties.experiments.day_after import DayAfter
    from parties.session.setup import Begin
    from parties.session.simulation import SimulationPlan, simulate_processes

    plan = SimulationPlan(find_config(Path(RUN)), QUICK, out, None, Begin.AUTO, schemas=SCHEMAS)
    config = read_runnable(plan.config, QUICK)
    agreement = config.agreement
    roles = {name: each.role for name, each in agreement.parties.items()}
    with console.progress(roles) as listener:
        metrics = simulate_processes(plan, listener)
    console.show_result(metrics, out / agreement.federation)
    day = DayAfter(plan.config, agreement, out, out / "certs", DAY_AFTER, console.print)
    many = [f"{RUN}:{number}" for number in range(100, 100 + MANY - 1)]
    day.run(PARTY, [[f"{RUN}:17"], [*many, f"{RUN}:99999"]])
    console.print(
        f"Next: open {out / agreement.federation}/report.html and a receipt in a browser. "
        "The README shows a federation of two organisations with data of their own."
    )
