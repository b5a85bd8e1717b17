import pytest

from pcsuite.reporting import markdown

HOSTILE = "<script>alert(1)</script> | [x](javascript:alert(1)) `=1+1` *b* _i_ &amp;\n# h"


def test_markdown_shows_text_as_it_is():
    shown = markdown.escape_markdown(HOSTILE)
    assert "<script" not in shown.replace("\\<", "")
    assert "\n" not in shown
    for mark in "|[]`*_<>#":
        assert shown.count(mark) == shown.count("\\" + mark)


def test_markdown_rows_keep_their_columns():
    text = markdown.table(("a", "b"), [("x|y", 1)], right=(1,))
    assert text.splitlines() == ["| a | b |", "|---|---:|", "| x\\|y | 1 |"]


@pytest.mark.slow
def test_markdown_report(written):
    text = written.index.read_text(encoding="utf-8")
    assert written.index.name == "report.md"
    assert text.startswith("# Report on a\n")
    assert "## What the run says" in text
    assert "![Score by prompt condition, agnews\\_json on m1" in text
    assert "<script" not in text.replace("\\<script", "")
    for picture in (part.split(")")[0] for part in text.split("](")[1:]):
        if picture.startswith("../plots"):
            assert (written.index.parent / picture).is_file()
