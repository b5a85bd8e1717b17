"""The colours of pages and figures, each declared once.

Figures import the constants; the stylesheet gets them as CSS variables (``--helps``, ``--ink``, ``--series-0``, …) for
light, dark and paper. Meaning never rests on colour alone: a sign, a word or hatching stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

INK = "#20242c"
LINE = "#d5d9e0"
MUTED = "#6b7280"
SERIES = ("#2b7bba", "#d9772b", "#3a9a6a", "#b4508f", "#8a7bd1", "#a08326", "#c0504d", "#4aa3a8")
"""Colours of series, told apart by people with colour blindness and readable on white and on dark."""
HELPS, HURTS, NEUTRAL = "#0072b2", "#d55e00", "#6b7280"
"""An effect for the better, for the worse, and neither: blue and vermilion of Okabe and Ito's palette, and grey."""
SYMBOLS = {
    "helps": "▲",
    "hurts": "▼",
    "no worse without it": "=",
    "helps only as filler": "≈",
    "undecided": "?",
    "not tested": "×",
    "only in a group": "&",
    "pinned": "·",
}
"""The sign that stands beside the colour of each verdict on a block of a prompt."""

_LIGHT = {
    "paper": "#fbfbf9", "card": "#ffffff", "soft": "#f1f2f0", "code": "#f5f5f2", "ink": INK, "muted": "#646b78",
    "line": "#dcdfe5", "accent": "#1f6aa5", "warn": "#876610", "warn-paper": "#fff6dc",
    # Effects as text: darker (here) or lighter (below) than as a surface, so that they can be read.
    "helps-ink": "#0067a3", "hurts-ink": "#b04a00",
}  # fmt: skip
_DARK = {
    "paper": "#15181d", "card": "#1c2027", "soft": "#232830", "code": "#22262e", "ink": "#e4e7ec", "muted": "#9aa2b1",
    "line": "#343a45", "accent": "#79b4e3", "warn": "#e6c566", "warn-paper": "#322b16",
    "helps-ink": "#6db7e8", "hurts-ink": "#f2a26a",
}  # fmt: skip
_PRINTED = _LIGHT | {
    "paper": "#fff", "soft": "#f2f2f2", "code": "#fafafa", "ink": "#000", "muted": "#444", "line": "#bbb",
}  # fmt: skip


def css_variables() -> str:
    """The palette as rules for ``:root``: light, dark where the reader prefers or chose it, and on paper.

    >>> css_variables().splitlines()[0][:41]
    ':root { color-scheme: light dark; --helps'
    """
    fixed = {"helps": HELPS, "hurts": HURTS, "neutral": NEUTRAL}
    fixed |= {f"series-{index}": colour for index, colour in enumerate(SERIES)}
    dark = f"color-scheme: dark; {_declared(_DARK)}"
    return "\n".join(
        (
            f":root {{ color-scheme: light dark; {_declared(fixed | _LIGHT)} }}",
            f'@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {_declared(_DARK)} }} }}',
            f':root[data-theme="dark"] {{ {dark} }}',
            ':root[data-theme="light"] { color-scheme: light; }',
            f"@media print {{ :root, :root[data-theme] {{ color-scheme: light; {_declared(_PRINTED)} }} }}",
            "",
        )
    )


def _declared(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def score_shade(score: float | None) -> str:
    """The style of a cell that shows a score between 0 and 1: from vermilion over nothing to blue; hatched without one.

    The square makes low scores look low: 0.7 is in the middle.

    >>> score_shade(0.0), score_shade(0.5), score_shade(1.0), score_shade(None)
    ('tinted bad tint-4', 'tinted bad tint-2', 'tinted good tint-3', 'hatched')
    """
    if score is None:
        return "hatched"
    middle = 2 * min(max(score, 0.0), 1.0) ** 2 - 1
    return f"tinted good tint-{round(3 * middle)}" if middle >= 0 else f"tinted bad tint-{round(-4 * middle)}"


class Tint(NamedTuple):
    """How a block is coloured: by the sign of its effect, as strongly (0 to 1) as that is large; hatched where open."""

    colour: str
    strength: float
    hatched: bool = False

    @property
    def classes(self) -> str:
        """Its style on a page."""
        tone = {HELPS: "good ", HURTS: "bad "}.get(self.colour, "")
        return f"{tone}tint-{round(10 * self.strength)}{' hatched' if self.hatched else ''}"


def block_tint(verdict: str, effect: float | None, largest: float) -> Tint:
    """The tint of a block with this verdict and effect beside the ``largest`` one seen (or 0.1, where all are smaller).

    Blocks that can go are grey, and what is undecided is never tinted strongly.

    >>> block_tint("helps", 0.2, 0.4), block_tint("no worse without it", -0.01, 0.4).strength
    (Tint(colour='#0072b2', strength=0.5, hatched=False), 0.25)
    """
    value = 0.0 if effect is None or not math.isfinite(effect) else effect
    if verdict == "no worse without it":
        return Tint(NEUTRAL, 0.25)
    colour = HELPS if value > 0 else HURTS if value < 0 else NEUTRAL
    strength = abs(value) / max(largest, 0.1)
    if verdict in ("undecided", "not tested"):
        # Not as sure as it looks; and hatching must leave the words readable.
        return Tint(colour, min(strength, 0.4), hatched=True)
    return Tint(colour, strength)
