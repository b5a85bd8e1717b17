"""The server of the side-by-side jobs answers as its script says, and the page has the counts of what it writes."""

from pathlib import Path

import side_by_side

from pcsuite._util.text import counted


def wrong(prompt, rows=3000):
    """How many tickets of so many are answered wrongly under a prompt."""
    count = 0
    for number in range(1, rows + 1):
        queue = side_by_side.QUEUES[number % 3]
        count += side_by_side.reply(prompt.replace("{{ text }}", f"Ticket {number} about {queue}")) != queue
    return count / rows


def test_the_truth_of_each_edit_is_as_stated():
    flips = 1 / 30
    assert abs(wrong(side_by_side.OLD) - flips) < 0.012
    assert abs(wrong(side_by_side.EDITS["same"]) - flips) < 0.012
    # Wrong by the sentence, or by a flip where it is not.
    assert abs(wrong(side_by_side.EDITS["hurts"]) - (0.1 + 0.9 * flips)) < 0.012
    without = side_by_side.OLD.replace("Queues: billing, login, refund.\n\n", "")
    assert abs(wrong(without) - (1 / 3 + 2 / 3 * flips)) < 0.012


def test_the_page_counts_the_lines_that_are_written():
    page = (Path(side_by_side.__file__).parents[1] / "docs" / "how-to" / "coming-from.md").read_text(
        encoding="utf-8"
    )
    for tool, text in (
        ("promptfoo", side_by_side.PROMPTFOO), ("inspect_ai", side_by_side.INSPECT), ("DSPy", side_by_side.DSPY),
    ):  # fmt: skip
        assert f"| {tool} | " in page
        row = next(
            line
            for line in page.splitlines()
            if line.startswith(f"| {tool} | 0.") or line.startswith(f"| {tool} | 3.")
        )
        assert f"| {counted(side_by_side.written(text), 'line')} |" in row
