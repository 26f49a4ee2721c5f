"""Addresses in party settings and on the command line: host:port, or unix:/path."""

import re
from ipaddress import AddressValueError, IPv6Address

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?", re.ASCII)
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_EVERYWHERE = ("0.0.0.0", "::", "0:0:0:0:0:0:0:0")  # noqa: S104  refused as a target
_LONGEST_SOCKET = 107  # largest number of bytes of a Unix socket's path


def checked_address(address: str) -> str:
    """Return a valid ``address`` unchanged; an error message never contains the address.

    Raises:
        ValueError: ``address`` is not valid.
    """
    if address.startswith("unix:"):
        return _socket(address)
    if "://" in address:
        raise ValueError("an address must be host:port, without http:// or another scheme")
    host, colon, port = address.rpartition(":")
    if not colon or not host or not _PORT.fullmatch(port) or not 0 < int(port) < 65_536:
        raise ValueError("an address must be host:port with a port from 1 to 65535")
    if host.startswith("[") and host.endswith("]"):
        try:
            IPv6Address(host[1:-1])
        except AddressValueError:
            raise ValueError("the text in brackets is not an IPv6 address") from None
    elif ":" in host:
        raise ValueError("write an IPv6 address in brackets, like [::1]:7700")
    elif not _HOST.fullmatch(host):
        raise ValueError("the host name is not valid: use only letters, digits, dots and hyphens")
    return address


def checked_target(address: str) -> str:
    """Return ``address`` unchanged if a party can connect to it.

    Raises:
        ValueError: ``address`` is not valid, or ``address`` is only for listening.
    """
    checked_address(address)
    if address.rpartition(":")[0].strip("[]") in _EVERYWHERE:
        raise ValueError(
            "this address means all interfaces of a machine; a party can listen on this address, "
            "but no party can connect to it: give the host name of the hub"
        )
    return address


def _socket(address: str) -> str:
    size = len(address.removeprefix("unix:").encode())
    if not 0 < size <= _LONGEST_SOCKET:
        raise ValueError(
            "the address of a Unix socket must have the form unix:PATH, where PATH has 1 to "
            f"{_LONGEST_SOCKET} bytes"
        )
    return address
