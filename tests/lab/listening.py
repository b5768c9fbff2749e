"""A small web server that keeps what it was sent."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@dataclass(frozen=True)
class Post:
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def title(self) -> str:
        return self.headers["Title"].encode("latin-1").decode()


@dataclass
class Listening:
    """`answers`: the next ones, then 200. `while_asked` runs before one is given."""

    port: int = 0
    posts: list[Post] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    while_asked: Callable[[], None] = lambda: None

    def url(self, path: str = "/topic", *, login: str = "") -> str:
        return f"http://{login}127.0.0.1:{self.port}{path}"


@contextmanager
def listening() -> Iterator[Listening]:
    told = Listening()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.posts.append(Post(self.path, dict(self.headers), body))
            told.while_asked()
            code = told.answers.pop(0) if told.answers else 200
            self.send_response(code)
            if code in {301, 302, 307}:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            raise AssertionError

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
