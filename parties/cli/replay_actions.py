"""What ``vfl replay`` and ``vfl compare`` do at one party."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from parties.cli.arguments import check_hub_address
from parties.cli.console import Console
from parties.cli.requests.place import Place, read_vertical
from parties.common.errors import IntegrityError, StorageError
from parties.session.identity import load_identity
from parties.session.run_folder import lock_run_folder
from parties.session.setup import StartOptions
from unlearning.receipts.receipt import Receipt, decode_receipt

if TYPE_CHECKING:
    from parties.vertical.service.replay import ReplayResult

SUFFIX = ".json"  # of a receipt's file


def replay_request(
    place: Place, given: str, hub: str | None, console: Console, *, compares: bool = False
) -> None:
    """Replay a request with the other parties, and print whether the models are equal.

    Args:
        place: the party, its folders and its options.
        given: ID of the request, or the file of its receipt.
        hub: address of the hub; None: that of the party settings.
        console: prints progress and results.
        compares: whether the active party compares the model with Retrains.

    Raises:
        StorageError: another process of the party runs, or the party has no such request.
        PolicyError: the request cannot be replayed.
        IntegrityError: a model differs from the one that the receipt states.
        ProtocolError: another party broke the protocol, or was lost.
    """
    from parties.vertical.service.run import replay_vertical_party

    config = read_vertical(place)
    role = config.agreement.parties[place.party].role
    if hub is not None:
        check_hub_address(hub, dials=role == "passive")
    load_identity(config, place.party, place.certificates, datetime.now(UTC))
    request, receipt = _request(given)
    options = StartOptions(
        place.out, place.data, place.certificates, master_key=place.master_key, replays=request
    )
    folder = place.out / config.agreement.federation / place.party
    if not folder.is_dir():
        raise StorageError(
            f"the folder {folder} of party {place.party} does not exist",
            "name the folder of the runs with --out",
        )
    with lock_run_folder(folder), console.progress({place.party: role}) as listener:
        result = replay_vertical_party(
            config, place.party, options, hub, listener, receipt=receipt, compares=compares
        )
    _print(result, request, console)


def _request(given: str) -> tuple[str, Receipt | None]:
    """The ID of the request, and the receipt if ``given`` is the name of a file."""
    if not given.endswith(SUFFIX):
        return given, None
    try:
        receipt = decode_receipt(Path(given).read_bytes())
    except OSError as error:
        raise StorageError(
            f"cannot read the receipt {given}: {error.strerror}",
            "give the ID of the request, or the file of its receipt in the folder receipts",
        ) from error
    return receipt.receipt_id, receipt


def _print(result: "ReplayResult", request: str, console: Console) -> None:
    for name, equal in result.equal.items():
        text = "the same model as in the receipt" if equal else "ANOTHER MODEL than in the receipt"
        console.print(f"{name}: {text}", event="replayed", name=name, equal=equal)
    if result.page is not None:
        console.print(
            f"comparison with Retrains: {result.page}", event="compared", page=str(result.page)
        )
    differing = [name for name, equal in result.equal.items() if not equal]
    if differing:
        raise IntegrityError(
            f"the replay of {request} made another model than the receipt states at "
            f"{', '.join(differing)}",
            "compare the versions of torch, the number of threads and the data with those of the "
            "receipt's statements; if they are equal, the receipt is wrong",
        )
