"""The resume index: newest row counts, errors are tried again, damage is counted."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from pcsuite.logging.index import ResumeIndex


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
    index = index_of(
        tmp_path, line("a"), "not json\n", '{"errors": []}\n', '{"run_id": "zz", "errors": []}\n', line("b")
    )
    assert index.malformed == [2, 3, 4]
    assert index.malformed_count == 3
    assert run_id("b") in index


def test_missing_file_is_an_empty_index(tmp_path):
    assert len(ResumeIndex.read(tmp_path / "none.jsonl")) == 0


def test_added_ids_count_at_once(tmp_path):
    index = index_of(tmp_path, line("b", "500"))
    index.add(run_id("b"))
    index.add(run_id("new"))
    assert run_id("b") in index
    assert run_id("new") in index
    assert index.failed == 0


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
