"""Chromium without a window, spoken to by DevTools' protocol over two pipes."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
# It reads from descriptor 3 and writes to 4.
_START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execvp("chromium", ["chromium", *sys.argv[3:]])
"""
_ABOVE = 10
_PIECE = 1 << 16
_TROUBLE = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")


class Tab:
    def __init__(self, commands: BinaryIO, answers: BinaryIO) -> None:
        self._commands, self._answers = commands, answers
        self._rest, self._count, self._session = b"", 0, ""
        self.troubles: list[dict[str, Any]] = []  # of the console
        self.requests: list[str] = []
        self._loaded = 0
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **values: Any) -> Any:
        self._count += 1
        message = {"id": self._count, "method": method, "params": values}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, page: Path, width: int, *, height: int = 900, scheme: str = "light") -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.emulate(scheme=scheme)
        loaded = self._loaded
        self.ask("Page.navigate", url=page.as_uri())
        while self._loaded == loaded:
            self._next()

    def emulate(self, *, media: str = "", scheme: str = "light") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)

    def evaluate(self, expression: str) -> Any:
        """Of JavaScript: what it comes to, as JSON."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                text="\r" if key == "Enter" and kind == "keyDown" else "",
            )

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._answers.fileno(), _PIECE)
            assert piece, "chromium has ended"
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        event = answer.get("method", "")
        if event in _TROUBLE:
            self.troubles.append(answer["params"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(answer["params"]["request"]["url"])
        elif event == "Page.loadEventFired":
            self._loaded += 1
        return answer


@contextmanager
def chromium(folder: Path) -> Iterator[Tab]:
    """A fresh one; `folder` takes its profile."""
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for end in (*_pipe(), *_pipe())]
    reads, commands, answers, writes = ends
    words = [*_FLAGS, f"--user-data-dir={folder}", "about:blank"]
    browser = subprocess.Popen(
        [sys.executable, "-c", _START, str(reads), str(writes), *words],
        pass_fds=(reads, writes),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(reads)
    os.close(writes)
    try:
        with os.fdopen(commands, "wb") as to, os.fdopen(answers, "rb", buffering=0) as back:
            yield Tab(to, back)
    finally:
        browser.terminate()
        browser.wait(timeout=30)


def _pipe() -> tuple[int, int]:
    return os.pipe()
