"""A headless Chromium spoken to over a pipe (the DevTools protocol), with the standard library alone."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_chromium() -> str | None:
    """Path of an installed Chromium, or ``None``."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page in a headless Chromium; nothing may be requested from outside."""

    def __init__(self, profile: Path, width: int = 1280, height: int = 900) -> None:
        self._width, self._height = width, height
        self._profile = profile
        self._count = 0
        self._buffer = b""
        self.requests: list[str] = []
        """Every URL the page asked for."""
        self.console: list[str] = []
        """Errors and security reports of the page."""

    def __enter__(self) -> Browser:
        chromium = find_chromium()
        assert chromium is not None
        read_commands, self._commands = os.pipe()
        self._answers, write_answers = os.pipe()
        flags = (
            "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run"
            f" --disable-dev-shm-usage --remote-debugging-pipe --window-size={self._width},{self._height}"
        )
        command = f'exec "$0" {flags} --user-data-dir="$1" about:blank 3<&{read_commands} 4>&{write_answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, chromium, str(self._profile)],
            pass_fds=(read_commands, write_answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_answers)
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = None
        attached = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable", {})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)
        os.close(self._commands)
        os.close(self._answers)

    def open(self, path: Path) -> None:
        """Load a local file and wait until it is ready."""
        self._call("Page.navigate", {"url": path.resolve().as_uri()})
        deadline = time.monotonic() + 60
        while self.run("document.readyState") != "complete" or self.run("location.protocol") != "file:":
            assert time.monotonic() < deadline, "the page did not load"
            time.sleep(0.05)

    def goto(self, url: str) -> None:
        """Load an address of a server on this computer and wait until it is ready."""
        self._call("Page.navigate", {"url": url})
        self.settle()

    def settle(self) -> None:
        """Wait until the page that is being loaded is ready."""
        time.sleep(0.1)
        deadline = time.monotonic() + 60
        while self.run("document.readyState") != "complete":
            assert time.monotonic() < deadline, "the page did not load"
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self._call(
                "Input.dispatchKeyEvent", {"type": kind, "key": key, **(text if kind == "keyDown" else {})}
            )

    def run(self, script: str) -> Any:
        """Value of a JavaScript expression in the page."""
        result = self._call("Runtime.evaluate", {"expression": script, "returnByValue": True})
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def set_width(self, width: int, height: int | None = None) -> None:
        """Lay the page out as on a screen of this width, and this height where it is given."""
        metrics = {
            "width": width,
            "height": height or self._height,
            "deviceScaleFactor": 1,
            "mobile": width < 700,
        }
        self._call("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """Ask for the ``light`` or the ``dark`` colour scheme."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._call("Emulation.setEmulatedMedia", {"features": [feature]})

    def serious_faults(self, axe: Path) -> list[str]:
        """What axe-core (its ``axe.min.js``) calls serious or critical on the page, with the first element of each."""
        self.run(axe.read_text(encoding="utf-8") + ";0")
        self.run("window.faults = undefined; axe.run().then(r => { window.faults = r.violations; }); 0")
        deadline = time.monotonic() + 60
        while self.run("window.faults === undefined"):
            assert time.monotonic() < deadline, "axe did not end"
            time.sleep(0.05)
        serious = "['serious', 'critical'].includes(f.impact)"
        return list(self.run(f"window.faults.filter(f => {serious}).map(f => f.id + ': ' + f.nodes[0].html)"))

    def screenshot(self, path: Path) -> Path:
        """Save what the window shows."""
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", {})["data"]))
        return path

    def _call(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if getattr(self, "_session", None):
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == self._count:
                assert "error" not in found, found
                return dict(found["result"])
            self._note(found)

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif event.get("method") == "Log.entryAdded":
            self.console.append(parameters["entry"]["text"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.console.append(parameters["exceptionDetails"]["text"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._answers, 1 << 20)
            assert chunk, "the browser went away"
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))
