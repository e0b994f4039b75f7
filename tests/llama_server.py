"""llama-cpp-python's own OpenAI-compatible server as a process, with the embedded model."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from embedded import TARGET

KEY = "sk-a-key-of-tests"


@contextmanager
def llama_server() -> Iterator[str]:
    """Start the server; yields its base URL. It wants `KEY`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {
        "--model": TARGET,
        "--model_alias": "tiny",
        "--host": "127.0.0.1",
        "--port": port,
        "--n_ctx": 1024,
        "--n_threads": 1,
        "--n_threads_batch": 1,
        "--api_key": KEY,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "llama_cpp.server", *map(str, sum(options.items(), ()))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with process:
        try:
            while not _answers(port):
                assert process.poll() is None, "the server ended: is its software installed?"
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {KEY}"})
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
