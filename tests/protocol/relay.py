"""A TCP relay in front of a hub: counts the bytes that it forwards, and simulates failures."""

import socket
from contextlib import suppress
from threading import Event, Thread
from time import sleep
from types import TracebackType
from typing import Self


class Relay:
    """Listens on ``port`` and forwards all bytes to ``target`` and back."""

    def __init__(self, target: int) -> None:
        self.carried, self._target = 0, target
        self._open, self._sockets = Event(), list[socket.socket]()
        self._open.set()
        self._slow = Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def drop_all(self) -> None:
        """From now on, drop all bytes and keep the connections open."""
        self._open.clear()

    def slow_down(self) -> None:
        """From now on, forward one byte every 0.2 s."""
        self._slow.set()

    def __enter__(self) -> Self:
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, *_: TracebackType | BaseException | None
    ) -> None:
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here = self._listener.accept()[0]
                there = socket.create_connection(("127.0.0.1", self._target))
                for each in (here, there):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._sockets.append(each)
                Thread(target=self._carry, args=(here, there), daemon=True).start()
                Thread(target=self._carry, args=(there, here), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(1 if self._slow.is_set() else 2**18):
                if self._slow.is_set():
                    sleep(0.2)
                if self._open.is_set():
                    self.carried += len(content)
                    sink.sendall(content)
            if self._open.is_set():
                sink.shutdown(socket.SHUT_WR)
