"""Append-only files: whole lines or nothing."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite._util.append import AppendFile, append_durably, read_lines
from pcsuite.errors import LogError


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (b"", b""),
        (b"one\n", b"one\n"),
        (b"one\ntwo", b"one\n"),
        (b"torn", b""),
        (b"one\n" + b"x" * 200_000, b"one\n"),
        (b"a" * 200_000 + b"\n" + b"x" * 70_000, b"a" * 200_000 + b"\n"),
    ],
)
def test_repair_cuts_only_an_unfinished_line(tmp_path, content, kept):
    path = tmp_path / "log"
    path.write_bytes(content)
    file = AppendFile(path)
    file.close()
    assert file.repaired_bytes == len(content) - len(kept)
    assert path.read_bytes() == kept


@pytest.mark.slow
@given(
    st.lists(st.binary(max_size=50).map(lambda b: b.replace(b"\n", b"")), max_size=20), st.binary(max_size=20)
)
def test_lines_come_back_whatever_was_torn(tmp_path_factory, lines, torn):
    path = tmp_path_factory.mktemp("f") / "log"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + torn.replace(b"\n", b""))
    file = AppendFile(path)
    file.write(b"after\n")
    file.close()
    assert list(read_lines(path)) == [*lines, b"after"]


def test_a_write_that_does_not_fit_leaves_no_trace(tmp_path, monkeypatch):
    path = tmp_path / "log"
    file = AppendFile(path)
    file.write(b"first\n")
    real_write = os.write
    calls = iter([3])

    def failing(descriptor, data):
        room = next(calls, None)
        if room is None:
            raise OSError(28, "No space left on device")
        return real_write(descriptor, data[:room])

    monkeypatch.setattr(os, "write", failing)
    with pytest.raises(LogError, match="No space left on device.*free some space"):
        file.write(b"second\n")
    monkeypatch.undo()
    assert path.read_bytes() == b"first\n"
    file.write(b"third\n")
    file.close()
    assert path.read_bytes() == b"first\nthird\n"


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "runs").write_text("a file where a folder should be")
    with pytest.raises(LogError, match="cannot be opened for writing"):
        AppendFile(tmp_path / "runs" / "x.jsonl")


def test_lines_appended_durably_stand_after_the_last_whole_one(tmp_path):
    path = tmp_path / "n.ndjson"
    append_durably(path, b"one\n")
    path.write_bytes(path.read_bytes() + b"torn by a kill")
    append_durably(path, b"two\nthree\n")
    assert path.read_bytes() == b"one\ntwo\nthree\n"
