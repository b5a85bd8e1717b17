"""The report as one Markdown file, safe against what models write."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pcsuite._util.text import aligned, counted, figure_text, limits_text, p_text, signed
from pcsuite.analysis.asked_items import Side
from pcsuite.analysis.comparison import Comparison, ItemChange
from pcsuite.analysis.load.item_scores import SCORE
from pcsuite.analysis.probabilities import probability_lines
from pcsuite.reporting.gates import gate_line
from pcsuite.reporting.grid import Section
from pcsuite.reporting.page import ReportPage
from pcsuite.reporting.verdicts import VerdictSentence

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def escape_markdown(text: object) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no table border, one line.

    For names and texts that models or users wrote.
    """
    flat = " ".join(str(text).split())
    return _SPECIAL.sub(r"\\\1", flat).replace("&", "&amp;")


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = ()) -> str:
    """A pipe table; columns whose index is in ``right`` are aligned right.

    Headings and cells are escaped.
    """
    lines = [
        "| " + " | ".join(escape_markdown(heading) for heading in headings) + " |",
        "|" + "|".join("---:" if index in right else "---" for index in range(len(headings))) + "|",
    ]
    lines += ["| " + " | ".join(escape_markdown(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


_HEADINGS = (
    "task", "model", "regime", "condition", "metric", "A", "B", "difference", "p (BH)", "items", "outcome",
)  # fmt: skip


def _headings(comparison: Comparison) -> list[str]:
    """The headings of the cells' table; the p-value is the one that decides."""
    return ["p (Holm)" if h == "p (BH)" and comparison.correction == "holm" else h for h in _HEADINGS]


def _deciding_p(comparison: Comparison, record: Mapping[str, Any]) -> float | None:
    """The adjusted p-value that a record's outcome rests on; costs are adjusted by metric in any case."""
    held = comparison.correction == "holm" and not comparison.metrics.is_cost(record["metric"])
    return record["p_holm"] if held else record["p_bh"]  # type: ignore[no-any-return]


def comparison_text(comparison: Comparison, first: str, second: str, *, most: int = 12) -> str:
    """A comparison for a terminal: the judgement, the cells as an aligned table, and the items that changed.

    ``first`` and ``second`` are the names of the runs; of items that broke and of those that were fixed the first
    ``most`` are named.
    """
    rows = [[str(cell) for cell in row] for row in _rows(comparison)]
    lines = [
        *_head(comparison, first, second),
        *_standing(comparison, first, second),
        *missing_lines(comparison, first, second),
        *_reach(comparison),
        "",
    ]
    shown = [
        *aligned([_headings(comparison), *rows]),
        *_probabilities(comparison),
        *changed_item_lines(comparison, most),
    ]
    return "\n".join(lines + shown)


def comparison_markdown(comparison: Comparison, first: str, second: str) -> str:
    """A comparison of two named runs for a pull request: the judgement, then the cells as a Markdown table."""
    head = [*_head(comparison, first, second), *_standing(comparison, first, second)]
    head += [*missing_lines(comparison, first, second), *_reach(comparison)]
    head = [escape_markdown(line) for line in head]
    shown = table(_headings(comparison), _rows(comparison), (5, 6, 8, 9))
    changed = "\n".join(f"- {escape_markdown(line)}" for line in changed_item_lines(comparison) if line)
    return "\n\n".join(
        [
            f"**{head[0]}**",
            *head[1:],
            shown,
            *map(escape_markdown, _probabilities(comparison)),
            *([changed] if changed else []),
        ]
    )


def changed_item_lines(comparison: Comparison, most: int = 12) -> list[str]:
    """The items that broke and those that were fixed, a line each after an empty one; nothing where no score moved.

    The first ``most`` of both are named, with their scores before and now.
    """
    several = len({change.key for change in comparison.changes}) > 1
    lines = []
    for word, changes in (("broken", comparison.broke), ("fixed", comparison.fixed)):
        if changes:
            named = [
                f"{change.item_id}{f' ({_cell_of(change)})' if several else ''} {change.first:g} → {change.second:g}"
                for change in changes[:most]
            ]
            more = f", … and {len(changes) - most} more" if len(changes) > most else ""
            lines.append(f"{word}: {_items_of(changes)}: {', '.join(named)}{more}")
    return ["", *lines] if lines else []


def _cell_of(change: ItemChange) -> str:
    return f"{change.key.task}, {_condition(change.key._asdict())}"


def _probabilities(comparison: Comparison) -> list[str]:
    """Posterior probabilities of each compared cell, where they were asked for."""
    return probability_lines(
        list(comparison.table.records()),
        lambda record: (
            f"{record['task']} × {record['model']} × {record['decoding']} × {_condition(record)},"
            f" {comparison.metrics.label(record['metric'])}"
        ),
    )


MARKER = "<!-- pcsuite compare -->"
"""First line of a comment for GitHub, by which a workflow finds the comment it wrote before."""
_LONGEST_COMMENT = 60_000
_LONGEST_ANSWER = 160
_CHANGED_SHOWN = 30
_MARKS = {"worse": ":x:", "no worse": ":white_check_mark:", "undecided": ":grey_question:"}
_STANDINGS = {
    "worse": "{second} is worse than {first}",
    "no worse": "{second} is no worse than {first}",
    "undecided": "{second} is neither worse nor shown to be no worse than {first}",
}


def comparison_github(
    comparison: Comparison,
    first: str,
    second: str,
    answers: Mapping[ItemChange, tuple[str, str]] | None = None,
) -> str:
    """A comparison of two named runs as a comment on a pull request: verdict, scores, and the items that changed.

    Other metrics are folded. ``answers`` are the texts before and now of changed items, where they are at hand; they
    are escaped and cut. GitHub takes 65,536 characters, and this stays below.
    """
    lines = [
        *_head(comparison, first, second),
        *missing_lines(comparison, first, second),
        *_reach(comparison),
    ]
    head = [escape_markdown(line) for line in lines]
    names = {"first": escape_markdown(first), "second": escape_markdown(second)}
    margin = f" (margin {comparison.margin:g})" if comparison.margin else ""
    records = list(comparison.table.records())
    rows = list(zip(records, _rows(comparison), strict=True))
    scores = [row for record, row in rows if record["metric"] == SCORE]
    others = [row for record, row in rows if record["metric"] != SCORE]
    parts = [
        MARKER,
        f"### {_mark(comparison)} {_STANDINGS[comparison.standing].format(**names)}{margin}{_untold(comparison)}",
        *head,
        table(_headings(comparison), scores, (5, 6, 8, 9)),
        *map(escape_markdown, _probabilities(comparison)),
        *_changed_items(comparison, answers or {}),
    ]
    if others:
        folded = table(_headings(comparison), others, (5, 6, 8, 9))
        parts.append(f"<details><summary>{len(others)} further metrics</summary>\n\n{folded}\n\n</details>")
    text = "\n\n".join(parts)
    # GitHub refuses longer comments altogether, so the least needed part goes first.
    if len(text) > _LONGEST_COMMENT:
        text = "\n\n".join([*parts[:-1], f"{len(others)} further metrics are left out: the comment is full."])
    return text if len(text) <= _LONGEST_COMMENT else text[:_LONGEST_COMMENT].rpartition("\n")[0]


def _changed_items(comparison: Comparison, answers: Mapping[ItemChange, tuple[str, str]]) -> list[str]:
    """The items that score lower now, and those that score higher, each with what was answered."""
    broke, fixed = comparison.broke, comparison.fixed
    return [
        f"{_items_of(broke)} broke, {_items_of(fixed)} fixed.",
        *_folded("broke", broke, answers, opened=True),
        *_folded("fixed", fixed, answers, opened=False),
    ]


def _folded(
    word: str,
    changes: Sequence[ItemChange],
    answers: Mapping[ItemChange, tuple[str, str]],
    *,
    opened: bool,
) -> list[str]:
    """A table of changed items that unfolds; nothing where there are none."""

    def cut(text: str) -> str:
        flat = " ".join(text.split())
        return flat if len(flat) <= _LONGEST_ANSWER else flat[: _LONGEST_ANSWER - 1] + "…"

    if not changes:
        return []
    rows = []
    for change in changes[:_CHANGED_SHOWN]:
        before, now = answers.get(change, ("", ""))
        where = f"{change.key.task} × {change.key.model} × {_condition(change.key._asdict())}"
        rows.append([change.item_id, where, f"{change.first:g} → {change.second:g}", cut(before), cut(now)])
    shown = table(("item", "where", "score", "answer before", "answer now"), rows)
    more = f"\n\n… and {len(changes) - _CHANGED_SHOWN} more" if len(changes) > _CHANGED_SHOWN else ""
    state = " open" if opened else ""
    return [f"<details{state}><summary>{_items_of(changes)} {word}</summary>\n\n{shown}{more}\n\n</details>"]


def _items_of(changes: Sequence[ItemChange]) -> str:
    """``4 items``, or ``4 items (12 scores)`` where they changed under several conditions or models."""
    items = counted(len({(change.key.task, change.item_id) for change in changes}), "item")
    scores = counted(len(changes), "score")
    return items if items.split()[0] == scores.split()[0] else f"{items} ({scores})"


def _standing(comparison: Comparison, first: str, second: str) -> list[str]:
    """Whether the second run is no worse, which only a margin gives a meaning to."""
    if not comparison.margin:
        return []
    standing = _STANDINGS[comparison.standing].format(first=first, second=second)
    items = max((entry.observed.measured.n for entry in comparison.held), default=0)
    lost = f" One lost score moves a bound by {1 / items:.3f}." if items else ""
    return [f"By its scores {standing} (margin {comparison.margin:g}){_untold(comparison)}.{lost}"]


def _reach(comparison: Comparison) -> list[str]:
    """What the comparison can find as a gate, in one line."""
    line = gate_line(comparison.gates)
    return [line] if line else []


def _mark(comparison: Comparison) -> str:
    return _MARKS[comparison.standing if comparison.passes else "worse"]


def _untold(comparison: Comparison) -> str:
    """How many scores the judgement lacks; empty where it lacks none."""
    lost = len(comparison.missing)
    return f"; {lost:,} {'score is' if lost == 1 else 'scores are'} missing" if lost else ""


_MISSING_NAMED = 5


def missing_lines(comparison: Comparison, first: str, second: str) -> list[str]:
    """Which planned items lack a score, what they could hide, and whether a gate fails for it; a sentence each."""
    lines = []
    sides: tuple[tuple[Side, str], ...] = (("first", first), ("second", second))
    for side, name in sides:
        lost = comparison.missing_of(side)
        if lost:
            ids = list(dict.fromkeys(entry.item_id for entry in lost))
            kinds = Counter(entry.why for entry in lost)
            reasons = ", ".join(f"{count:,} {why}" for why, count in sorted(kinds.items()))
            more = f" and {len(ids) - _MISSING_NAMED:,} more" if len(ids) > _MISSING_NAMED else ""
            lines.append(
                f"Missing in {name}: {counted(len(lost), 'score')} of {counted(len(ids), 'planned item')} ({reasons}):"
                f" {', '.join(ids[:_MISSING_NAMED])}{more}."
            )
    for key, paired in comparison.different.items():
        lines.append(
            f"Different items of {_condition(key._asdict())} on {key.task}: {paired.counts[0]:,} in {first},"
            f" {paired.counts[1]:,} in {second}, compared are the {len(paired.names):,} in common."
        )
    if comparison.missing and comparison.policy == "drop":
        lines.append("They are left out (--missing drop), as if they were missing by chance.")
    for key in comparison.unscored:
        lines.append(
            f"Not compared: hardly an item of {_condition(key._asdict())} on {key.task} with {key.model} has a score in"
            " both runs, so a gate fails."
        )
    hidden = {id(entry) for _, entry in comparison.hidden}
    for key, entry in zip(comparison.keys, comparison.held, strict=True):
        worst, best = entry.at_worst, entry.at_best
        if worst is None or best is None or comparison.policy == "drop":
            continue
        where = f"{_condition(key._asdict())} on {key.task} with {key.model}"
        span = f"{signed(worst.estimate.value)} to {signed(best.estimate.value)}"
        line = f"Whatever they would have been, the score of {where} changed by {span}"
        if id(entry) in hidden:
            shown = "no worse" if entry.observed.shown_no_worse else "not worse"
            limit = ""
            if worst.no_worse is not None and comparison.margin:
                limit = f" (limit {signed(worst.no_worse.limits.low)}, margin {comparison.margin:g})"
            line += (
                f": {shown} on the scored items, but not with the missing ones at their worst{limit}, so a gate fails"
                " (--missing drop judges the scored items alone)"
            )
        lines.append(f"{line}.")
    return lines


def _head(comparison: Comparison, first: str, second: str) -> list[str]:
    worse, better = comparison.regressions, comparison.improvements
    counts = f"{counted(len(worse), 'regression')}, {counted(len(better), 'improvement')}"
    lines = [f"{second} against {first}: {counts}."]
    scores = [record for record in comparison.table.records() if record["metric"] == SCORE]
    if len(scores) == 1:
        (record,) = scores
        limits = limits_text(record["delta_low"], record["delta_high"])
        lines.append(
            f"The {comparison.metrics.label(SCORE)} went from {figure_text(record['first'])} to"
            f" {figure_text(record['second'])}: {signed(record['delta'])}{limits} on"
            f" {_items(record, 'items')}, of which {len(comparison.broke):,} broke and {len(comparison.fixed):,} were"
            " fixed."
        )
    costs = [
        record["outcome"]
        for record in comparison.table.records()
        if comparison.metrics.is_cost(record["metric"]) and record["outcome"] in ("worse", "better")
    ]
    if costs:
        up, down = costs.count("worse"), costs.count("better")
        lines.append(
            f"Costs went up in {up} and down in {counted(down, 'cell')}: they are not counted as regressions."
        )
    for record in worse:
        low, high = record["delta_low"], record["delta_high"]
        interval = "" if low is None else f"95 % interval {figure_text(low)} to {figure_text(high)}, "
        lines.append(
            f"Worse: {comparison.metrics.label(record['metric'])} of {_condition(record)} on {record['task']} with"
            f" {record['model']} changed by {signed(record['delta'])} ({interval}adjusted p"
            f" {p_text(_deciding_p(comparison, record))}, {record['n_items']} items){_form_words(record)}."
        )
    judged = {(record["task"], record["judge"]) for record in comparison.table.records() if record["judge"]}
    lines += [f"Scores of {task} are a judge's: {words}." for task, words in sorted(judged)]
    for name, (before, after) in comparison.renamed.items():
        lines.append(f"Paired across {name}s: {before} with {after}.")
    for run, missing in ((second, comparison.only_first), (first, comparison.only_second)):
        if missing:
            names = [
                f"{_condition(key._asdict())} × {key.task} × {key.model} × {key.decoding}"
                for key in missing[:5]
            ]
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            lines.append(f"Not in {run}: {'; '.join(names)}{more}.")
    return lines


def _condition(cell: Mapping[str, Any]) -> str:
    """``C4``, or ``C4 (injection)`` where the prompts were perturbed."""
    kind = cell["perturbation"]
    return cell["condition"] if kind in (None, "", "none") else f"{cell['condition']} ({kind})"


def _items(record: Mapping[str, Any], noun: str = "") -> str:
    """``120``, ``90 (30 missing)``, ``100 in 20 clusters``: what a row of the table rests on, with a noun if wanted."""
    clusters, lost = record["n_clusters"], (record["missing_first"] or 0) + (record["missing_second"] or 0)
    text = f"{record['n_items']} {noun}".strip()
    text += f" in {counted(clusters, 'cluster')}" if clusters and clusters < record["n_items"] else ""
    return text + (f" ({lost} missing)" if lost else "")


def _form_words(record: Mapping[str, Any]) -> str:
    """What stands beside a difference that the strict and the lenient reading do not agree on; else nothing."""
    return f": {record['form']} ({signed(record['lenient_delta'])} leniently read)" if record["form"] else ""


def _rows(comparison: Comparison) -> list[list[str]]:
    return [
        [
            record["task"], record["model"], record["decoding"], _condition(record),
            comparison.metrics.label(record["metric"]), figure_text(record["first"]), figure_text(record["second"]),
            f"{signed(record['delta'])}{limits_text(record['delta_low'], record['delta_high'])}"
            f" {record['stars']}".rstrip(),
            p_text(_deciding_p(comparison, record)), _items(record), f"{record['outcome']}{_form_words(record)}",
        ]
        for record in comparison.table.records()
    ]  # fmt: skip


FIGURE_KINDS = ("ladder", "Pareto front")
"""Figures shown; the plots folder has them all."""


def render_markdown(page: ReportPage, plots: str) -> str:
    """The report as one Markdown file, for a repository or a paper's appendix.

    It has the page's words, its main tables, and the figures of ``FIGURE_KINDS`` as links into the folder ``plots``
    of the plots.
    """
    parts = [f"# {escape_markdown(page.title)}", escape_markdown(page.subtitle)]
    parts += [f"**{escape_markdown(text)}**" for text in (page.sentence, page.answer.exploring) if text]
    parts += [f"> **{escape_markdown(alarm)}**" for alarm in page.alarms]
    parts += [f"> {escape_markdown(notice)}" for notice in page.notices]
    parts.append(table(("", ""), page.facts))
    parts.append("## What the run says")
    parts += _verdict_list(page.overview)
    for group in page.verdicts:
        where = f"{group.task} on {group.model} ({group.decoding})"
        parts.append(f"### {escape_markdown(where)}")
        parts += _verdict_list(group.verdicts)
    findings = [
        f"- **{finding['verdict']}**: {escape_markdown(finding['statement'] + ' ' + finding['evidence'])}"
        for finding in page.hypotheses
        if finding["arm"]
    ]
    armless = [finding["id"] for finding in page.hypotheses if not finding["arm"]]
    if armless:
        findings.append(
            f"- **not tested**, for want of an arm: {', '.join(armless)} (hypotheses.csv says what each needs)"
        )
    parts += ["## Hypotheses and criteria", "\n".join(findings)] if findings else []
    for section in page.sections[:2]:
        parts += _section(section)
    shown = [figure for figure in page.figures if figure.spec.kind in FIGURE_KINDS and figure.png is not None]
    parts += ["## Figures"] if shown else []
    for figure in shown:
        caption = escape_markdown(figure.caption)
        parts.append(f"![{caption}](../../plots/{quote(plots)}/{figure.name}.png)\n\n*{caption}*")
    for section in [*page.external, page.compared]:
        parts += _section(section)
    parts.append("## What failed or was left out")
    parts.append("\n".join(f"- {escape_markdown(line)}" for line in page.excluded))
    if page.errors:
        parts.append(table(("rows", "error"), [(count, message) for message, count in page.errors], (0,)))
    parts.append(f"*{escape_markdown(page.footer)}*")
    return "\n\n".join(part for part in parts if part) + "\n"


def _verdict_list(verdicts: Sequence[VerdictSentence]) -> list[str]:
    lines = [
        f"- {escape_markdown(verdict.text)}{f' ({escape_markdown(verdict.evidence)})' if verdict.evidence else ''}."
        for verdict in verdicts
    ]
    return ["\n".join(lines)] if lines else []


def _section(section: Section) -> list[str]:
    if section.table is None or not section.table.rows:
        return []
    headings = [column.label for column in section.table.columns]
    right = [index for index, column in enumerate(section.table.columns) if column.numeric]
    rows = [[cell.text for cell in row.cells] for row in section.table.rows]
    parts = [f"## {escape_markdown(section.title)}", escape_markdown(section.lead)]
    return [*parts, table(headings, rows, right)]
