"""Changes of several files at every step of which the disk is full or the process killed."""

import errno
import hashlib
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pcsuite._util import changes
from pcsuite._util.changes import changing_files, settle_changes
from pcsuite.errors import LogError, RunLockedError
from support.failing_steps import FailingSystem, disk_full

OLD = {"kept.txt": "old kept", "page.html": "old page", "aside.txt": "old aside", "gone.txt": "old gone"}
NEW = {"kept.txt": "old kept", "page.html": "new page", "moved.txt": "old aside", "made/new.txt": "new file"}
STEPS = 24
"""More than there are: a later step is never reached, and the change is made."""


def fill(folder):
    for name, text in OLD.items():
        (folder / name).write_text(text)


def change(folder):
    with changing_files(folder / ".x.changes") as together:
        together.write(folder / "page.html", "new page")
        together.move(folder / "aside.txt", folder / "moved.txt")
        together.remove(folder / "gone.txt")
        together.write(folder / "made" / "new.txt", "new file")


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()
    }


def test_all_of_it_happens(tmp_path):
    fill(tmp_path)
    change(tmp_path)
    assert contents(tmp_path) == NEW


def test_an_error_in_the_block_leaves_everything(tmp_path):
    fill(tmp_path)
    with suppress(ValueError), changing_files(tmp_path / ".x.changes") as together:
        together.write(tmp_path / "page.html", "new page")
        together.remove(tmp_path / "gone.txt")
        int("no number")
    assert contents(tmp_path) == OLD


def test_a_full_disk_at_any_step(tmp_path, monkeypatch):
    reached = []
    for step in range(1, STEPS):
        folder = tmp_path / str(step)
        folder.mkdir()
        fill(folder)
        with monkeypatch.context() as patch:
            system = FailingSystem(step, disk_full)
            patch.setattr(changes, "os", system)
            with suppress(OSError):
                change(folder)
        settle_changes(folder / ".x.changes")
        now = contents(folder)
        assert now in (OLD, NEW), f"step {step}: {now}"
        reached.append(now == NEW)
        change_again = reached[-1] is False
        if change_again:
            change(folder)
            assert contents(folder) == NEW
    assert reached == sorted(reached), "once it has happened no later failure undoes it"
    assert not reached[0]
    assert reached[-1]
    assert system.calls < STEPS - 1, "every step was failed once"


KILLED = """
import sys
sys.path[:0] = sys.argv[3:]
from pathlib import Path
from support.failing_steps import kill_at
from _util.test_changes import change
kill_at(int(sys.argv[2]))
change(Path(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_kill_at_any_step(tmp_path):
    reached = []
    for step in range(1, STEPS):
        folder = tmp_path / str(step)
        folder.mkdir()
        fill(folder)
        words = [sys.executable, "-c", KILLED, str(folder), str(step), str(Path(__file__).parents[1])]
        ended = subprocess.run(words, check=False).returncode
        assert ended in (0, -9)
        settle_changes(folder / ".x.changes")
        assert contents(folder) in (OLD, NEW), f"step {step}"
        reached.append((contents(folder) == NEW, ended))
        if ended == 0:
            break
    assert reached == sorted(reached, key=lambda pair: (pair[0], pair[1]))
    assert (False, -9) in reached
    assert (True, -9) in reached
    assert reached[-1] == (True, 0)


def test_a_folder_takes_its_place_with_the_files(tmp_path):
    with changing_files(tmp_path / ".x.changes") as together:
        partial = together.stage(tmp_path / "iteration-001")
        partial.mkdir()
        (partial / "results.json").write_text("{}")
        assert not (tmp_path / "iteration-001").exists()
    assert (tmp_path / "iteration-001" / "results.json").read_text() == "{}"


def test_what_was_never_written_is_known_before_anything_happens(tmp_path):
    (tmp_path / "gone.txt").write_text("still here")
    with suppress(FileNotFoundError), changing_files(tmp_path / ".x.changes", durable=False) as together:
        together.stage(tmp_path / "forgotten.txt")
        together.remove(tmp_path / "gone.txt")
    assert contents(tmp_path) == {"gone.txt": "still here"}


def test_a_name_that_is_taken_is_refused(tmp_path):
    fill(tmp_path)
    with pytest.raises(FileExistsError), changing_files(tmp_path / ".x.changes") as together:
        together.move(tmp_path / "aside.txt", tmp_path / "page.html")
    assert contents(tmp_path) == OLD


def journal_of(*steps):
    body = "".join(json.dumps(step) + "\n" for step in steps)
    return body + json.dumps(["commit", hashlib.sha256(body.encode()).hexdigest()]) + "\n"


@pytest.mark.parametrize("target", ["../victim.txt", "link/victim.txt"])
def test_a_strangers_journal_reaches_nothing_outside_its_folder(tmp_path, target):
    (tmp_path / "victim.txt").write_text("precious")
    folder = tmp_path / "from a stranger"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    (folder / ".x.changes").write_text(journal_of(["remove", target]))
    with pytest.raises(LogError, match="lies outside"):
        settle_changes(folder / ".x.changes")
    assert (tmp_path / "victim.txt").read_text() == "precious"


def test_a_journal_that_was_edited_is_no_order(tmp_path):
    fill(tmp_path)
    text = journal_of(["remove", "kept.txt"]).replace("kept.txt", "page.html")
    (tmp_path / ".x.changes").write_text(text)
    with pytest.raises(LogError, match="its checksum differs"):
        settle_changes(tmp_path / ".x.changes")
    (tmp_path / ".x.changes").write_text("these are my notes\n")
    with pytest.raises(LogError, match="line 1 is no step"):
        settle_changes(tmp_path / ".x.changes")
    (tmp_path / ".x.changes").unlink()
    assert contents(tmp_path) == OLD


def test_a_torn_last_line_never_happened(tmp_path):
    fill(tmp_path)
    (tmp_path / "page.html.partial").write_text("half a pa")
    whole = journal_of(["prepared", "page.html.partial"], ["put", "page.html.partial", "page.html"])
    (tmp_path / ".x.changes").write_text(whole[:-9])
    settle_changes(tmp_path / ".x.changes")
    assert contents(tmp_path) == OLD


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="needs permissions that bind")
def test_where_nothing_can_be_written_the_old_files_are_read(tmp_path):
    fill(tmp_path)
    journal = tmp_path / ".x.changes"
    journal.write_text(json.dumps(["prepared", "page.html.partial"]) + "\n")
    journal.chmod(0o444)
    settle_changes(journal)
    journal.unlink()
    journal.write_text(journal_of(["remove", "gone.txt"]))
    journal.chmod(0o444)
    with pytest.raises(LogError, match="cannot be completed here"):
        settle_changes(journal)


def test_a_change_under_way_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(changes, "_WAIT_SECONDS", 0.1)
    fill(tmp_path)
    with changing_files(tmp_path / ".x.changes") as together:
        together.write(tmp_path / "page.html", "new page")
        settle_changes(tmp_path / ".x.changes")  # its own readers do not wait
        monkeypatch.setattr(changes, "_held", set())  # as another process sees it
        with pytest.raises(RunLockedError, match="its files are being changed"):
            settle_changes(tmp_path / ".x.changes")


def test_a_disk_without_room_for_the_journal_names_it(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with (
        pytest.raises(OSError, match="No space left") as caught,
        changing_files(tmp_path / "journal") as changes,
    ):
        changes.write(tmp_path / "note.txt", "text")
    assert caught.value.filename == str(tmp_path / "journal")
