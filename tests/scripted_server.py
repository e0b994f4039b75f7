"""A server that answers every connection with given bytes, whatever it was asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def event(data: str) -> bytes:
    return f"data: {data}\n\n".encode()


class Scripted:
    """What the server was asked, and where it is."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.requests: list[bytes] = []


@contextmanager
def scripted_server(*answers: bytes | Callable[[socket.socket], None]) -> Iterator[Scripted]:
    """Play the answers, one a connection; the last one again and again."""
    listener = socket.create_server(("127.0.0.1", 0))
    scripted = Scripted(listener.getsockname()[1])

    def serve() -> None:
        with suppress(OSError):  # closed: the end
            while True:
                connection, _ = listener.accept()
                answer = answers[min(len(scripted.requests), len(answers) - 1)]
                with connection, suppress(OSError):  # the client may be gone
                    scripted.requests.append(_request(connection))
                    answer(connection) if callable(answer) else connection.sendall(answer)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):  # a close with bytes unread would reset it
                        pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield scripted
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    length = int(lengths[0].split(b":")[1]) if lengths else 0
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
