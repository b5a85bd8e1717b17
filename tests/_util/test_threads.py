"""Linear algebra keeps to one thread within the block, and takes what it took before afterwards."""

import numpy as np
import scipy.linalg  # noqa: F401 - its library is limited too
import threadpoolctl

from pcsuite._util.threads import one_blas_thread


def blas_threads():
    return [entry["num_threads"] for entry in threadpoolctl.threadpool_info() if entry["user_api"] == "blas"]


def test_one_thread_within_and_as_before_after():
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        with one_blas_thread():
            assert set(blas_threads()) == {1}
        assert blas_threads() == before
