"""Changed bytes of the evidence of a request: its receipt, its journal's export and file."""

from collections.abc import Callable, Iterator
from random import Random

from request_kills import RequestKills

from parties.common.errors import IntegrityError
from parties.requests.journal import JOURNAL
from parties.requests.receipts import FOLDER, TRUST
from unlearning.receipts.faults import ExitCode
from unlearning.receipts.keys import TrustFile, read_trust
from unlearning.receipts.receipt import decode_receipt
from unlearning.receipts.verify import check_journal, verify

HEADER = (-70, -65, -8, -4, -3, -2, -1, 0, 1)  # bytes around the start of a record in the file
RANDOM = 200  # changed bytes of records, at random


class RequestDamage:
    """The evidence of a request that real processes carried out, at one party.

    Args:
        kills: the parties, and their life without a kill.
        name: the party.
    """

    def __init__(self, kills: RequestKills, name: str) -> None:
        self._federation, self._out, self._name = kills.federation, kills.quiet, name
        state = kills.federation.state(name, kills.quiet)
        self._file = state / JOURNAL
        self._receipt = kills.federation.receipts(kills.quiet, kills.request)[name].read_bytes()
        self._keys: TrustFile = read_trust((state / FOLDER / TRUST).read_bytes())
        with kills.federation.desk(name, kills.quiet) as desk:
            self._records = desk.journal.since({})

    def receipt(self) -> tuple[int, int]:
        """Change each bit of the receipt; return the number of changes, and of those accepted."""
        return _tried(
            self._receipt, lambda data: verify(data, self._keys).exit_code is ExitCode.VALID
        )

    def journal(self) -> tuple[int, int]:
        """Change each bit of the journal's export; return the changes, and those accepted."""
        receipt, export = decode_receipt(self._receipt), b"".join(e + b"\n" for e in self._records)
        assert check_journal(receipt, export, self._keys) == []
        return _tried(export, lambda data: check_journal(receipt, data, self._keys) == [])

    def file(self) -> tuple[int, int]:
        """Change bytes of records in the journal's file; return the changes, and those accepted."""
        good, random = self._file.read_bytes(), Random(7)
        starts = [good.index(record[:200]) for record in self._records]
        places = [start + offset for start in starts for offset in HEADER]
        places += [random.choice(starts) + random.randrange(200) for _ in range(RANDOM)]
        try:
            accepted = sum(self._opens(_flipped(good, at, random.randrange(8))) for at in places)
        finally:
            self._write(good)
        return len(places), accepted

    def _opens(self, content: bytes) -> bool:
        """Whether the party accepts this content, or refuses it without naming the file."""
        self._write(content)
        try:
            with self._federation.local(self._name, self._out) as local:
                local.desk.journal.since({})
        except IntegrityError as error:
            return str(self._file) not in str(error)
        return True

    def _write(self, content: bytes) -> None:
        for path in self._file.parent.glob(f"{JOURNAL}*"):
            path.unlink()
        self._file.write_bytes(content)
        self._file.chmod(0o600)


def _tried(good: bytes, accepts: Callable[[bytes], bool]) -> tuple[int, int]:
    """The number of contents that differ from ``good`` in one bit, and of those accepted."""
    changes = list(_changes(len(good)))
    return len(changes), sum(accepts(_flipped(good, at, bit)) for at, bit in changes)


def _changes(size: int) -> Iterator[tuple[int, int]]:
    return ((at, bit) for at in range(size) for bit in range(8))


def _flipped(good: bytes, at: int, bit: int) -> bytes:
    return good[:at] + bytes([good[at] ^ (1 << bit)]) + good[at + 1 :]
