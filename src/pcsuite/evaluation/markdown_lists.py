"""Records that an answer writes as Markdown instead of JSON: tables, lists, and lines of a name and a value."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

_LONGEST = 20_000
# Between two marks there is one run of blanks in these patterns, never two side by side: where a line does not match in
# the end, two would be parted in every way there is.
_RULE = re.compile(r"\s*(?:\|\s*)?:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*(?:\|\s*)?")
_BULLET = re.compile(r"\s*(?:[-*+•–]|[0-9]{1,2}[.)])\s+")
_MARKUP = "*_`\"'“”"
_NONE = frozenset(
    {"none", "n/a", "na", "nil", "-", "–", "—", "no entities", "none found", "(none)", "[]", ""}
)


def table_records(text: str) -> list[dict[str, str]]:
    """The rows of the last Markdown table of a text by the names of its columns, without markup; none without a table.

    >>> table_records("| Entity | Type |\\n|---|---|\\n| **Rex** | PER |")
    [{'Entity': 'Rex', 'Type': 'PER'}]
    """
    lines = text[-_LONGEST:].split("\n")
    rules = [index for index, line in enumerate(lines) if index and "--" in line and _RULE.fullmatch(line)]
    if not rules:
        return []
    names = _cells(lines[rules[-1] - 1])
    records = []
    for line in lines[rules[-1] + 1 :]:
        if "|" not in line:
            break
        records.append(dict(zip(names, _cells(line), strict=False)))
    return records


def _cells(line: str) -> list[str]:
    return [bare(cell) for cell in line.strip().strip("|").split("|")]


def bare(text: str) -> str:
    """A cell or an entry without the markup around it.

    >>> bare(" **Rex** ")
    'Rex'
    """
    return text.strip().strip(_MARKUP + " ").strip()


def list_entries(text: str) -> list[tuple[str, bool]]:
    """The lines of a text with content, without bullets and numbers, and whether each had one."""
    entries = []
    for line in text[-_LONGEST:].split("\n"):
        if line.strip() and not line.lstrip().startswith("```"):
            bullet = _BULLET.match(line)
            entries.append((line[bullet.end() :] if bullet else line.strip(), bullet is not None))
    return entries


_IN_BRACKETS = re.compile(r"(.{1,200}?)\s*[(\[]\s*(?:type:?\s*)?([^()\[\]]{1,40})[)\]]\s*\.?", re.IGNORECASE)
_PARTED = re.compile(
    r"(.{1,200}?)\s*(?::|–|—|→|=>|->|\||\s-|,\s*type:?)\s*[*_`\"']*([^:|]{1,40}?)[*_`\"']*\s*\.?",
    re.IGNORECASE,
)
_HEAD_MARKUP = re.compile(r"[#\s*_`]*")
_HEADED = re.compile(r"([^:*_`]{1,40}?)[*_`\s]*[:–—-][*_`]*\s*(.*)")


def typed_entries(text: str, types: Collection[str]) -> list[dict[str, str]] | None:
    """Entries with a type each, from the lines of a text; ``None`` where its lines are no such list.

    "Rex (PER)", "Rex: PER", "Rex - Person", "PER: Rex, Ada" and bullets under a type's heading are known; ``types`` are
    the names a type may have, in capitals. A bullet without a type is an entry without one.

    >>> typed_entries("- Rex (PER)\\n- Oslo (LOC)", {"PER", "LOC"})
    [{'text': 'Rex', 'type': 'PER'}, {'text': 'Oslo', 'type': 'LOC'}]
    """
    entries: list[dict[str, str]] = []
    heading, any_typed = "", False
    for line, is_bullet in list_entries(text):
        markup = _HEAD_MARKUP.match(line)
        headed = _HEADED.fullmatch(line, markup.end() if markup else 0)
        kind = type_name(headed[1], types) if headed else ""
        if headed and kind:
            heading = kind
            names = [bare(name) for name in re.split(r"[,;]| and ", headed[2])]
            entries += [
                {"text": name, "type": kind} for name in names if name.casefold().strip(".") not in _NONE
            ]
            any_typed = True
            continue
        pair = _typed_pair(line, types)
        if pair is not None:
            entries.append(pair)
            any_typed = True
        elif is_bullet and bare(line).casefold().strip(".") not in _NONE:
            entries.append({"text": bare(line), "type": heading})
            any_typed = any_typed or bool(heading)
    return entries if any_typed else None


def _typed_pair(line: str, types: Collection[str]) -> dict[str, str] | None:
    for pattern in (_IN_BRACKETS, _PARTED):
        match = pattern.fullmatch(line.strip())
        kind = type_name(match[2], types) if match else ""
        if match and kind:
            return {"text": bare(match[1].rstrip(" :")), "type": kind}
    return None


def type_name(name: str, types: Collection[str]) -> str:
    """The type that a word names, in one or in many, in capitals; nothing where it names none.

    >>> type_name("Persons", {"PERSON"}), type_name("thing", {"PERSON"})
    ('PERSON', '')
    """
    word = bare(name).upper().removeprefix("TYPE:").strip()
    for form in (
        word,
        word.removesuffix("S"),
        word.removesuffix("IES") + "Y",
        word.split(" ")[0],
        word.split(" ")[0].removesuffix("S"),
    ):
        if form in types:
            return form
    return ""


_TUPLE = re.compile(
    r"[(\[<]\s*([^,;|()\[\]<>]{1,200})[,;|]\s*([^,;|()\[\]<>]{1,60})[,;|]\s*([^,;|()\[\]<>]{1,200})[)\]>]"
)
_ARROWS = re.compile(
    r"(.{1,200}?)\s*(?:→|->|—|--+>?|–|\|)[\s\[(*_`]*([^→|—–>]{1,60}?)[\])*_`\s]*(?:→|-+>|—|--+>?|–"
    r"|\|)\s*(.{1,200})"
)


def triples(text: str) -> list[list[str]] | None:
    """Lines of three parts: "(Rex, Work_For, Acme)", "Rex → Work_For → Acme"; ``None`` where a text has no such line.

    >>> triples("- (Rex, Work_For, Acme)")
    [['Rex', 'Work_For', 'Acme']]
    """
    rows: list[list[str]] = []
    for line, _ in list_entries(text):
        match = _TUPLE.search(line) or _ARROWS.fullmatch(line)
        if match is not None:
            rows.append([bare(part) for part in match.groups()])
    return rows or None


def named_values(text: str, names: Sequence[str]) -> dict[str, Any]:
    """What lines ``name: value`` or a table of fields give for each of ``names``; those not there are left out.

    >>> named_values("- **Vendor:** Oak\\n- Total: 12", ["vendor", "total"])
    {'vendor': 'Oak', 'total': '12'}
    """
    by_key = {_folded(name): name for name in names}
    values: dict[str, Any] = {}
    records = table_records(text)
    if len(records) == 1 and sum(_folded(key) in by_key for key in records[0]) > 1:
        return {by_key[_folded(key)]: value for key, value in records[0].items() if _folded(key) in by_key}
    for record in records:
        cells = list(record.values())
        if len(cells) > 1 and _folded(cells[0]) in by_key:
            values[by_key[_folded(cells[0])]] = cells[1]
    for line, _ in list_entries(text) if not records else ():
        key, sign, value = line.partition(":")
        if sign and _folded(key) in by_key and bare(value):
            values[by_key[_folded(key)]] = bare(value)
    return values


def _folded(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()
