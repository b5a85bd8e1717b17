"""What threads share: how many linear algebra takes, and the working folder."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pcsuite.errors import require

_UNSHARE_FOLDER = 0x200
"""Linux's CLONE_FS: working folder, root and the mask of new files."""


def leave_working_folder() -> bool:
    """Give the calling thread, and those it starts, a working folder of its own: changing it moves no other thread.

    ``False`` where the system knows no such thing (only Linux does), or does not let us.
    """
    if sys.platform != "linux":
        return False
    try:
        return bool(ctypes.CDLL(None).unshare(_UNSHARE_FOLDER) == 0)
    except (OSError, AttributeError):
        return False


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep numpy's and scipy's linear algebra to one thread each within the block; as before afterwards.

    The matrices of an analysis are small: more threads spend their time waiting for each other. A probe's fit took
    70 ms with one and 3.5 s with two on a busy machine.
    """
    control = require("threadpoolctl", "stats")
    # Only libraries that are loaded can be limited, and scipy brings its own.
    require("numpy", "stats")
    require("scipy.linalg", "stats")
    with control.threadpool_limits(limits=1, user_api="blas"):
        yield
