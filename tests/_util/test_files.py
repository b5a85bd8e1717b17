"""Files are whole or not there, whoever fails meanwhile; a lock has one holder."""

from __future__ import annotations

import errno
import os

import pytest

from pcsuite._util.files import (
    building_folder,
    file_lock,
    replace_atomically,
    replacing,
    sha256_file,
    unreadable_text,
    write_durably,
    write_errors,
)
from pcsuite.data.init_task import read_table
from pcsuite.errors import DataError, RunLockedError


def half_written(path):
    path.write_text("ne")
    raise ZeroDivisionError


def names(folder):
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("durable", [False, True])
def test_replacing_takes_the_place_only_at_the_end(tmp_path, durable):
    path = tmp_path / "table.csv"
    path.write_text("old")
    with replacing(path, durable=durable) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["table.csv"]


def test_replacing_keeps_the_old_file_after_an_error(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(path) as partial:
        half_written(partial)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["table.csv"]


def test_replacing_overwrites_what_a_killed_process_left(tmp_path):
    (tmp_path / "table.csv.partial").write_text("a very long and unfinished piece")
    with replacing(tmp_path / "table.csv") as partial:
        partial.write_text("new")
    assert names(tmp_path) == ["table.csv"]


def test_replace_atomically_writes_bytes_and_text(tmp_path):
    path = tmp_path / "state.json"
    replace_atomically(path, b"{}")
    replace_atomically(path, "é\ud800")
    assert path.read_bytes() == "é\\ud800".encode()
    assert names(tmp_path) == ["state.json"]


def test_replace_atomically_leaves_nothing_behind_when_it_fails(tmp_path):
    (tmp_path / "state.json").mkdir()
    with pytest.raises(OSError, match="state"):
        replace_atomically(tmp_path / "state.json", b"{}")
    assert names(tmp_path) == ["state.json"]


def test_a_folder_is_built_whole(tmp_path):
    with building_folder(tmp_path / "index", "meta.json") as scratch:
        (scratch / "meta.json").write_text("{}")
        assert not (tmp_path / "index").exists()
    assert names(tmp_path) == ["index"]
    with pytest.raises(ValueError, match="half"), building_folder(tmp_path / "other", "meta.json"):
        raise ValueError("half way")
    assert names(tmp_path) == ["index"]


def test_the_first_finished_folder_stays_and_an_unfinished_one_is_an_error(tmp_path):
    first = tmp_path / "index"
    with building_folder(first, "meta.json") as scratch:
        (scratch / "meta.json").write_text("second")
        first.mkdir()
        (first / "meta.json").write_text("first")
    assert (first / "meta.json").read_text() == "first"
    (first / "meta.json").rename(first / "something else")
    with pytest.raises(OSError, match="index"), building_folder(first, "meta.json"):
        pass


def test_sha256_of_a_file(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(b"abc")
    # The hash of "abc" is the first example of FIPS 180-2.
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_file(path) == expected


def test_a_held_lock_names_its_holder(tmp_path):
    lock = tmp_path / "runs" / "a.lock"
    with (
        file_lock(lock),
        pytest.raises(RunLockedError, match=rf"a: in use by process {os.getpid()}"),
        file_lock(lock, timeout=0, refusal=lambda by: f"a: in use{by}"),
    ):
        pass
    with file_lock(lock, timeout=0):
        pass


def test_text_that_is_not_utf8_is_told_by_its_line_however_far_it_stands(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"text,label\n" + b"a ticket,billing\n" * 9998 + b"M\xfcnchen,login\n")
    with pytest.raises(
        DataError, match=r"table\.csv: line 10000: byte 0xfc is not UTF-8 \(save the file as UTF-8\)$"
    ):
        read_table(path)
    assert (
        unreadable_text(path, PermissionError(13, "Permission denied"))
        == "cannot be read (Permission denied)"
    )


def test_what_the_disk_refuses_names_the_file_and_the_remedy(tmp_path):
    path = tmp_path / "none" / "table.csv"
    with (
        pytest.raises(DataError, match="No such file or directory") as raised,
        write_errors(DataError, path, "--out"),
    ):
        path.write_text("a")
    assert raised.value.message == f"{path}: cannot be written (No such file or directory)"
    assert raised.value.hint == "--out"


def test_other_errors_than_the_disks_pass(tmp_path):
    with pytest.raises(ZeroDivisionError), write_errors(DataError, tmp_path):
        half_written(tmp_path / "a")


def test_a_full_disk_names_the_file_that_was_to_be_replaced(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for write in (replace_atomically, write_durably):
        with pytest.raises(OSError, match="No space left") as caught:
            write(tmp_path / "note.txt", b"text")
        assert caught.value.filename == str(tmp_path / "note.txt")
