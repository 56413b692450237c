"""A small server of chat completions that behaves badly on request."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[["Handler", dict[str, Any]], None]
"""What the server does with one request."""


class Handler(BaseHTTPRequestHandler):
    server: "Server"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append(body)
            self.server.headers.append(dict(self.headers))
            self.server.times.append(time.monotonic())
            self.server.busy += 1
            self.server.most_busy = max(self.server.most_busy, self.server.busy)
            behaviours = self.server.behaviours
            behaviour = behaviours.pop(0) if len(behaviours) > 1 else behaviours[0]
        try:
            behaviour(self, body)
        except OSError:  # the other side has gone
            pass
        finally:
            with self.server.lock:
                self.server.busy -= 1

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def reply(self, status: int, content: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content)), **(headers or {})}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, behaviours: list[Behaviour]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviours = behaviours
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.lock, self.busy, self.most_busy = threading.Lock(), 0, 0
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


@contextmanager
def serving(*behaviours: Behaviour) -> Iterator[Server]:
    """A server that goes through the behaviours and stays with the last."""
    server = Server(list(behaviours))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def completion(text: str, **choice: Any) -> bytes:
    message = {"role": "assistant", "content": text}
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"} | choice]}).encode()


def says(text: str, **choice: Any) -> Behaviour:
    return lambda handler, body: handler.reply(200, completion(text, **choice))


def fails(status: int, message: str = "", **headers: str) -> Behaviour:
    content = json.dumps({"error": {"message": message, "type": "x"}}).encode()
    return lambda handler, body: handler.reply(
        status, content, {name.replace("_", "-"): value for name, value in headers.items()}
    )


def sends(content: bytes) -> Behaviour:
    return lambda handler, body: handler.reply(200, content)


def hangs(handler: Handler, body: dict[str, Any]) -> None:
    handler.server.over.wait(30)


def drops(handler: Handler, body: dict[str, Any]) -> None:
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def truncates(handler: Handler, body: dict[str, Any]) -> None:
    """Announces more than it sends."""
    whole = completion("hello")
    handler.reply(200, whole[:20], {"Content-Length": str(len(whole))})
    drops(handler, body)


def trickles(handler: Handler, body: dict[str, Any]) -> None:
    """A byte of the body every now and then, never the last."""
    handler.reply(200, b"", {"Content-Length": "100000"})
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def trickles_headers(handler: Handler, body: dict[str, Any]) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b"a")
        handler.wfile.flush()
