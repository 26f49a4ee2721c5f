"""The group of commands ``vfl unlearn``.

A process that serves the same party may run at the same time; it sends the new events to the other
parties.
"""

import typer

from parties.cli.arguments import CheckedGroup
from parties.cli.commands.unlearn.asking import (
    unlearn_correct_command,
    unlearn_readmit_command,
    unlearn_request_command,
)
from parties.cli.commands.unlearn.deciding import (
    unlearn_approve_command,
    unlearn_extend_command,
    unlearn_notify_command,
    unlearn_purge_command,
    unlearn_reject_command,
    unlearn_withdraw_command,
)
from parties.cli.commands.unlearn.exchanging import (
    unlearn_export_command,
    unlearn_import_command,
    unlearn_run_command,
)
from parties.cli.commands.unlearn.showing import (
    unlearn_list_command,
    unlearn_receipt_command,
    unlearn_show_command,
    unlearn_status_command,
)
from unlearning.receipts.__main__ import verify_command

unlearn_app = typer.Typer(
    cls=CheckedGroup,
    no_args_is_help=True,
    help="Request that a kept model forgets rows, decide about requests, and follow them.\n\n"
    "Each command works on the files of one party. `vfl serve` exchanges requests with the other "
    "parties and carries them out.",
)

unlearn_app.command(
    "request",
    epilog="Example: vfl unlearn request people.toml --party shop --ids leavers.csv "
    "--ground gdpr-17-1-b",
)(unlearn_request_command)
unlearn_app.command(
    "correct",
    epilog="Example: vfl unlearn correct people.toml --party bank --labels corrected.csv",
)(unlearn_correct_command)
unlearn_app.command("list", epilog="Example: vfl unlearn list people.toml --party shop")(
    unlearn_list_command
)
unlearn_app.command("show", epilog="Example: vfl unlearn show people.toml 01K... --party shop")(
    unlearn_show_command
)
unlearn_app.command(
    "approve", epilog="Example: vfl unlearn approve people.toml 01K... --party shop"
)(unlearn_approve_command)
unlearn_app.command(
    "reject",
    epilog="Example: vfl unlearn reject people.toml 01K... --party shop --reason 'legal hold'",
)(unlearn_reject_command)
unlearn_app.command(
    "withdraw", epilog="Example: vfl unlearn withdraw people.toml 01K... --party shop"
)(unlearn_withdraw_command)
unlearn_app.command(
    "extend",
    epilog="Example: vfl unlearn extend people.toml 01K... --party shop --until 2027-01-15 "
    "--notice 2026-11-20 --reason 'many requests'",
)(unlearn_extend_command)
unlearn_app.command(
    "notify",
    epilog="Example: vfl unlearn notify people.toml 01K... --party shop "
    "--recipient 'Acme Analytics' --result notified --on 2026-11-24",
)(unlearn_notify_command)
unlearn_app.command("status", epilog="Example: vfl unlearn status people.toml --party shop")(
    unlearn_status_command
)
unlearn_app.command(
    "export", epilog="Example: vfl unlearn export people.toml --party shop --journal journal.jsonl"
)(unlearn_export_command)
unlearn_app.command(
    "import", epilog="Example: vfl unlearn import people.toml journal.jsonl --party shop"
)(unlearn_import_command)
unlearn_app.command("purge", epilog="Example: vfl unlearn purge people.toml --party shop")(
    unlearn_purge_command
)
unlearn_app.command(
    "readmit",
    epilog="Example: vfl unlearn readmit people.toml --party shop --id 4711 --reason contract",
)(unlearn_readmit_command)
unlearn_app.command("run", epilog="Example: vfl unlearn run people.toml --party shop")(
    unlearn_run_command
)
unlearn_app.command(
    "receipt", epilog="Example: vfl unlearn receipt people.toml 01K... --party shop"
)(unlearn_receipt_command)
unlearn_app.command("verify", epilog="Example: vfl unlearn verify receipt.json --keys trust.json")(
    verify_command
)
