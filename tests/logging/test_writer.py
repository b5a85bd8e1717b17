"""The run log: locked, repaired, resumed."""

import pytest

from pcsuite.errors import RunLockedError
from pcsuite.logging.prompt_store import read_prompts
from pcsuite.logging.reader import iter_rows, newest_rows
from pcsuite.logging.writer import RunLog, RunPaths
from support.rows import make_row


@pytest.fixture
def paths(tmp_path):
    return RunPaths.of(tmp_path, "r")


def test_rows_and_prompts_survive_and_are_indexed(paths):
    first, second = make_row(item="a"), make_row(item="b", errors=("500",))
    with RunLog(paths) as log:
        log.append(first, "prompt a")
        log.append(second, "prompt b")
        log.append(make_row(item="a", seed=1), "prompt a")
    with RunLog(paths) as log:
        assert first.run_id in log.index
        assert second.run_id not in log.index
    stored = read_prompts(paths.prompts, [first.prompt.prompt_hash, second.prompt.prompt_hash])
    assert sorted(stored.values()) == ["prompt a", "prompt b"]


def test_each_prompt_is_kept_once_even_over_sessions(paths):
    for _ in range(2):
        with RunLog(paths) as log:
            log.append(make_row(item="a"), "same prompt")
    assert len(paths.prompts.read_bytes().splitlines()) == 1


def test_a_torn_last_line_is_cut_and_the_row_runs_again(paths):
    with RunLog(paths) as log:
        log.append(make_row(item="a"))
        log.append(make_row(item="b"))
    whole = paths.log.read_bytes()
    paths.log.write_bytes(whole[:-40])
    with RunLog(paths) as log:
        assert log.repaired_bytes > 0
        assert make_row(item="a").run_id in log.index
        assert make_row(item="b").run_id not in log.index
        log.append(make_row(item="b"))
    assert paths.log.read_bytes() == whole


def test_a_second_process_is_refused(paths):
    with RunLog(paths), pytest.raises(RunLockedError, match=r"in use by process \d+"), RunLog(paths):
        pass
    with RunLog(paths):
        pass


def test_overwrite_sets_the_old_log_aside(paths):
    with RunLog(paths) as log:
        log.append(make_row(item="old"), "old prompt")
    with RunLog(paths, overwrite=True) as log:
        assert len(log.index) == 0
    assert make_row(item="old").run_id in paths.log.with_suffix(".old-1.jsonl").read_text()


def test_reader_takes_the_newest_row_and_names_damage(paths):
    with RunLog(paths) as log:
        log.append(make_row(item="a", errors=("500",)))
        log.append(make_row(item="a"))
    with paths.log.open("ab") as stream:
        stream.write(b"damaged\n")
    malformed = []
    assert [row.errors for row in newest_rows(paths.log, malformed)] == [[]]
    assert malformed == [3]
    assert len(list(iter_rows(paths.log))) == 2
