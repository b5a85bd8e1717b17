"""The verifier's pages, whole in themselves: ``eval-report.html`` of an iteration, ``verify-all.html`` over evals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pcsuite._util.text import counted
from pcsuite.pages.render import render_page
from pcsuite.pages.words import mark_differences
from pcsuite.verifier.compare import RecordComparison, right_fields
from pcsuite.verifier.error_types import ERROR_TYPES
from pcsuite.verifier.paths import item_of, parse_path, pattern_of
from pcsuite.verifier.results import ResultsDifference
from pcsuite.verifier.scores import Counts, PooledScores

MAX_CARDS = 400
MAX_ROWS_PER_CARD = 60
MAX_ROWS = 300
MAX_RECORDS = 2_000
"""What a page draws; a browser has no use for more, and eval-results.json has everything."""
_MAX_DIAGNOSES = 40


def render_report(
    document: dict[str, Any],
    aggregate: dict[str, Any],
    comparison: RecordComparison | None = None,
    changes: ResultsDifference | None = None,
) -> str:
    """The HTML page of a results document, whole in itself and autoescaped.

    ``aggregate`` is the eval's, this iteration included. ``comparison`` is what the document was made of: with it the
    right fields of an item are there to unfold. ``changes`` are those since the iteration before.
    """
    sections = sorted(document["by_section"].items(), key=lambda entry: (entry[1]["f1"], entry[0]))
    fields = sorted(document["by_field"].items(), key=lambda entry: (entry[1]["f1"], entry[0]))
    cards = error_cards(document, comparison, changes)
    if "records" in document:
        # Of many records the worst are what a reader looks for.
        cards.sort(key=lambda card: -sum(card["counts"].values()))
    drawn = cards[:MAX_CARDS]
    iterations = aggregate["iterations"]
    return render_page(
        "verifier/templates/eval-report.html.j2",
        doc=document,
        metrics=document["metrics"],
        aggregate=aggregate,
        sections=sections,
        fields=fields,
        cards=drawn,
        hidden_errors=len(document["discrepancies"]) - sum(len(card["rows"]) for card in drawn),
        diagnoses=document["diagnoses"][:_MAX_DIAGNOSES],
        changes=changes,
        stages=Counter(pair["stage"] for pair in document["pairs"]).most_common(),
        notes=[*document.get("notes", ()), *document.get("truth_warnings", ())],
        section_names=sorted({card["section"] for card in drawn}),
        patterns=sorted({row["pattern"] for card in drawn for row in card["rows"] if "pattern" in row}),
        drawn_paths={card["path"] for card in drawn},
        worst_records=sorted(document.get("records", ()), key=lambda row: (row["f1"], row["record"]))[
            :MAX_RECORDS
        ],
        most_rows=MAX_ROWS,
        kinds=list(ERROR_TYPES.values()),
        item_of=item_of,
        card_paths=lambda paths: list(dict.fromkeys(map(item_of, paths))),
        points=[
            (entry["iteration"], entry["f1"], entry["comparable"])
            for entry in iterations
            if entry["f1"] is not None
        ],
        latest=next((entry for entry in iterations if entry["iteration"] == document["iteration"]), None),
    )


def error_cards(
    document: dict[str, Any],
    comparison: RecordComparison | None = None,
    changes: ResultsDifference | None = None,
) -> list[dict[str, Any]]:
    """One card for each item with an error, in the order of the record, with what ``item_card`` draws of it.

    Of an item the first :data:`MAX_ROWS_PER_CARD` errors are drawn; ``more`` counts the others.
    """
    pairs = {pair["path"]: pair for pair in document["pairs"]}
    items = {card.path: card for card in comparison.items} if comparison is not None else {}
    became = {change.field_path: "new error" for change in changes.broken} if changes else {}
    became |= {change.field_path: "changed" for change in changes.changed} if changes else {}
    fixed: dict[str, list[str]] = {}
    for change in changes.fixed if changes else ():
        fixed.setdefault(item_of(change.field_path), []).append(change.field_path)
    titles = {row["path"]: row["record"] for row in document.get("records", ())}
    most = MAX_CARDS if not titles else len(titles)
    cards: dict[str, dict[str, Any]] = {}
    for entry, place in zip(document["discrepancies"], document["locations"], strict=True):
        path = item_of(entry["field_path"])
        if path not in cards and len(cards) > most:
            continue
        card = cards.setdefault(
            path,
            {
                "path": path,
                "title": titles.get(path),
                "section": path.partition("[")[0],
                "pair": pairs.get(path),
                "rows": [],
                "more": 0,
                "counts": Counter(),
                "right": [],
                "truth_row": items[path].truth_row if path in items else None,
                "pointer": items[path].pointer if path in items else None,
                "fixed": [_within(field, path) for field in fixed.get(path, ())],
            },
        )
        card["counts"][entry["error_type"]] += 1
        if len(card["rows"]) >= MAX_ROWS_PER_CARD:
            card["more"] += 1
            continue
        expected, actual = mark_differences(entry["expected"], entry["actual"])
        key = _within(entry["field_path"], path)
        html = {"expected_html": expected, "actual_html": actual}
        row = {**entry, **place, **html, "key": key, "kind": ERROR_TYPES[entry["error_type"]]}
        if titles:
            row["pattern"] = _pattern(key)
        card["rows"].append({**row, "change": became.get(entry["field_path"], "")})
    for path, card in cards.items():
        item = items.get(path)
        kinds = [ERROR_TYPES[name] for name in card["counts"]]
        is_item = "[" in path and card["pair"] is None
        missing, invented = (
            all(getattr(kind, side) for kind in kinds) for side in ("is_missing", "is_invented")
        )
        card["state"] = "" if not is_item else "missing" if missing else "invented" if invented else ""
        # A card has the colour of the errors that it has most of.
        card["css"] = ERROR_TYPES[card["counts"].most_common(1)[0][0]].css
        if item is not None and item.matches:
            card["right"] = [(key, expected) for key, expected, _ in right_fields(item)[:MAX_ROWS_PER_CARD]]
    return list(cards.values())


def _pattern(key: str) -> str:
    """The field that a path within a record is of; a path that cannot be read is one of its own."""
    try:
        return pattern_of(parse_path(key))
    except ValueError:
        return key


def _within(path: str, item: str) -> str:
    """A path within an item, or the path itself where the item is all of it."""
    return path[len(item) :].removeprefix(".") or path


OVERVIEW = "verify-all.html"
_MAX_COLUMNS = 40
"""Fields of the heat map; those of the lowest F1 over all evals."""


class EvalRow(NamedTuple):
    """One eval of a page: its results, the counts by field, its best score before, and the address of its own page."""

    document: Mapping[str, Any]
    by_field: Mapping[str, Counts]
    best_before: float | None = None
    address: str | None = None


def heat_map(rows: Sequence[EvalRow]) -> dict[str, Any]:
    """F1 of evals on their worst fields, as the component ``heat_map`` draws it; the lowest F1 comes first.

    ``rows`` are the evals in that order, ``heat`` and ``columns`` what is drawn; ``fields`` has the counts over all
    evals of every field with an error, and ``right`` is the number of fields without one.
    """
    rows = sorted(rows, key=lambda row: (row.document["metrics"]["f1"], row.document["eval_id"]))
    totals: dict[str, Counts] = {}
    for row in rows:
        for name, counts in row.by_field.items():
            totals.setdefault(name, Counts()).include(counts)
    wrong = [name for name in totals if totals[name].error_count]
    wrong.sort(key=lambda name: (totals[name].f1, -totals[name].error_count, name))
    columns = wrong[:_MAX_COLUMNS]

    def cell(counts: Counts | None) -> tuple[float, str] | None:
        if counts is None:
            return None
        in_truth = int(counts.matches + counts.false_negatives)
        return counts.f1, f"{counts.error_count} errors, {in_truth} values in the truth"

    heat = [
        (
            row.document["eval_id"],
            row.address,
            row.document["metrics"]["f1"],
            [cell(row.by_field.get(name)) for name in columns],
        )
        for row in rows
    ]
    fields = {name: totals[name] for name in wrong}
    return {
        "rows": rows,
        "columns": columns,
        "heat": heat,
        "fields": fields,
        "right": len(totals) - len(wrong),
    }


def render_overview(name: str, rows: Sequence[EvalRow], pooled: PooledScores) -> str:
    """The page over all evals: macro- and micro-F1 with their intervals, and F1 of every eval on its worst fields.

    Evals and fields of the lowest F1 come first.
    """
    drawn = heat_map(rows)
    fields = drawn.pop("fields")
    return render_page(
        "verifier/templates/verify-all.html.j2",
        name=name,
        **drawn,
        hidden_columns=len(fields) - len(drawn["columns"]),
        fields=[(field, counts.as_dict()) for field, counts in fields.items()][:MAX_ROWS],
        most_rows=MAX_ROWS,
        pooled=pooled,
        over=counted(len(rows), "eval")
        if pooled.evals == len(rows)
        else f"{counted(pooled.evals, 'record')} in {counted(len(rows), 'eval')}",
        first=rows[0].document,
        kinds=list(ERROR_TYPES.values()),
    )
