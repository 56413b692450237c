"""Headless Chromium over its debugging pipe: open a page, run JavaScript in it, press keys, take pictures.

Speaks the DevTools protocol on file descriptors 3 and 4, so it needs neither a driver nor a web socket. Only
what the tests use.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-pipe", "--force-color-profile=srgb",
)  # fmt: skip
KEYS = {"Enter": "\r", "Tab": "", " ": " "}
PATIENCE_S = 60.0


def find_chrome() -> str | None:
    """Chromium or Chrome, if this machine has it."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Chrome:
    """One browser with one page. A context manager."""

    def __init__(self, profile: Path) -> None:
        command = find_chrome()
        assert command is not None
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # The browser reads commands at 3 and answers at 4. First out of the way of these numbers.
        low, high = (os.dup(os.dup(fd)) for fd in (to_browser, from_browser))
        script = f'exec "$@" 3<&{low} 4>&{high}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "chrome", command, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(low, high),
            stderr=subprocess.DEVNULL,
        )
        for fd in {to_browser, from_browser, low, high}:
            os.close(fd)
        self._buffer = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        """Everything that the browser reported since `open`."""
        target = self._call("Target.createTarget", {"url": "about:blank"}, session=None)["targetId"]
        self._session = self._call(
            "Target.attachToTarget", {"targetId": target, "flatten": True}, session=None
        )["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> "Chrome":
        return self

    def __exit__(self, *error: object) -> None:
        self._call("Browser.close", session=None)
        self._process.wait(PATIENCE_S)
        os.close(self._read)
        os.close(self._write)

    def open(self, page: Path, width: int = 1280, height: int = 900, theme: str = "light") -> None:
        """Load a file at a size and under a system theme (`light` or `dark`)."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", metrics)
        self.media(theme)
        self.events.clear()
        self._call("Page.navigate", {"url": page.as_uri()})
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def media(self, theme: str, media: str = "") -> None:
        """The system's theme, and `print` or the screen."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self._call("Emulation.setEmulatedMedia", {"media": media, "features": features})

    def run(self, expression: str) -> Any:
        """The JSON value of an expression in the page; an error of the page is one of the test."""
        arguments = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = self._call("Runtime.evaluate", arguments)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.run(expression):
            assert time.monotonic() < deadline, f"never true: {expression}"
            time.sleep(0.02)

    def press(self, key: str, shift: bool = False) -> None:
        """One key, as a person would."""
        named = {"key": key, "modifiers": 8 if shift else 0, "windowsVirtualKeyCode": _code(key)}
        text = KEYS.get(key, key if len(key) == 1 else "")
        self._call("Input.dispatchKeyEvent", {"type": "keyDown", "text": text, **named})
        self._call("Input.dispatchKeyEvent", {"type": "keyUp", **named})

    def click(self, selector: str) -> None:
        """The middle of an element, with the mouse."""
        x, y = self.run(
            f"""(async () => {{
                const element = document.querySelector({json.dumps(selector)});
                element.scrollIntoView({{ block: "center", behavior: "instant" }});
                // What the mouse hits is decided by the last frame that was drawn.
                for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
                const box = element.getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"""
        )
        for kind in ("mousePressed", "mouseReleased"):
            event = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}
            self._call("Input.dispatchMouseEvent", event)

    def picture(self, path: Path, whole: bool = False) -> None:
        """A PNG of the window, or of the whole page."""
        data = self._call("Page.captureScreenshot", {"captureBeyondViewport": whole, **self._clip(whole)})[
            "data"
        ]
        path.write_bytes(base64.b64decode(data))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {**size, "scale": 1}}

    @property
    def complaints(self) -> list[str]:
        """Errors, warnings and exceptions in the console, and everything the page asked the network for."""
        found = []
        for event in self.events:
            values = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(values["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
                found.append(values["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning"):
                found.append(str(values["args"]))
            elif event["method"] == "Network.requestWillBeSent":
                url = values["request"]["url"]
                if not url.startswith(("data:", "file:")) or values.get("type") != "Document":
                    found.append(f"request: {url[:200]}")
        return found

    def _call(
        self, method: str, arguments: Mapping[str, Any] | None = None, session: str | None = "page"
    ) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": dict(arguments or {})}
        if session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            if "method" in answer:
                self.events.append(answer)

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed


def _code(key: str) -> int:
    codes = {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
             "ArrowDown": 40, "Home": 36, "End": 35, "PageDown": 34, "PageUp": 33}  # fmt: skip
    return codes.get(key, ord(key.upper()) if len(key) == 1 else 0)
