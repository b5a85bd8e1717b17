"""One colour for a meaning, readable as text in both themes and told apart without red and green."""

import re

import pytest

from pcsuite.pages.palette import HELPS, HURTS, Tint, block_tint, css_variables, score_shade


def luminance(colour):
    """Relative luminance of WCAG 2.1."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first, second):
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("name", ["ink", "muted", "accent", "warn", "helps-ink", "hurts-ink"])
def test_words_can_be_read_on_every_surface(theme, name):
    """WCAG asks for 4.5; the second occurrence of a variable is the dark theme's."""
    colours = {
        key: re.findall(rf"--{key}: (#\w{{6}});", css_variables())[theme]
        for key in (name, "paper", "card", "soft")
    }
    assert min(contrast(colours[name], colours[key]) for key in ("paper", "card", "soft")) >= 4.5


def test_an_effect_is_blue_or_vermilion():
    assert f"--helps: {HELPS}; --hurts: {HURTS};" in css_variables()
    assert (HELPS, HURTS) == ("#0072b2", "#d55e00")  # Okabe and Ito 2008


def test_scores_are_shaded_from_wrong_over_nothing_to_right():
    shades = [score_shade(tenth / 10) for tenth in range(11)]
    assert [shade.split()[1] for shade in shades] == ["bad"] * 8 + ["good"] * 3
    # 2·0.7² − 1 = −0.02, so 0.7 is the middle; 2·0.8² − 1 = 0.28 of three steps is one
    assert (shades[7], shades[8], shades[10]) == (
        "tinted bad tint-0",
        "tinted good tint-1",
        "tinted good tint-3",
    )
    assert score_shade(None) == "hatched"


def test_a_block_is_tinted_by_its_effect_and_hatched_while_it_is_open():
    # 0.3 of the largest effect 0.4; an open one at most 0.4; all smaller than 0.1 are measured by 0.1
    assert block_tint("helps", 0.12, 0.4).classes == "good tint-3"
    assert block_tint("undecided", -0.4, 0.4) == Tint(HURTS, 0.4, hatched=True)
    assert block_tint("hurts", -0.05, 0.05).classes == "bad tint-5"
    assert block_tint("not tested", None, 0.0).classes == "tint-0 hatched"
