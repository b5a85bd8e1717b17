"""Fresh copies of a folder: what comes along, what is refused, what changed, and that nothing is left behind."""

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pcsuite._util.files import replace_atomically
from pcsuite._util.folder_template import Template, printable, results_inside
from pcsuite.engines.targets import workspaces
from pcsuite.engines.targets.workspaces import Workspaces, remove_tree, sweep
from pcsuite.errors import ConfigError, EngineError
from support.failing_steps import FailingSystem, disk_full


@pytest.fixture
def project(tmp_path):
    """A small project: a program that runs, a link, an empty folder, a repository."""
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / ".git" / "refs" / "heads").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git" / "refs" / "heads" / "main").write_text("abc\n")
    (folder / ".git" / "index").write_bytes(b"\0volatile")
    (folder / "AGENTS.md").write_text("# Rules\n- Be kind.\n")
    (folder / "CLAUDE.md").symlink_to("AGENTS.md")
    (folder / "src" / "tool.sh").write_text("#!/bin/sh\necho hi\n")
    (folder / "src" / "tool.sh").chmod(0o755)
    (folder / "grüße 日本.txt").write_text("hallo\n", encoding="utf-8")
    return folder


@pytest.fixture
def copies(project, tmp_path):
    opened = Workspaces(Template.read(project), tmp_path / "copies")
    yield opened
    opened.close()


def test_a_copy_has_all_that_the_template_has(project, copies):
    copy = copies.take().folder
    listed = sorted(str(path.relative_to(copy)) for path in copy.rglob("*"))
    assert listed == sorted(str(path.relative_to(project)) for path in project.rglob("*"))
    assert (copy / "src" / "tool.sh").stat().st_mode & 0o777 == 0o755
    assert (copy / "CLAUDE.md").readlink() == Path("AGENTS.md")
    assert (copy / "src" / "tool.sh").stat().st_mtime_ns == (project / "src" / "tool.sh").stat().st_mtime_ns
    assert list((copy / "empty").iterdir()) == []


def test_what_is_done_in_a_copy_is_done_to_no_other(project, copies):
    first, second = copies.take(), copies.take()
    (first.folder / "AGENTS.md").write_text("mine")
    (first.folder / "grüße 日本.txt").write_text("more")
    assert (second.folder / "AGENTS.md").read_text() == "# Rules\n- Be kind.\n"
    assert (project / "AGENTS.md").read_text() == "# Rules\n- Be kind.\n"
    assert (project / "grüße 日本.txt").read_text(encoding="utf-8") == "hallo\n"


def test_files_of_the_arm_take_the_place_of_the_templates(copies):
    copy = copies.take(
        {
            "AGENTS.md": b"# Less\n",
            "docs/new/RULES.md": "ü".encode(),
            "src/tool.sh": b"#!/bin/sh\n",
            "gone.md": None,
        }
    )
    assert (copy.folder / "AGENTS.md").read_bytes() == b"# Less\n"
    assert (copy.folder / "CLAUDE.md").read_bytes() == b"# Less\n"  # a link to it
    assert (copy.folder / "docs" / "new" / "RULES.md").read_text(encoding="utf-8") == "ü"
    assert (copy.folder / "src" / "tool.sh").stat().st_mode & 0o777 == 0o755
    assert copy.changes().files == []


def test_a_file_that_the_arm_has_not_is_not_there(copies):
    assert not (copies.take({"AGENTS.md": None}).folder / "AGENTS.md").exists()


def test_a_file_behind_a_link_is_put_where_the_link_leads(copies):
    copy = copies.take({"CLAUDE.md": b"new"}).folder
    assert (copy / "CLAUDE.md").is_symlink()
    assert (copy / "AGENTS.md").read_bytes() == b"new"


@pytest.mark.parametrize("path", ["../x.md", "/etc/x.md", "a/../../x.md", "", ".", "x\0y"])
def test_no_file_is_put_outside(copies, path):
    with pytest.raises(ConfigError, match="leads out of the folder"):
        copies.take({path: b"x"})
    assert list(copies.folder.iterdir()) == []


def test_no_file_is_put_behind_a_link_that_leads_out(project, tmp_path):
    (tmp_path / "outside").mkdir()
    (project / "out").symlink_to(tmp_path / "outside")
    template = Template.read(project)
    with pytest.raises(ConfigError, match="behind a link that leads out"):
        template.place("out/AGENTS.md")
    with pytest.raises(ConfigError, match="src is a folder"):
        template.place("src")
    with pytest.raises(ConfigError, match=r"AGENTS\.md is no folder"):
        template.place("AGENTS.md/x")


def test_links_lead_where_they_led_and_never_into_the_template(project, tmp_path):
    (tmp_path / "beside.txt").write_text("beside")
    (project / "whole").symlink_to(project / "AGENTS.md")
    (project / "src" / "up").symlink_to("../../beside.txt")
    (project / "dangling").symlink_to("nowhere")
    (project / "circle").symlink_to("circle")
    copies = Workspaces(Template.read(project), tmp_path / "copies")
    try:
        copy = copies.take()
        assert (copy.folder / "whole").resolve() == copy.folder.resolve() / "AGENTS.md"
        assert (copy.folder / "src" / "up").read_text() == "beside"
        assert (copy.folder / "dangling").readlink() == Path("nowhere")
        assert copy.changes().files == []
        (copy.folder / "dangling").unlink()
        (copy.folder / "dangling").symlink_to("elsewhere")
        assert copy.changes().paths == {"dangling": "modified"}
    finally:
        copies.close()


def test_what_a_call_changed(copies):
    copy = copies.take({"AGENTS.md": b"one\ntwo\n"})
    (copy.folder / "AGENTS.md").write_text("one\nthree\n")
    (copy.folder / "src" / "tool.sh").unlink()
    (copy.folder / "new").mkdir()
    (copy.folder / "new" / "a.txt").write_text("a\n")
    (copy.folder / "new" / "image.bin").write_bytes(b"\xff\xfe\0")
    (copy.folder / ".git" / "index").write_bytes(b"other")
    # The same words again are no change.
    text = (copy.folder / "grüße 日本.txt").read_text(encoding="utf-8")
    (copy.folder / "grüße 日本.txt").write_text(text, encoding="utf-8")
    changes = copy.changes()
    assert changes.paths == {
        "AGENTS.md": "modified",
        "new/a.txt": "added",
        "new/image.bin": "added",
        "src/tool.sh": "deleted",
    }
    by_path = {file.path: file for file in changes.files}
    assert by_path["AGENTS.md"].diff == (
        "--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"
    )
    assert by_path["new/image.bin"].note == "not kept: no text"


def test_a_change_that_hides_behind_size_and_time_is_seen(copies):
    copy = copies.take()
    path = copy.folder / "AGENTS.md"
    before = path.stat()
    path.write_text("# Rules\n- Be mean.\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert copy.changes().paths == {"AGENTS.md": "modified"}


def test_differences_are_bounded(copies):
    copy = copies.take()
    for number in range(300):
        (copy.folder / f"f{number:03}").write_text("x" * 500)
    (copy.folder / "big").write_bytes(b"x" * (2 << 20))
    changes = copy.changes()
    assert len(changes.files) == 200
    assert changes.more == 101
    assert sum(len(file.diff) for file in changes.files) <= 40_000
    assert next(file.note for file in changes.files if file.path == "big") == "not kept: 2,097,152 bytes"


def test_a_copy_goes_whatever_was_made_of_it(project, copies):
    workspace = copies.take()
    copy = workspace.folder
    (copy / "locked").mkdir()
    (copy / "locked" / "inner").mkdir()
    (copy / "locked" / "inner" / "file").write_text("x")
    (copy / "to-template").symlink_to(project)
    os.mkfifo(copy / "pipe")
    deep = copy
    for _ in range(120):
        deep = deep / ("d" * 20)
        deep.mkdir()
    (copy / "locked" / "inner").chmod(0)
    (copy / "locked").chmod(0o500)
    workspace.drop()
    assert not copy.exists()
    assert (project / "AGENTS.md").exists()
    workspace.drop()  # is no error


def test_a_call_that_puts_a_link_in_its_folders_place_shows_and_removes_nothing_else(project, copies):
    workspace = copies.take()
    shutil.rmtree(workspace.folder)
    workspace.folder.symlink_to(project)
    assert not workspace.is_there
    changes = workspace.changes()
    assert (changes.files, changes.note) == ([], "the call removed its folder")
    workspace.drop()
    assert not os.path.lexists(workspace.folder)
    assert (project / "AGENTS.md").exists()


def test_a_socket_is_refused_by_its_name(project):
    listener = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    try:
        os.chdir(project)  # the names of sockets are short
        listener.bind("s.sock")
    finally:
        os.chdir(here)
        listener.close()
    with pytest.raises(ConfigError, match=r"s\.sock is a socket, which cannot be copied"):
        Template.read(project)


def test_a_template_in_its_own_results_is_refused_and_results_in_a_template_are_left_out(project, tmp_path):
    with pytest.raises(ConfigError, match="lies in the folder of the results"):
        results_inside(project, tmp_path)
    assert results_inside(project, project / "outputs") == "outputs"
    assert results_inside(project, tmp_path / "outputs") is None
    (project / "outputs" / "ablations").mkdir(parents=True)
    (project / "outputs" / "ablations" / "log.jsonl").write_text("{}")
    assert "outputs/ablations/log.jsonl" in Template.read(project).entries
    assert not any(
        path.startswith("outputs") for path in Template.read(project, leave_out=["outputs"]).entries
    )
    with pytest.raises(ConfigError, match="no such folder"):
        Template.read(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="is no folder"):
        Template.read(project / "AGENTS.md")
    with pytest.raises(ConfigError, match="would lie in it"):
        Workspaces(Template.read(project), project / "copies")


def test_the_digest_is_of_the_content(project, tmp_path):
    digest = Template.read(project).digest()
    other = tmp_path / "other"
    shutil.copytree(project, other, symlinks=True)
    os.utime(other / "AGENTS.md")
    (other / ".git" / "index").write_bytes(b"looked at")
    assert Template.read(other).digest() == digest
    (other / "AGENTS.md").write_text("# Other\n")
    changed = Template.read(other).digest()
    assert changed != digest
    (other / "AGENTS.md").write_text("# Rules\n- Be kind.\n")
    assert Template.read(other).digest() == digest
    (other / "src" / "tool.sh").chmod(0o644)
    assert Template.read(other).digest() not in (digest, changed)


def test_a_template_that_changes_meanwhile_is_told(project, copies):
    replace_atomically(project / "AGENTS.md", "# Longer than before\n")
    with pytest.raises(EngineError, match="was changed after the run began"):
        copies.take()
    assert list(copies.folder.iterdir()) == []


@pytest.mark.parametrize("at", range(1, 9))
def test_a_full_disk_leaves_no_half_copy(copies, monkeypatch, at):
    failing = FailingSystem(at, disk_full)
    monkeypatch.setattr(workspaces, "os", failing)
    with pytest.raises(EngineError, match="No space left on device"):
        copies.take({"AGENTS.md": b"x"})
    monkeypatch.setattr(workspaces, "os", os)
    assert list(copies.folder.iterdir()) == []


def test_a_disk_that_is_really_full(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        (tmp_path / "template").mkdir()
        (tmp_path / "template" / "big").write_bytes(b"x" * 150_000)
        copies = Workspaces(Template.read(tmp_path / "template"), small / "copies")
        first = copies.take()
        with pytest.raises(EngineError, match="No space left on device") as raised:
            copies.take()
        assert isinstance(raised.value.__cause__, OSError)
        assert raised.value.__cause__.errno == errno.ENOSPC
        assert [path.name for path in copies.folder.iterdir()] == [first.folder.name]
        first.drop()
        copies.take()
        copies.close()
        assert list((small / "copies").iterdir()) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


KILLED = """
import sys, time
from pcsuite.engines.targets.workspaces import Template, Workspaces
copies = Workspaces(Template.read(sys.argv[1]), sys.argv[2])
copies.take(); copies.take()
print(copies.folder, flush=True)
time.sleep(60)
"""


def test_what_a_killed_process_left_goes_with_the_next_start(project, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(project), str(tmp_path / "copies")],
        stdout=subprocess.PIPE,
        text=True,
    )
    folder = Path(process.stdout.readline().strip())
    assert len(list(folder.iterdir())) == 2
    assert sweep(tmp_path / "copies") == 0  # it is at work
    assert len(list(folder.iterdir())) == 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    mine = Workspaces(Template.read(project), tmp_path / "copies")
    assert not folder.exists()
    mine.close()
    mine.close()
    assert list((tmp_path / "copies").iterdir()) == []


def test_a_big_folder_is_copied_in_a_moment(tmp_path):
    big = tmp_path / "big"
    for folder in range(20):
        (big / str(folder)).mkdir(parents=True)
        for number in range(100):
            (big / str(folder) / f"{number}.txt").write_text("content")
    copies = Workspaces(Template.read(big), tmp_path / "copies")
    copy = copies.take()
    assert sum(path.is_file() for path in copy.folder.rglob("*")) == 2000
    assert copy.changes().files == []
    copies.close()


def test_names_that_are_no_text_are_shown_escaped(tmp_path):
    odd = os.fsdecode(b"a\xff\nb")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / odd).write_text("x")
    copies = Workspaces(Template.read(tmp_path / "odd"), tmp_path / "copies")
    copy = copies.take()
    (copy.folder / odd).write_text("y")
    assert copy.changes().paths == {odd: "modified"}
    copies.close()
    assert printable(odd) == "a\\udcff\\nb"
    remove_tree(tmp_path / "nothing")  # is no error


def test_two_files_of_a_prompt_that_are_one_by_a_link_are_refused(project, copies):
    with pytest.raises(ConfigError, match="CLAUDE.md and another file of the prompt are one by a link"):
        copies.take({"AGENTS.md": b"old", "CLAUDE.md": b"new"})
    assert list(copies.folder.iterdir()) == []
