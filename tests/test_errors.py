"""Errors cross processes whole."""

import pickle

import pytest

from pcsuite.errors import BudgetExceededError, EngineError, MissingExtraError, PcsuiteError


@pytest.mark.parametrize(
    "error",
    [
        PcsuiteError("broken", hint="mend it"),
        MissingExtraError("ray", "ray"),
        EngineError("busy", retryable=True, status=429, retry_after=1.5),
        BudgetExceededError("used up"),
    ],
)
def test_an_error_is_the_same_after_pickling(error):
    there = pickle.loads(pickle.dumps(error))
    assert type(there) is type(error)
    assert str(there) == str(error)
    assert there.__dict__ == error.__dict__
    assert there.args == error.args
