"""A viewer that listens: for the command until Ctrl-C, for Python in a thread of its own."""

from __future__ import annotations

import signal
import socket
import tempfile
import threading
import webbrowser
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from pcsuite.config.load import Suite
from pcsuite.errors import ConfigError, require
from pcsuite.view.figures import prepare_drawing
from pcsuite.view.server import ENTRANCE, make_app, new_token
from pcsuite.view.viewer import MAX_WAIT_S, Viewer

_ENTRANCE_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}"><title>pcsuite view</title></head>
<body><p><a href="{url}">pcsuite view</a></p></body></html>
"""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Serving:
    """The pages of an output folder behind a token, on a port that is bound as soon as this is made.

    Raises ``ConfigError`` where others could reach it without a token of one's own, and where the port cannot be had.
    """

    def __init__(
        self,
        output_dir: Path,
        run: str | None = None,
        suite: Suite | None = None,
        evals: Path | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
    ) -> None:
        uvicorn = require("uvicorn", "view")
        if host not in LOOPBACK and not token:
            raise ConfigError(f"--host {host}: others could reach it", hint="say --token SECRET too")
        self._listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind((host, port))
        except (OSError, OverflowError) as error:
            self._listener.close()
            raise ConfigError(
                f"port {port} of {host} cannot be had ({error})", hint="choose another"
            ) from error
        self._listener.listen(128)  # from here on a browser that is too early waits
        bound = self._listener.getsockname()[1]
        token = token or new_token()
        names = ("127.0.0.1", "localhost", "[::1]", host, socket.gethostname())
        self._viewer = Viewer(output_dir, suite, evals, max_wait=MAX_WAIT_S)
        app = make_app(self._viewer, token=token, hosts=frozenset(f"{name}:{bound}" for name in names))
        # Without its own logging: to set that up it would close every handler of the process, a notebook's own too.
        self._server: Any = uvicorn.Server(
            uvicorn.Config(app, log_config=None, log_level="error", access_log=False, ws="none")
        )
        self._thread: threading.Thread | None = None
        path = f"/run/{run}" if run else "/"
        self._root = f"http://{'127.0.0.1' if host == '::1' else host}:{bound}"
        self.url = f"{self._root}{path}?token={token}"
        """Address for a browser, token included."""
        self._entrance = f"{self._root}{ENTRANCE}?{urlencode({'token': token, 'to': path})}"
        self._places = (output_dir, Path(tempfile.gettempdir()))
        self._opened: Path | None = None

    def run(self) -> None:
        """Serve until Ctrl-C."""
        # The first figure would wait a second for the drawing library, which is loaded while a reader looks around.
        threading.Thread(target=prepare_drawing, name="pcsuite-view-drawing", daemon=True).start()
        hangup: Any = getattr(signal, "SIGHUP", None)
        before = signal.getsignal(hangup) if hangup is not None else None
        heard = False

        def end(*_: object) -> None:
            nonlocal heard
            heard = self._server.should_exit = True

        # The server ends in good order by SIGINT and SIGTERM alone; what SIGHUP raises would cut through its loop.
        if (
            is_main := hangup is not None
            and callable(before)
            and threading.current_thread() is threading.main_thread()
        ):
            signal.signal(hangup, end)
        try:
            self._server.run(sockets=[self._listener])
        finally:
            if is_main:
                signal.signal(hangup, before)
            self._viewer.close()
            self._remove_entrance()
        if heard:
            signal.raise_signal(hangup)

    def start(self) -> None:
        """Serve from a thread; returns at once."""
        self._thread = threading.Thread(target=self.run, name="pcsuite-view", daemon=True)
        self._thread.start()

    def open(self) -> None:
        """Show it in a browser, which is given a file that only this user can read.

        Everybody on the computer sees the words that a browser is started with; the token is not among them.
        """
        if self._opened is None:
            self._opened = self._entrance_file()
        webbrowser.open(self._opened.absolute().as_uri())

    def _entrance_file(self) -> Path:
        page = _ENTRANCE_PAGE.format(url=escape(self._entrance, quote=True))
        for folder in self._places:
            with suppress(OSError):
                # Made with the mode 600; in the folder of the runs where it can be, since some browsers see no others.
                handle, name = tempfile.mkstemp(prefix=".pcsuite-view-", suffix=".html", dir=folder)
                with open(handle, "w", encoding="utf-8") as stream:
                    stream.write(page)
                return Path(name)
        raise ConfigError("no file can be written for the browser", hint="--no-open, then open the address")

    def close(self) -> None:
        """End it and wait until it has ended."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
        else:
            self._viewer.close()
        self._listener.close()
        self._remove_entrance()

    def _remove_entrance(self) -> None:
        if self._opened is not None:
            self._opened.unlink(missing_ok=True)
            self._opened = None

    def __repr__(self) -> str:
        return f"Serving({self.url!r})"

    def _repr_html_(self) -> str:
        """A link, for notebooks: the pages let themselves be shown in no frame."""
        url = escape(self.url, quote=True)
        return (
            f'<a href="{url}" target="_blank" rel="noopener">pcsuite view</a> (until <code>.close()</code>)'
        )
