"""The console that commands print tables on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_WIDTH = 160


def output_console() -> Console:
    """Standard output; wide where it is a file or a pipe, so that tables keep their words whole."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH, soft_wrap=False)
