"""Addresses in party settings and on the command line: host:port, or unix:/path."""

import re
from ipaddress import AddressValueError, IPv6Address

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?", re.ASCII)
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_EVERYWHERE = ("0.0.0.0", "::", "0:0:0:0:0:0:0:0")  # noqa: S104  refused as a target
_LONGEST_SOCKET = 107  # largest number of bytes of a Unix socket's path


def checked_address(address: str) -> str:
    """The address, unchanged; the error does not repeat it, because it may contain a password.

    Raises:
        ValueError: ``address`` is not an address.
    """
    if address.startswith("unix:"):
        return _socket(address)
    if "://" in address:
        raise ValueError("an address is host:port, without http:// or another scheme")
    host, colon, port = address.rpartition(":")
    if not colon or not host or not _PORT.fullmatch(port) or not 0 < int(port) < 65_536:
        raise ValueError("an address is host:port with a port from 1 to 65535")
    if host.startswith("[") and host.endswith("]"):
        try:
            IPv6Address(host[1:-1])
        except AddressValueError:
            raise ValueError("the text in brackets is not an IPv6 address") from None
    elif ":" in host:
        raise ValueError("write an IPv6 address in brackets, like [::1]:7700")
    elif not _HOST.fullmatch(host):
        raise ValueError("a host name has letters, digits, dots and hyphens only")
    return address


def checked_target(address: str) -> str:
    """The address, unchanged, of a hub to connect to.

    Raises:
        ValueError: ``address`` is not an address, or one that is only for listening.
    """
    checked_address(address)
    if address.rpartition(":")[0].strip("[]") in _EVERYWHERE:
        raise ValueError(
            "this address is for listening on all interfaces: give the name of the hub"
        )
    return address


def _socket(address: str) -> str:
    size = len(address.removeprefix("unix:").encode())
    if not 0 < size <= _LONGEST_SOCKET:
        raise ValueError(
            f"a Unix socket is unix:PATH with a path of at most {_LONGEST_SOCKET} bytes"
        )
    return address
