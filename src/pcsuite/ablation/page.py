"""The page of an ablation, one self-contained HTML file that opens with the prompt, and the same picture as a PNG."""

from __future__ import annotations

import textwrap
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pcsuite import __version__
from pcsuite._util.pages import page_templates, script_hash
from pcsuite._util.text import figure_text
from pcsuite.ablation import picture
from pcsuite.ablation.ablate import AblationResult
from pcsuite.ablation.arm_measures import MEASURES
from pcsuite.errors import require
from pcsuite.pages.figures import drawing
from pcsuite.report.page import shared_assets
from pcsuite.report.wording import p_text

_LINES_DRAWN = 4
_WRAP = 88


def render_ablation(result: AblationResult) -> str:
    """The page: the prompt as a heat map, the trimmed prompt as a diff, then verdicts, interactions, controls and arms.

    Everything is escaped except the suite's own style and script, and no request leaves the page.
    """
    template = page_templates("pcsuite.ablation").get_template("ablation.html.j2")
    own = (files("pcsuite.ablation") / "templates" / "ablation.css").read_text(encoding="utf-8")
    css, script = shared_assets("base.css", "report.css") + own, shared_assets("report.js")
    study = result.study
    return template.render(
        title=f"What each part of {study.request.prompt.name} is worth",
        headline=picture.headline(result),
        notices=picture.notices(result),
        facts=[
            ("items", f"{result.items:,}"),
            ("arms", str(len(result.arms))),
            ("answers", f"{sum(arm.items for arm in result.arms):,}"),
            ("model", study.model_id),
            ("regime", study.request.regime),
            ("margin", f"{study.request.margin:g}"),
            ("full prompt's score", figure_text(result.arms[0].score, 3)),
        ],
        views=picture.block_views(result),
        symbols=picture.SYMBOLS,
        trim_sentence=picture.trim_sentence(result),
        drops=picture.drop_rows(result),
        undecided=picture.undecided_lines(result),
        limits=(
            "limits are those of confidence sequences, which hold at every look and for all blocks together"
            if study.request.until
            else "intervals are 95 %; p is Holm's, over all blocks"
        ),
        measures=list(MEASURES.values()),
        **_tables(result),
        pairs=result.pairs_measured,
        noise=picture.noise_sentence(result),
        design=study.design.why,
        reading=study.task.reading,
        footer=f"Written by pcsuite {__version__} from {result.log.name}.",
        css=Markup(css),
        js=Markup(script),
        script_hash=Markup(script_hash(script)),
    )


def _tables(result: AblationResult) -> dict[str, list[Any]]:
    """The rows of the page's tables, numbers as text, by the name that the template has for each."""
    return {
        "table": [
            {
                "block": entry.block,
                "verdict": entry.verdict,
                "effect": picture.interval_words(entry.effect, 3),
                "p": p_text(entry.p_value),
                "sham": picture.interval_words(entry.against_sham, 3) if entry.against_sham else "no sham",
                "measures": [
                    picture.interval_words(
                        result.measures[entry.block][name], 3 if name in ("answered", "cost_usd") else 1
                    )
                    for name in MEASURES
                ],
            }
            for entry in result.verdicts
        ],
        "steps": [
            (
                ", ".join(step.dropped),
                picture.interval_words(step.difference, 3),
                str(step.difference.n),
                "confirmed" if step.confirmed else "not confirmed",
            )
            for step in (result.trim.steps if result.trim is not None else ())
        ],
        "interactions": [
            (entry.words, picture.interval_words(entry.estimate, 3), p_text(entry.p_value))
            for entry in result.interactions
        ],
        "attribution": [
            (
                entry.operator,
                entry.method,
                picture.interval_words(entry.effect, 3),
                p_text(entry.test.p_value),
                "" if entry.exact else f"{entry.orders:.0f} of all orders",
            )
            for entry in result.attribution
        ],
        "arms": [
            [arm.id, " ".join(arm.operators), str(arm.items), figure_text(arm.score, 3)]
            + [figure_text(arm.measures[name], 3) for name in MEASURES]
            for arm in result.arms
        ],
    }


def write_png(result: AblationResult, path: Path) -> Path:
    """The prompt as a tinted picture: text at the left, sign, interval and tokens at the right, undecided hatched.

    Long blocks are cut to their first lines. Raises ``AnalysisError`` where the file cannot be written.
    """
    views = picture.block_views(result)
    drawn = []
    for view in views:
        wrapped = [part for line in view.text.splitlines() for part in textwrap.wrap(line, _WRAP)]
        cut = len(wrapped) > _LINES_DRAWN
        drawn.append([*wrapped[: _LINES_DRAWN - 1], "…"] if cut else wrapped)
    heights = [max(len(lines), 2) * 0.2 + 0.16 for lines in drawn]
    total = sum(heights) + 0.9
    with drawing.style():
        figure, axes = drawing.blank(width=11, height=total)
        axes.set_axis_off()
        axes.grid(False)
        axes.set_xlim(0, 11)
        axes.set_ylim(total, 0)
        title = f"What each part of {result.study.request.prompt.name} is worth"
        axes.text(0.1, 0.3, title, fontsize=12, fontweight="bold", va="center")
        legend = "blue helps · orange hurts · grey no worse without it · hatched undecided"
        axes.text(
            0.1, 0.6, f"{result.items} items, {result.study.model_id} · {legend}", fontsize=8, va="center"
        )
        top = 0.8
        for view, lines, height in zip(views, drawn, heights, strict=True):
            _draw_block(axes, view, lines, top, height - 0.06)
            top += height
        drawing.paint(figure).write_png(path)
    return path


def _draw_block(axes: Any, view: picture.BlockView, lines: list[str], top: float, height: float) -> None:
    patches = require("matplotlib.patches", "stats")
    hatch = "////" if view.hatched else None
    shade = 0.08 + 0.42 * view.strength if view.verdict != "pinned" else 0.0
    axes.add_patch(
        patches.Rectangle((0.1, top), 7.6, height, facecolor=view.colour, alpha=shade, linewidth=0)
    )
    axes.add_patch(
        patches.Rectangle(
            (0.1, top), 7.6, height, fill=False, hatch=hatch, edgecolor=view.colour, linewidth=0.5, alpha=0.5
        )
    )
    for index, line in enumerate(lines):
        axes.text(
            0.2, top + 0.16 + 0.2 * index, line, fontsize=7.5, va="center", family="monospace", clip_on=True
        )
    name = f"{view.symbol} {view.name}" + (" (dropped)" if view.dropped else "")
    axes.text(7.85, top + 0.15, name, fontsize=8.5, fontweight="bold", va="center", color=view.colour)
    words = f"{view.verdict} {view.effect}" if view.verdict != "pinned" else f"kept: {view.effect}"
    axes.text(7.85, top + 0.36, f"{words}, {view.tokens} tokens", fontsize=7, va="center")
