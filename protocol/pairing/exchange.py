"""Pairing: a short one-time code, told by telephone, becomes a key that two parties share.

The hub makes a code for each partner. SPAKE2 (Abdalla and Pointcheval 2005; library ``spake2``)
turns the code into a key of 256 bits. An attacker between the parties who does not know the code
can try one code, and learns only whether it was right. The partner then sends its certificate
request, and the hub answers with certificates and pins, both encrypted with keys from HKDF.
"""

import base64
import secrets
from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from spake2 import SPAKE2_A, SPAKE2_B, SPAKEError
from spake2.ed25519_basic import NotOnCurve

from protocol.errors import IdentityError

PAIRING_VERSION: Final = 2
LARGEST_PAIRING: Final = 2**20  # bytes of a message
CODE_DIGITS: Final = 8
_NONCE = bytes(12)  # each key encrypts one message
_Pins = Mapping[str, list[Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]]]
_Side = Literal["hub", "partner"]
Kind = TypeVar("Kind", bound="PairingMessage")


class PairingMessage(BaseModel):
    """A message of the pairing, as JSON; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PairingOpening(PairingMessage):
    """The partner's first message, in plain text."""

    version: int
    federation: str = Field(max_length=64)
    partner: str = Field(max_length=64)
    share: str = Field(max_length=128)  # SPAKE2 message in base64


class PairingRequest(PairingMessage):
    """The partner's encrypted message."""

    certificate_request: str  # PEM
    agreement: str  # canonical agreement without pins, as JSON
    pins: _Pins  # pins that the partner's agreement has already, by party name


class PairingAnswer(PairingMessage):
    """The hub's encrypted message."""

    authority: str  # certificate of the authority, PEM
    certificate: str  # certificate of the partner, PEM
    pins: _Pins  # pins of each party's keys, by party name


class PairingRefused(PairingMessage):
    """The hub's encrypted message, if it cannot answer."""

    refused: str  # the reason


def new_code() -> str:
    """Return a random code of eight digits, in two groups."""
    digits = f"{secrets.randbelow(10**CODE_DIGITS):0{CODE_DIGITS}}"
    return f"{digits[:4]}-{digits[4:]}"


def code_digits(code: str) -> str:
    """Return the digits of a code that a person typed, with or without spaces and hyphens.

    Raises:
        ValueError: the code does not have eight digits.
    """
    digits = code.replace("-", "").replace(" ", "")
    if len(digits) != CODE_DIGITS or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"a code has {CODE_DIGITS} digits, such as 0123-4567")
    return digits


class PairingExchange:
    """One side of one exchange; it can be used once.

    Args:
        side: the hub, or the partner.
        code: the code in digits.
        names: federation, hub and partner; both sides must have the same names.
    """

    def __init__(self, side: _Side, code: str, names: tuple[str, str, str]) -> None:
        federation, hub, partner = names
        own = SPAKE2_A if side == "partner" else SPAKE2_B
        context = f"vfl pairing {PAIRING_VERSION}/{federation}/"
        self._spake = own(
            code.encode(), idA=f"{context}{partner}".encode(), idB=f"{context}{hub}".encode()
        )
        self._side: _Side = side
        self._keys: dict[_Side, bytes] = {}
        self.share: str = base64.b64encode(self._spake.start()).decode()  # for the other side

    def finish(self, share: str) -> None:
        """Derive the keys from the other side's share.

        Raises:
            IdentityError: the share is not one of the other side.
        """
        try:
            key = self._spake.finish(base64.b64decode(share, validate=True))
        except (SPAKEError, NotOnCurve, ValueError, AssertionError) as error:
            raise IdentityError(f"the other side's message is no share: {error}") from None
        for sender in ("hub", "partner"):
            info = f"vfl pairing {PAIRING_VERSION} from {sender}".encode()
            self._keys[sender] = HKDF(SHA256(), 32, None, info).derive(key)

    def seal(self, message: PairingMessage) -> bytes:
        """Return the encrypted message of this side; only one message may be sealed."""
        cipher = ChaCha20Poly1305(self._keys.pop(self._side))
        return cipher.encrypt(_NONCE, message.model_dump_json().encode(), None)

    def open(self, sealed: bytes) -> bytes:
        """Return the other side's message, decrypted.

        Raises:
            IdentityError: the other side has another code, or the message was changed.
        """
        other: _Side = "hub" if self._side == "partner" else "partner"
        try:
            return ChaCha20Poly1305(self._keys[other]).decrypt(_NONCE, sealed, None)
        except InvalidTag:
            raise IdentityError(
                "the code is wrong, or somebody else answered",
                "run vfl pair again at both, and tell the new code to the partner by telephone",
            ) from None


def parse_pairing(kind: type[Kind], content: bytes) -> Kind:
    """Return the message in ``content``.

    Raises:
        IdentityError: it is no such message.
    """
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise IdentityError(
            f"a message of the pairing has {error.error_count()} wrong or missing fields",
            "install the same version of vfl at both parties",
        ) from None
