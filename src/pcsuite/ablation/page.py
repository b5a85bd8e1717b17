"""The page of an ablation, one self-contained HTML file that opens with the prompt, and the same picture as a PNG."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

from pcsuite import __version__
from pcsuite._util.changes import FileChanges, changing_files
from pcsuite._util.files import write_errors
from pcsuite._util.text import figure_text, p_text
from pcsuite.ablation import across_picture, picture, sentences
from pcsuite.ablation.across import labels_of
from pcsuite.ablation.arms import FULL
from pcsuite.ablation.document import document
from pcsuite.ablation.records import blocks_table
from pcsuite.ablation.result import AblationResult
from pcsuite.ablation.screen import TOGETHER
from pcsuite.errors import AnalysisError, require
from pcsuite.logging.log import iter_newest_rows
from pcsuite.pages.figures import drawing
from pcsuite.pages.render import render_page
from pcsuite.reporting.flips import EACH, BlockFlips, Flip, cut_text
from pcsuite.reporting.samples import expected_text

_LINES_DRAWN = 4
_WRAP = 88


def render_ablation(result: AblationResult) -> str:
    """The page: the prompt as a heat map, the trimmed prompt as a diff, then verdicts, interactions, controls and arms.

    Everything is escaped except the suite's own style and script, and no request leaves the page.
    """
    study, views = result.study, picture.block_views(result)
    return render_page(
        "ablation/templates/ablation.html.j2",
        title=f"What each part of {study.request.title} is worth",
        headline=sentences.headline(result),
        notices=sentences.notices(result),
        facts=[
            ("items", f"{result.items:,}"),
            *([("clusters", f"{result.clusters:,}")] if result.clusters < result.items else []),
            ("arms", str(len(result.arms))),
            ("answers", f"{sum(arm.items for arm in result.arms):,}"),
            ("model", study.model_id),
            ("regime", study.request.regime),
            *([("answers an item", str(study.answers))] if study.answers > 1 else []),
            ("margin", f"{study.request.margin:g}"),
            ("one lost call moves a bound by", figure_text(1 / max(result.items, 1), 3)),
            ("full prompt's score", figure_text(result.arms[0].score, 3)),
        ],
        views=views,
        # How far the intervals beside the blocks reach to either side, at most the whole score.
        reach=min(1.0, max((abs(x) for view in views for x in view.limits), default=0.0)),
        trim_sentence=sentences.trim_sentence(result),
        drops=picture.drop_rows(result),
        diff=picture.diff_lines(result),
        undecided=[
            *sentences.amount_lines(result),
            *sentences.undecided_lines(result),
            *sentences.posterior_lines(result),
        ],
        margin=sentences.margin_sentence(result),
        limits=sentences.limits_words(study.request),
        measures=list(picture.shown_measures(result).values()),
        flips=flip_examples(result),
        texts={block.name: cut_text(block.text) for block in study.prompt.blocks},
        run=result.log.stem,
        adherence=[
            (
                entry.block,
                entry.words,
                sentences.interval_words(entry.verdict.effect, 3)
                if entry.verdict is not None
                else "not tested",
                p_text(entry.verdict.p_value) if entry.verdict is not None else "",
                str(entry.items),
                entry.check,
            )
            for entry in result.adherence
        ],
        named=[
            (
                found.score,
                entry.block,
                sentences.verdict_words(result, entry),
                sentences.interval_words(entry.effect, 3),
                p_text(entry.p_value),
            )
            for found in result.named
            for entry in found.verdicts
        ],
        yearly=sentences.yearly_lines(result),
        **_tables(result),
        pairs=result.pairs_measured,
        noise=sentences.noise_sentence(result),
        design=study.design.why,
        reading=study.task.reading,
        footer=f"Written by pcsuite {__version__} from {result.log.name}.",
    )


def flip_examples(result: AblationResult) -> dict[str, BlockFlips]:
    """By block the items that it fixed and broke, some of each with the answers of the full prompt and without it.

    Reads the log through once.
    """
    truths = {item.item_id: cut_text(expected_text(item)) for item in result.study.items}
    examples, sought = {}, set()
    for name, (fixed, broken) in result.flips.items():
        flips = BlockFlips(name, result.study.task.id, result.study.model_id, FULL, f"-{name}")
        flips.n_fixed, flips.n_broken = len(fixed), len(broken)
        examples[name] = flips
        chosen = [*fixed[:EACH], *broken[:EACH]]
        sought |= {(arm, item) for arm in (FULL, flips.baseline) for item in chosen}
    answers: dict[tuple[str, str], tuple[float, str]] = {}
    for row in iter_newest_rows(result.log) if sought else ():
        key = (row.condition.id, row.task.item_id)
        score = row.metrics.get("task_score")
        if key in sought and key not in answers and isinstance(score, (int, float)) and not row.errors:
            text = row.generation.text if row.generation is not None else ""
            answers[key] = (float(score), cut_text(text))
    for name, (fixed, broken) in result.flips.items():
        flips = examples[name]
        for listed, items in ((flips.fixed, fixed[:EACH]), (flips.broken, broken[:EACH])):
            for item in items:
                pair = [answers.get((arm, item)) for arm in (FULL, flips.baseline)]
                if pair[0] is not None and pair[1] is not None:
                    listed.append(Flip(item, truths.get(item), *pair[0], *pair[1]))
    return examples


def _tables(result: AblationResult) -> dict[str, Any]:
    """The rows of the page's tables, numbers as text, by the name that the template has for each."""
    shown = picture.shown_measures(result)
    return {
        "table": [
            [
                entry.block,
                sentences.verdict_words(result, entry),
                sentences.interval_words(entry.effect, 3),
                p_text(entry.p_value),
                sentences.interval_words(entry.against_sham, 3) if entry.against_sham else "no sham",
                *(picture.measure_words(name, result.measures[entry.block][name]) for name in shown),
            ]
            for entry in result.verdicts
            if entry.verdict != TOGETHER
        ],
        "groups": [
            (
                entry.name,
                "split" if entry.split else "",
                sentences.verdict_words(result, entry.verdict),
                sentences.interval_words(entry.verdict.effect, 3),
                p_text(entry.verdict.p_value),
            )
            for entry in result.groups
        ],
        "group_sentences": sentences.group_sentences(result),
        "steps": [
            (
                ", ".join(step.dropped),
                sentences.interval_words(step.difference, 3),
                sentences.items_words(step.difference.n, step.clusters),
                "confirmed"
                if step.confirmed
                else f"not confirmed: {step.missing} without an answer"
                if step.hidden
                else "not confirmed",
            )
            for step in (result.trim.steps if result.trim is not None else ())
        ],
        "interactions": [
            (entry.words, sentences.interval_words(entry.estimate, 3), p_text(entry.p_value))
            for entry in result.interactions
        ],
        "attribution": [
            (
                entry.operator,
                entry.method,
                sentences.interval_words(entry.effect, 3),
                p_text(entry.test.p_value),
                "" if entry.exact else f"{entry.orders:.0f} of all orders",
            )
            for entry in result.attribution
        ],
        "arms": [
            [
                arm.id,
                " ".join(arm.operators),
                str(arm.items),
                sentences.outcome_words(arm.unanswered),
                figure_text(arm.score, 3),
            ]
            + [figure_text(arm.measures[name], 3) for name in shown]
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
        title = f"What each part of {result.study.request.title} is worth"
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
    hatch = "////" if view.tint.hatched else None
    shade = 0.08 + 0.42 * view.tint.strength if view.verdict != "pinned" else 0.0
    axes.add_patch(
        patches.Rectangle((0.1, top), 7.6, height, facecolor=view.tint.colour, alpha=shade, linewidth=0)
    )
    axes.add_patch(
        patches.Rectangle(
            (0.1, top),
            7.6,
            height,
            fill=False,
            hatch=hatch,
            edgecolor=view.tint.colour,
            linewidth=0.5,
            alpha=0.5,
        )
    )
    for index, line in enumerate(lines):
        axes.text(
            0.2, top + 0.16 + 0.2 * index, line, fontsize=7.5, va="center", family="monospace", clip_on=True
        )
    name = f"{view.symbol} {view.name}" + (" (dropped)" if view.dropped else "")
    axes.text(7.85, top + 0.15, name, fontsize=8.5, fontweight="bold", va="center", color=view.tint.colour)
    words = f"{view.words} {view.effect}" if view.verdict != "pinned" else f"kept: {view.effect}"
    axes.text(7.85, top + 0.36, f"{words}, {view.tokens} tokens", fontsize=7, va="center")


def write_result(result: AblationResult) -> list[Path]:
    """Write page, picture, Markdown, tables and the trimmed prompt into the ablation's folder; the page comes first.

    They take the place of those of an earlier start all at once. Of several models and tables each has a folder of its
    own, and what holds for all stands above them. Raises ``AnalysisError`` where a file cannot be written.
    """
    if not result.beside:
        return _write_files(result, result.study.folder)
    folder = result.study.folder
    texts = {
        "models.md": across_picture.markdown(result),
        f"trimmed{result.study.prompt.source.suffix or '.md'}": result.trimmed,
        "models.json": json.dumps(across_picture.document(result), indent=1, ensure_ascii=False) + "\n",
    }
    tables = {"models.csv": across_picture.models_table(result)}
    if result.differences:
        tables["differences.csv"] = across_picture.differences_table(result)
    with write_errors(AnalysisError, folder), changing_files(folder / ".result.changes") as changes:
        for name, text in texts.items():
            changes.write(folder / name, text)
        _write_trimmed_files(result, folder, changes)
        for name, table in tables.items():
            table.write_csv(folder / name, changes.replacing)
    written = [folder / name for name in (*texts, *tables)]
    for label, one in zip(labels_of(result.each), result.each, strict=True):
        below = folder / re.sub(r"[^\w.-]+", "-", label)
        below.mkdir(exist_ok=True)
        written += _write_files(one, below)
    return written


def _write_files(result: AblationResult, folder: Path) -> list[Path]:
    suffix = result.study.prompt.source.suffix or ".md"
    texts = {
        "ablation.html": render_ablation(result),
        "ablation.md": picture.markdown(result),
        f"trimmed{suffix}": result.trimmed,
        "ablation.json": json.dumps(document(result), indent=1, ensure_ascii=False) + "\n",
    }
    with write_errors(AnalysisError, folder), changing_files(folder / ".result.changes") as changes:
        for name, text in texts.items():
            changes.write(folder / name, text)
        _write_trimmed_files(result, folder, changes)
        blocks_table(result).write_csv(folder / "blocks.csv", changes.replacing)
        with changes.replacing(folder / "ablation.png") as partial:
            write_png(result, partial)
    return [folder / name for name in (*texts, "blocks.csv", "ablation.png")]


def _write_trimmed_files(result: AblationResult, folder: Path, changes: FileChanges) -> None:
    """Write the trimmed files of a prompt of several files, each in its form and at its place below ``trimmed/``."""
    for path, content in result.trimmed_files.items():
        target = folder / "trimmed" / path
        if content is None:
            changes.remove(target)
        else:
            changes.write(target, content)
