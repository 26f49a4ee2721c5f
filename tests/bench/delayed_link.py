"""A TCP proxy that delays every byte, in place of a network: the kernel need not shape traffic."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from threading import Event, Thread

CHUNK = 1 << 16


@contextmanager
def delayed_link(port: int, delay: float) -> Iterator[int]:
    """Forward connections to ``port`` of this machine, each byte ``delay`` seconds later.

    The bandwidth is not limited. Yield the port of the proxy.
    """
    loop, ready, stop, found = asyncio.new_event_loop(), Event(), asyncio.Event(), list[int]()

    async def serve() -> None:
        async with _server(port, delay) as own:
            found.append(own)
            ready.set()
            await stop.wait()

    thread = Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@asynccontextmanager
async def _server(port: int, delay: float) -> AsyncIterator[int]:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:  # the hub does not listen yet; the party dials again
            writer.close()
            return
        await asyncio.gather(_forward(reader, back, delay), _forward(there, writer, delay))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _forward(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, delay: float
) -> None:
    """Forward all bytes, then the end of the stream."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def write() -> None:
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                break
            target.write(data)
            await target.drain()

    writing = asyncio.create_task(write())
    try:
        with suppress(ConnectionError):
            while data := await source.read(CHUNK):
                waiting.put_nowait((loop.time() + delay, data))
    finally:
        waiting.put_nowait((loop.time() + delay, b""))
        with suppress(ConnectionError):
            await writing
        target.close()
