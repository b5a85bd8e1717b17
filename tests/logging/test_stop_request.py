"""A run is asked to stop through the file that it offers, and through nothing else."""

from __future__ import annotations

import os

import pytest

from pcsuite.errors import ConfigError
from pcsuite.logging.log import RunLog, RunPaths
from pcsuite.logging.segments import Beside
from pcsuite.logging.stop_request import (
    ask_to_stop,
    is_asked_to_stop,
    offering_to_stop,
    why_not_stoppable,
)


def test_a_request_is_heard_while_it_is_offered_and_forgotten_by_the_next_start(tmp_path):
    log = tmp_path / "one.jsonl"
    with pytest.raises(ConfigError, match="cannot be stopped from here: this run takes no requests"):
        ask_to_stop(log)
    assert not Beside.STOP.of(log).exists()
    with offering_to_stop(log):
        assert not is_asked_to_stop(log)
        assert why_not_stoppable(log) == ""
        ask_to_stop(log)
        ask_to_stop(log)
        assert is_asked_to_stop(log)
    assert not is_asked_to_stop(log)
    Beside.STOP.of(log).write_bytes(b"stop\n")  # of a start that was killed
    with offering_to_stop(log):
        assert not is_asked_to_stop(log)


def test_opening_a_log_takes_away_what_a_killed_start_left(tmp_path):
    paths = RunPaths.of(tmp_path, "one")
    paths.log.parent.mkdir(parents=True)
    Beside.STOP.of(paths.log).write_bytes(b"stop\n")
    with RunLog(paths, overwrite=True):
        assert [path.name for path in paths.log.parent.iterdir() if path.suffix == ".stop"] == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anything")
def test_another_users_run_says_that_it_is_not_ours(tmp_path):
    log = tmp_path / "one.jsonl"
    with offering_to_stop(log):
        Beside.STOP.of(log).chmod(0o444)
        assert why_not_stoppable(log) == "it is not yours to stop (Permission denied)"
        with pytest.raises(ConfigError, match="not yours to stop"):
            ask_to_stop(log)
        assert not is_asked_to_stop(log)
