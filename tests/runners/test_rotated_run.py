"""A run whose log is rotated is the same run."""

import msgspec
import pytest

from pcsuite.analysis.load.runs import RunTables
from pcsuite.config.load import load_suite
from pcsuite.logging.log import iter_rows
from pcsuite.logging.segments import closed_segments
from pcsuite.runners.estimate import estimate_plan
from pcsuite.runners.plan import build_plan
from pcsuite.runners.rescore import rescore
from pcsuite.runners.run_suite import run_suite
from support.profiles import write_profile

ROTATED = {"run.rotate_log_mb": 0.02}


def contents(rows):
    """Rows without what differs from run to run."""
    plain = [msgspec.to_builtins(row) for row in rows]
    for row in plain:
        del row["timestamp_utc"], row["config_hash"]
        if row["generation"]:
            del row["generation"]["latency_ms"]
    return sorted(plain, key=lambda row: row["run_id"])


@pytest.mark.slow
def test_a_rotated_run_is_resumed_rescored_planned_and_loaded_as_one(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    path = write_profile(tmp_path / "a", items=6)
    part = load_suite(path, ROTATED | {"limits.max_items_per_task": 3})
    whole = load_suite(path, ROTATED)
    first = run_suite(part, quiet=True)
    log = first.paths.log
    before = len(closed_segments(log))
    rest = run_suite(whole, quiet=True)
    assert len(closed_segments(log)) > before >= 1
    assert (rest.skipped, rest.tally.done) == (first.tally.done, first.tally.done)
    assert all(segment.compressed for segment in closed_segments(log))
    assert sum(entry.left for entry in estimate_plan(build_plan(whole))) == 0
    outcome = rescore(whole)
    assert (outcome.rows, outcome.changed) == (rest.skipped + rest.tally.done, 0)

    plain = run_suite(load_suite(write_profile(tmp_path / "b", items=6)), quiet=True)
    assert closed_segments(plain.paths.log) == []
    assert contents(iter_rows(log)) == contents(iter_rows(plain.paths.log))
    with RunTables([log], tmp_path / "tables") as tables:
        assert tables.loaded.rows == plain.tally.done
        assert tables.loaded.superseded == tables.loaded.malformed_count == 0
