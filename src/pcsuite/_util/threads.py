"""How many threads linear algebra may take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pcsuite.errors import require


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
