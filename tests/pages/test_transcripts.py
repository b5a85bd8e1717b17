"""What a row tells beside its answer: any form that a system may write, bounded, and only ever text."""

import msgspec

from pcsuite.pages.render import environment
from pcsuite.pages.transcripts import LONGEST, MOST_STEPS, DiffLine, Entry, Step, diff_lines, transcript_of


def shown(told):
    return str(environment().globals["ui"].transcript(told))


AGENT = {
    "generation": {
        "transcript": [
            {
                "step": 0,
                "type": "tool",
                "tool": "write_file",
                "arguments": {"path": "<b>.py", "content": "a = 1\nb = 2\n"},
                "result": "written",
            },
            {"step": 1, "type": "model", "text": "Done."},
        ],
        "stderr": "warning: \x1b[2J",
        "loaded": [{"source": "AGENTS.md", "sha256": "ab" * 32}, {"source": "other"}],
    },
    "changed": {
        "files": [
            {
                "path": "x.py",
                "change": "modified",
                "diff": "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-<i>\n+<u>\n",
            },
            {"path": "big", "change": "added", "diff": "", "note": "not kept: 2,000,000 bytes"},
        ],
        "more": 3,
        "note": "",
    },
    "checks": {"check": {"passed": False, "status": 2, "output": "no <file>", "why": ""}},
}


def test_all_of_an_agent_is_told_in_order_and_nothing_of_it_acts():
    told = transcript_of(AGENT)
    assert told.summary == "2 steps · 5 files changed · 2 sources · 1 check · standard error"
    assert told.steps == [
        Step(
            "write_file",
            [Entry("path", "<b>.py"), Entry("content", "a = 1\nb = 2\n"), Entry("result", "written")],
        ),
        Step("model", [Entry("text", "Done.")]),
    ]
    reasons = {
        "tone": {"value": 0.25, "reason": "cold <b>"},
        "brief": {"value": 1.0, "reason": ""},
        "odd": None,
    }
    scored = transcript_of({"scores": reasons})
    assert scored.summary == "3 further scores"
    assert scored.scores[:2] == [("tone", "0.25", "cold <b>"), ("brief", "1.00", "")]
    assert "<b>tone</b> 0.25 cold &lt;b&gt;" in shown(scored)
    longer = {**AGENT, "generation": {**AGENT["generation"], "steps": 7}}
    assert transcript_of(longer).summary.startswith("7 steps (2 told) · 5 files")
    page = shown(told)
    for raw, escaped in (
        ("<b>", "&lt;b&gt;.py"),
        ("<i>", "&lt;i&gt;"),
        ("<u>", "&lt;u&gt;"),
        ("<file>", "&lt;file&gt;"),
    ):
        assert raw not in page.replace('<b class="small">', "").replace("<b>write_file</b>", "").replace(
            "<b>model</b>", ""
        )
        assert escaped in page
    assert "\x1b" not in page
    assert '<del class="line">-&lt;i&gt;</del><ins class="line">+&lt;u&gt;</ins>' in page
    assert "exit status 2" in page
    assert "3 more files" in page
    assert "not kept: 2,000,000 bytes" in page
    assert "abab" in page


def test_a_row_that_tells_nothing_has_no_transcript():
    assert transcript_of({}) is None
    assert transcript_of({"generation": None, "changed": None}) is None
    assert transcript_of({"generation": {"transcript": None, "text": "yes"}}) is None
    assert transcript_of({"changed": {"files": [], "more": 0, "note": ""}}) is None


def test_odd_forms_of_steps_are_shown_as_they_are():
    steps = [
        "words alone",
        7,
        None,
        {"text": ""},
        {"role": "assistant", "content": [{"type": "text", "text": "hi"}]},
        {"tool": {"name": "nested"}, "arguments": {"a": {"b": {"c": 1}}}},
        {"name": "n", "\ud800": "\ud800"},
    ]
    told = transcript_of({"generation": {"transcript": steps}})
    assert told.steps[0] == Step("", [Entry("", "words alone")])
    assert told.steps[1] == Step("", [Entry("", "7")])
    assert told.steps[3] == Step("", [])
    assert told.steps[4] == Step("assistant", [Entry("content", '[{"type": "text", "text": "hi"}]')])
    assert told.steps[5].entries == [Entry("tool.name", "nested"), Entry("a.b", '{"c": 1}')]
    assert "words alone" in shown(told)
    assert "hi" in shown(transcript_of(msgspec.to_builtins({"generation": {"transcript": [{"x": "hi"}]}})))


def test_long_texts_and_many_steps_are_bounded_and_folded():
    steps = [{"tool": "read", "result": "line\n" * 2_000}] * (MOST_STEPS + 5)
    told = transcript_of({"generation": {"transcript": steps}})
    assert len(told.steps) == MOST_STEPS
    assert told.summary == "105 steps"
    (entry,) = told.steps[0].entries
    assert len(entry.text) < LONGEST + 100
    assert entry.text.endswith("… (6,000 more characters)")
    page = shown(told)
    assert '<details class="more"><summary>line line' in page
    assert "5 more steps" in page
    told = transcript_of({"generation": {"transcript": [{"tool": "x", **{f"k{n}": n for n in range(90)}}]}})
    assert told.steps[0].entries[-1] == Entry("", "… 30 more")


def test_a_difference_knows_its_head_from_lines_that_look_like_one():
    lines = diff_lines(
        "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n --- y\n---- y\n++++ z\n\\ No newline at end of file\n"
    )
    assert lines == [
        DiffLine("head", "--- a/x"),
        DiffLine("head", "+++ b/x"),
        DiffLine("head", "@@ -1,2 +1,2 @@"),
        DiffLine("same", " --- y"),
        DiffLine("gone", "---- y"),
        DiffLine("new", "++++ z"),
        DiffLine("head", "\\ No newline at end of file"),
    ]
