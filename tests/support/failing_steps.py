"""The operating system as the changes of files call it, of which the Nth call that alters anything fails or kills."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from typing import Any

from pcsuite._util import changes

ALTERING = ("open", "write", "fsync", "replace", "rename", "unlink")


class FailingSystem:
    """The module ``os``; its call number ``at`` (from 1) of those that alter something does ``act`` first."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self._at, self._act = at, act
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        true = getattr(os, name)
        if name not in ALTERING:
            return true

        def counted(*args: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == self._at:
                self._act()
            return true(*args, **options)

        return counted


def disk_full() -> None:
    """What a full disk says."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def kill_at(number: int | str) -> None:
    """Have this process die, as by ``kill -9``, at the Nth call that alters anything of a change."""
    changes.os = FailingSystem(int(number), lambda: os.kill(os.getpid(), signal.SIGKILL))  # type: ignore[attr-defined]
