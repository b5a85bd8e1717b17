"""Errors cross processes whole."""

import pickle

import pytest

from pcsuite.errors import BudgetExceededError, DataError, EngineError, MissingExtraError, PcsuiteError


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


def test_what_is_quoted_of_a_file_leaves_the_line_its_beginning_and_its_remedy():
    error = DataError(
        "items.jsonl line 1: key 'id' is missing", hint=f"the row has {'[' * 5000}, or name it id"
    )
    assert len(str(error)) == 900
    assert str(error).startswith("items.jsonl line 1: key 'id' is missing (the row has [[")
    assert str(error).endswith("[[, or name it id)")
