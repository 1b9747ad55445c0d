"""A local server with an S3 interface, and a proxy that injects network faults."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from support.clusters import free_address

BUCKET = "results"
SECRET = "not-to-be-written-anywhere"
KEYS = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}

Fault = Callable[[str, str], str | None]
"""Maps method and path of a request to a fault, or ``None`` without one.

``500``, ``503``: the server responds so without acting. ``late``: it acts, then responds with 500.
``drop``: the connection ends. ``hang``: the response is delayed.
"""


def put(address: str, path: str, **headers: str) -> int:
    """Send a request without content; return the status of the answer."""
    with closing(http.client.HTTPConnection(address, timeout=10)) as connection:
        connection.request("PUT", path, headers=headers)
        return connection.getresponse().status


@contextmanager
def served(line: list[str], is_ready: Callable[[], bool]) -> Iterator[None]:
    """Run a server, which is ready when a first request succeeds."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(line, **quiet)
    try:
        end = time.monotonic() + 60
        while True:
            try:
                assert is_ready()
                break
            except OSError:
                assert time.monotonic() < end, "the server did not start"
                time.sleep(0.1)
        yield
    finally:
        server.kill()
        server.wait()


@contextmanager
def s3_server() -> Iterator[str]:
    """Yield the address of a server with one empty bucket."""
    address = free_address().removeprefix("tcp://")
    host, _, port = address.rpartition(":")
    line = [sys.executable, "-m", "moto.server", "-H", host, "-p", port]
    with served(line, lambda: put(address, f"/{BUCKET}") == 200):
        yield f"http://{address}"


class Network:
    """A proxy in front of a server; ``fault`` decides how each request fails."""

    def __init__(self, server: str) -> None:
        self.fault: Fault = lambda method, path: None
        self.requests: list[tuple[str, str]] = []
        self.failed = 0
        network, place = self, server.removeprefix("http://")

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else every response is delayed by 40 ms

            def act(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                network.requests.append((self.command, self.path))
                wrong = network.fault(self.command, self.path)
                network.failed += wrong is not None
                if wrong == "hang":
                    time.sleep(3)
                if wrong in ("hang", "drop"):
                    self.close_connection = True
                    return
                if wrong in ("500", "503"):
                    return self.answer(int(wrong), b"<Error><Code>SlowDown</Code></Error>", {})
                connection = http.client.HTTPConnection(place, timeout=60)
                connection.request(self.command, self.path, body, dict(self.headers))
                response = connection.getresponse()
                content = response.read()
                connection.close()
                if wrong == "late":
                    return self.answer(500, b"<Error><Code>InternalError</Code></Error>", {})
                self.answer(response.status, content, dict(response.getheaders()))

            def answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                        self.send_header(name, value)
                length = headers.get("Content-Length", "0") if self.command == "HEAD" else None
                self.send_header("Content-Length", length or str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

            def handle(self) -> None:
                try:
                    super().handle()
                except ConnectionError:  # the client gave up
                    pass

        for method in ("GET", "PUT", "HEAD", "POST", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.act)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def entries_of(url: str) -> list[tuple[str, int]]:
    """Return group and chunk number of every journal entry, in order."""
    from sweep.store.buckets import files_of

    files, found = files_of(url), []
    for key in sorted(key for key in files.keys() if key.startswith("chunk_index/journal-")):
        lines = [json.loads(line) for line in files.get(key).splitlines()]
        assert "sweep_journal" in lines[0]
        found += [(line["group"], line["chunk"]) for line in lines[1:]]
    return found
