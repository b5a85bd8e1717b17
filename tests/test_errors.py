"""Errors cross processes whole."""

import importlib.metadata
import pickle

import pytest

from pcsuite.errors import (
    BudgetExceededError,
    DataError,
    EngineError,
    MissingExtraError,
    PcsuiteError,
    install_words,
)


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


class Installed:
    """What pip keeps of an installation."""

    requires = (
        "numpy>=1.26",
        "starlette>=0.40; extra == 'view'",
        'uvicorn>=0.30; python_version < "3.14" and extra == "view"',
        "torch>=2.8; extra == 'hf'",
        "prompt-control-suite[view]; extra == 'hf'",
    )

    def __init__(self, source):
        self.source = source

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.source


@pytest.mark.parametrize(
    ("source", "extra", "words"),
    [
        ('{"url": "file://HERE", "dir_info": {"editable": true}}', "view", "pip install -e '.[view]'"),
        (
            '{"url": "file://HERE/far", "dir_info": {"editable": true}}',
            "view",
            "pip install -e 'HERE/far[view]'",
        ),
        ('{"url": "file://HERE/a%20b.whl"}', "view", "pip install 'HERE/a b.whl[view]'"),
        (
            '{"url": "https://h/x.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
            "view",
            "pip install 'prompt-control-suite[view] @ git+https://h/x.git@abc'",
        ),
        (
            '{"url": "https://h/x.whl", "archive_info": {}}',
            "view",
            "pip install 'prompt-control-suite[view] @ https://h/x.whl'",
        ),
        # From an index, or a wheel that is gone: what the extra needs, never a name that somebody else could hold.
        (None, "view", "pip install 'starlette>=0.40' 'uvicorn>=0.30'"),
        ('{"url": "file:///gone/x.whl"}', "hf", "pip install 'torch>=2.8' 'starlette>=0.40' 'uvicorn>=0.30'"),
    ],
)
def test_an_extra_is_installed_as_the_suite_was(source, extra, words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "far").mkdir()
    (tmp_path / "a b.whl").touch()
    here = str(tmp_path)
    given = Installed(source and source.replace("HERE", here))
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: given)
    assert install_words(extra) == words.replace("HERE", here)
    assert words.replace("HERE", here) in str(MissingExtraError("starlette", extra))


def test_from_a_source_tree_that_is_not_installed(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    assert install_words("view") == "pip install -e '.[view]'"
