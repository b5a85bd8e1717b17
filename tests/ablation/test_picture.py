import pytest

from pcsuite.ablation.picture import block_views, markdown, print_ablation
from support.ablating import PROMPT, printed


@pytest.mark.slow
def test_views_are_the_blocks_in_order_with_sign_and_interval(ablated):
    views = {view.name: view for view in block_views(ablated)}
    assert list(views) == ["role", "rules", "tone", "noise", "ticket"]
    assert (views["rules"].symbol, views["rules"].tint.colour) == ("▲", "#0072b2")
    assert (views["noise"].symbol, views["noise"].tint.colour) == ("▼", "#d55e00")
    assert views["rules"].effect.startswith("+0.")
    assert views["noise"].effect.startswith("-0.")
    assert views["ticket"].verdict == "pinned"
    assert views["noise"].dropped
    assert "\n\n".join(view.text for view in views.values()) + "\n" == PROMPT
    assert any(line.startswith("right only with it") for line in views["rules"].details)
    assert any("sham" in line for line in views["rules"].details)


def test_the_terminal_shows_every_block_with_its_verdict(ablated):
    text = printed(print_ablation, ablated)
    assert "▲  rules" in text
    assert "▼  noise" in text
    assert "A/A" in text
    assert "no effect shown" in text
    assert "per 1,000 calls" in text
    assert "Simulated" in text


def test_markdown_holds_the_table_and_the_diff(ablated):
    text = markdown(ablated)
    assert "| ▲ | **rules** | helps |" in text
    assert "| ▼ | ~~noise~~ | hurts |" in text
    assert "```diff" in text
    assert "- Never answer directly." in text
    assert "  Answer with the name of the queue." in text
