"""One process at a time on a run."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from pcsuite.errors import RunLockedError


class RunLock:
    """An advisory lock on a file beside the log; it goes with the process, however that ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def __enter__(self) -> RunLock:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 64).decode("ascii", "replace").strip()
            os.close(descriptor)
            by = f" by process {holder}" if holder else ""
            raise RunLockedError(
                f"{self.path.with_suffix('')}: the run is in use{by}",
                hint="wait for it to end, or give this run another name with --name",
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
