"""The resume index: newest row counts, errors are tried again, damage is counted."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.errors import RunLockedError
from pcsuite.integrations.promptbench.attacks import AttackStore
from pcsuite.logging.log import ResumeIndex, RunLog, RunPaths, iter_rows, newest_rows, read_prompts
from pcsuite.logging.manifest import RunManifest, write_manifest
from pcsuite.logging.scored_rows import LoggedScores
from pcsuite.logging.segments import Beside
from support.rows import make_row


def run_id(name):
    return hashlib.sha256(str(name).encode()).hexdigest()


def line(name, *errors):
    quoted = ", ".join(f'"{error}"' for error in errors)
    return f'{{"run_id": "{run_id(name)}", "other": {{"deep": [1, 2]}}, "errors": [{quoted}]}}\n'


def index_of(tmp_path, *lines):
    path = tmp_path / "run.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return ResumeIndex.read(path)


def test_done_failed_and_unknown(tmp_path):
    index = index_of(tmp_path, line("a"), line("b", "500"), line("c"))
    assert run_id("a") in index
    assert run_id("b") not in index
    assert run_id("z") not in index
    assert (len(index), index.failed, index.rows) == (2, 1, 3)


def test_newest_row_counts(tmp_path):
    index = index_of(tmp_path, line("a", "500"), line("a"), line("b"), line("b", "500"))
    assert run_id("a") in index
    assert run_id("b") not in index


def test_malformed_lines_are_counted_and_named(tmp_path):
    foreign_id = '{"run_id": "zz", "errors": []}\n'  # no hash, and an id all the same
    index = index_of(tmp_path, line("a"), "not json\n", '{"errors": []}\n', foreign_id, line("b"))
    assert index.malformed == [2, 3]
    assert index.malformed_count == 2
    assert run_id("b") in index
    assert "zz" in index
    assert "zy" not in index


def test_scores_are_those_of_the_rows_that_are_there_and_of_each_that_is_appended(tmp_path):
    paths = RunPaths.of(tmp_path, "run")
    score = {"task_score": 0.25, "answered": True}
    with RunLog(paths) as log:
        for row in (
            make_row(item="a", metrics=score),
            make_row(item="b", errors=("500",), metrics=score),
            make_row(item="c", metrics={"answered": True}),
            make_row(item="d", metrics=score),
            make_row(item="d", errors=("500",), metrics={}),
        ):
            log.append(row)
    with paths.log.open("a") as file:
        file.write(line("e") + "no row\n")
    scores = LoggedScores()
    with RunLog(paths, scores=scores) as log:
        # Failed, without the metric, or with a newer row that failed: none.
        assert scores.values == {make_row(item="a").run_id: 0.25}
        assert (log.index.rows, log.index.malformed, log.index.failed) == (6, [7], 2)
        assert run_id("e") in log.index
        log.append(make_row(item="b", metrics={"task_score": True}))
        assert scores.values == {make_row(item="a").run_id: 0.25, make_row(item="b").run_id: 1.0}


def test_missing_file_is_an_empty_index(tmp_path):
    assert len(ResumeIndex.read(tmp_path / "none.jsonl")) == 0


def test_added_ids_count_at_once(tmp_path):
    index = index_of(tmp_path, line("b", "500"))
    index.add(run_id("b"))
    index.add(run_id("new"))
    assert run_id("b") in index
    assert run_id("new") in index
    assert index.failed == 0


@pytest.mark.slow
@given(st.lists(st.integers(0, 30), max_size=60), st.lists(st.integers(0, 30), max_size=10))
def test_agrees_with_a_set(done, asked):
    keys = b"".join(bytes.fromhex(run_id(name)[:32]) for name in done)
    index = ResumeIndex(keys)
    assert len(index) == len(set(done))
    for name in asked:
        assert (run_id(name) in index) == (name in set(done))


def test_ids_that_share_their_first_half_are_told_apart():
    index = ResumeIndex(bytes.fromhex("00" * 8 + "01" * 8) + bytes.fromhex("00" * 8 + "03" * 8))
    assert "00" * 8 + "01" * 8 + "ff" * 16 in index
    assert "00" * 8 + "02" * 8 + "ff" * 16 not in index
    assert "00" * 8 + "03" * 8 + "ff" * 16 in index


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


def test_what_lies_beside_a_log_is_set_aside_with_it(paths):
    """Labels, attacks and samples are about the rows of the old log: beside a new one they would be about others."""
    paths.log.parent.mkdir(exist_ok=True)
    AttackStore.of(paths).path.write_text("{}")
    for _ in range(2):
        with RunLog(paths, overwrite=True) as log:
            log.append(make_row(item="old"), "old prompt")
        write_manifest(paths.log, RunManifest())
        for path in (
            Beside.LABELS.of(paths.log),
            Beside.JUDGE_SAMPLE.of(paths.log),
            Beside.JUDGE_CHECK.of(paths.log),
        ):
            path.write_text("{}")
    left = {path.name.removeprefix(paths.log.stem) for path in paths.log.parent.iterdir()}
    endings = {
        ".jsonl",
        ".prompts.z",
        ".manifest.json",
        ".labels.ndjson",
        ".judge_sample.json",
        ".judge_check.json",
    }
    assert left == endings | {f".old-2{ending}" for ending in endings} | {
        ".old-1.jsonl",
        ".old-1.attacks.json",
    }


def test_batches_without_a_row_are_set_aside_too(paths):
    (paths.log.parent / f"{paths.log.stem}~batches").mkdir(parents=True)
    with RunLog(paths, overwrite=True):
        pass
    assert (paths.log.parent / f"{paths.log.stem}.old-1~batches").is_dir()


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
