"""Differences of files that a call changed: true to the newline, and without secrets."""

import pytest

from pcsuite._util.folder_template import Template
from pcsuite._util.secrets import remember
from pcsuite.engines.targets.workspaces import Workspaces

SECRET = "Vw3-changed-Files_Secret/41+x"
OTHER = "Ab9-changed-Files_Second/77+y"


@pytest.fixture
def changed(tmp_path):
    """What a call is seen to have changed that does this to its folder."""
    remember(SECRET)
    remember(OTHER)

    def of(change, **before):
        template = tmp_path / "template"
        template.mkdir()
        for name, text in before.items():
            (template / name).write_text(text, encoding="utf-8", newline="")
        copies = Workspaces(Template.read(template), tmp_path / "copies")
        copy = copies.take()
        change(copy.folder)
        seen = copy.changes()
        copies.close()
        return {file.path: file for file in seen.files}

    return of


SEPARATORS = ["\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize("mark", SEPARATORS)
def test_a_line_ends_at_newlines_alone(changed, mark):
    text = f"one{mark}two\nthree{mark}"

    def change(folder):
        (folder / "notes").write_text(f"{text}four{mark}\nfive", encoding="utf-8", newline="")

    assert changed(change, notes=text)["notes"].diff == (
        f"--- a/notes\n+++ b/notes\n@@ -1,2 +1,3 @@\n one{mark}two\n-three{mark}\n\\ No newline at end of file\n"
        f"+three{mark}four{mark}\n+five\n\\ No newline at end of file\n"
    )


def test_no_secret_stands_in_a_difference_a_path_or_a_link(changed):
    def change(folder):
        (folder / "settings").write_text(f"user = me\nkey = {SECRET}\n")
        (folder / f"{SECRET.replace('/', '-')}.txt").write_text("x\n")
        (folder / "rotated").write_text(f"key = {OTHER}\n")
        (folder / "link").symlink_to(f"/nowhere/{SECRET}")
        (folder / SECRET.partition("/")[0]).mkdir()
        (folder / SECRET).write_text("x")

    files = changed(change, settings="user = me\n", rotated=f"key = {SECRET}\n")
    assert files["settings"].diff == (
        "--- a/settings\n+++ b/settings\n@@ -1 +1,2 @@\n user = me\n+key = ***\n"
    )
    assert (files["rotated"].diff, files["rotated"].note) == ("", "not kept: only a secret differs")
    assert files["link"].note == "a link to /nowhere/***"
    assert files["***"].diff == "--- /dev/null\n+++ b/***\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n"
    assert SECRET not in repr(files)
    assert OTHER not in repr(files)


def test_a_name_cannot_write_lines_of_a_difference(changed):
    def change(folder):
        (folder / "a\n+++ b\u2028c").write_text("x\n")
        (folder / b"no\xfftext".decode("utf-8", "surrogateescape")).write_text("y\n")

    first, second = changed(change).values()
    assert first.path == "a\n+++ b\u2028c"
    assert first.diff == "--- /dev/null\n+++ b/a\\n+++ b\\u2028c\n@@ -0,0 +1 @@\n+x\n"
    assert second.diff.startswith("--- /dev/null\n+++ b/no\\udcfftext\n")


def test_an_emptied_file_and_a_first_line_without_an_end(changed):
    def change(folder):
        (folder / "gone").write_text("")
        (folder / "new").write_text("one")

    files = changed(change, gone="a\n\n")
    assert files["gone"].diff == "--- a/gone\n+++ b/gone\n@@ -1,2 +0,0 @@\n-a\n-\n"
    assert (
        files["new"].diff == "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+one\n\\ No newline at end of file\n"
    )
