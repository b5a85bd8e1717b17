"""``<run>.stop`` beside a log: how a run that goes on is asked to stop by whoever looks at it.

A run that can be stopped offers the file for as long as it goes on; whoever may write to it asks by writing one word
into it. No process has to be known and no signal crosses: it is the same for a run on this computer, in a notebook, on
a cluster or in another container, and the system's own permissions say who may ask. Where there is no such file, the
run is stopped only where it was started.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pcsuite.errors import ConfigError
from pcsuite.logging.segments import Beside

_GOING, _STOP = b"going\n", b"stop\n"


@contextmanager
def offering_to_stop(log: Path) -> Iterator[None]:
    """Let the run of a log be asked to stop (:func:`is_asked_to_stop`) while the block lasts.

    For the one process that holds the log. A request that was made of an earlier start is forgotten; where the file
    cannot be written, nobody can ask.
    """
    path = Beside.STOP.of(log)
    with suppress(OSError):
        path.write_bytes(_GOING)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def is_asked_to_stop(log: Path) -> bool:
    """Whether somebody asked the run of a log to stop, and it has not ended yet."""
    try:
        return Beside.STOP.of(log).read_bytes() == _STOP
    except OSError:
        return False


def why_not_stoppable(log: Path) -> str:
    """Why the run of a log cannot be asked to stop from here, in words; empty where it can."""
    try:
        # Not for appending, which would make the file where a run has just ended.
        with Beside.STOP.of(log).open("rb+"):
            return ""
    except FileNotFoundError:
        return "this run takes no requests"
    except OSError as error:
        return f"it is not yours to stop ({error.strerror or error})"


def ask_to_stop(log: Path) -> None:
    """Ask the run of a log to begin no further row; what is under way is finished and logged.

    Raises ``ConfigError`` where it cannot be asked: it has ended, takes no requests, or is another user's.
    """
    try:
        with Beside.STOP.of(log).open("rb+") as stream:
            stream.write(_STOP)
            stream.truncate()
    except OSError:
        why = why_not_stoppable(log) or "it has just ended"
        raise ConfigError(
            f"run '{log.stem}' cannot be stopped from here: {why}", hint="Ctrl-C where it was started"
        ) from None
