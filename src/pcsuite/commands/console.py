"""The console that commands print tables on."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from pcsuite.runners.plan import NotApplicable

_PIPE_WIDTH = 160


def output_console() -> Console:
    """Standard output; wide where it is a file or a pipe, so that tables keep their words whole."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH, soft_wrap=False)


def not_applicable_lines(entries: Iterable[NotApplicable]) -> list[str]:
    """What cannot run and why: one line for a condition on a model, with the tasks that share the reason."""
    tasks: dict[tuple[str, str, str], list[str]] = {}
    for entry in entries:
        tasks.setdefault((entry.condition_id, entry.model_id, entry.reason), []).append(entry.task_id)
    return [
        f"{condition} × {', '.join(names)} × {model}: {reason}"
        for (condition, model, reason), names in tasks.items()
    ]
