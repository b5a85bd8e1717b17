"""Kills a process of its own at the Nth thing it does about a batch: before or after a note, a file, or a row."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from pcsuite.engines import batches
from pcsuite.runners.progress import RowSink


def arm(number: str) -> None:
    """Die at that point, counted from 1 over everything below."""
    left = int(number)

    def point() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            point()
            result = function(*args, **kwargs)
            point()
            return result

        return wrapped

    batches.BatchStore.note = around(batches.BatchStore.note)  # type: ignore[method-assign]
    batches.replace_atomically = around(batches.replace_atomically)
    RowSink.accept = around(RowSink.accept)  # type: ignore[method-assign]
