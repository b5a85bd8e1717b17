"""What a row tells beside its answer, as pages show it: steps, sources, standard error, files changed, checks.

Rows are taken as the log has them: a system of the user's own wrote most of it, in forms that are not ours to choose.
Every text is bounded here, and only ever text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pcsuite._util.text import figure_text

MOST_STEPS = 100
"""Steps that are shown; of the others there is the number."""
LONGEST = 4_000
"""Characters of a text that are shown; of the others there is the number."""
MOST_ENTRIES = 60
"""Sources, changed files, checks and entries of a step that are shown."""
_DEPTH = 2
"""Mappings within mappings of which each entry is shown by itself; deeper ones are JSON."""
_NAMES = ("tool", "type", "role", "kind", "name")
"""Keys of a step that may say what it was, the first that is there."""


class Entry(NamedTuple):
    """One thing that a step says: its name there (``arguments.path``) and its words."""

    name: str
    text: str


class Step(NamedTuple):
    """A step: what it was, and what it says."""

    name: str
    entries: list[Entry]


class DiffLine(NamedTuple):
    """A line of a unified difference: ``new``, ``gone``, ``head`` or ``same``."""

    kind: str
    text: str


class Changed(NamedTuple):
    """A file that a call changed: what happened to it, its difference, and why that is not whole."""

    path: str
    change: str
    lines: list[DiffLine]
    note: str


class Checked(NamedTuple):
    """A check: whether it held, how it ended, and what it printed."""

    name: str
    passed: bool
    ended: str
    output: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """All that a row tells beside its answer."""

    steps: list[Step]
    more_steps: int
    sources: list[tuple[str, str]]
    """What was read, with its hash or an empty text."""
    changed: list[Changed]
    more_changed: int
    changes_note: str
    checks: list[Checked]
    stderr: str
    artifacts: str
    scores: list[tuple[str, str, str]]
    """Further scores by name: the name, the value, and why."""
    took: int | None = None
    """Steps that the answer says it took, which may be more than it tells of."""

    @property
    def summary(self) -> str:
        """What there is, in words: ``3 steps · 1 file changed``."""
        kept = len(self.steps) + self.more_steps
        took = kept if self.took is None else self.took
        counts = (
            (took if kept else 0, "step", "" if took == kept else f" ({kept:,} told)"),
            (len(self.changed) + self.more_changed, "file", " changed"),
            (len(self.sources), "source", ""),
            (len(self.checks), "check", ""),
            (len(self.scores), "further score", ""),
        )
        told = [f"{count:,} {word}{'s' if count != 1 else ''}{more}" for count, word, more in counts if count]
        told += ["standard error"] * bool(self.stderr) + ["artifacts"] * bool(self.artifacts)
        return " · ".join(told)


def transcript_of(row: Mapping[str, Any]) -> Transcript | None:
    """What a row of the log tells beside its answer; ``None`` where it tells nothing.

    >>> row = {"generation": {"transcript": [{"step": 0, "type": "tool", "tool": "read", "arguments": {"path": "a"}}]}}
    >>> transcript_of(row).steps
    [Step(name='read', entries=[Entry(name='path', text='a')])]
    """
    generation = _mapping(row.get("generation"))
    steps = _list(generation.get("transcript"))
    changed, checks = _mapping(row.get("changed")), _mapping(row.get("checks"))
    files = [_mapping(file) for file in _list(changed.get("files"))]
    told = Transcript(
        steps=[_step(step) for step in steps[:MOST_STEPS]],
        more_steps=max(0, len(steps) - MOST_STEPS),
        sources=[
            (_text(source.get("source")), _text(source.get("sha256")))
            for source in map(_mapping, _list(generation.get("loaded"))[:MOST_ENTRIES])
        ],
        changed=[_changed(file) for file in files[:MOST_ENTRIES]],
        more_changed=max(0, len(files) - MOST_ENTRIES) + (changed.get("more") or 0),
        changes_note=_text(changed.get("note")),
        checks=[_checked(str(name), _mapping(check)) for name, check in list(checks.items())[:MOST_ENTRIES]],
        stderr=_text(generation.get("stderr")),
        artifacts=_text(generation.get("artifacts")),
        scores=[
            (str(name), figure_text(_mapping(score).get("value")), _text(_mapping(score).get("reason")))
            for name, score in list(_mapping(row.get("scores")).items())[:MOST_ENTRIES]
        ],
        took=generation.get("steps") if isinstance(generation.get("steps"), int) else None,
    )
    return told if told.summary or told.changes_note else None


def diff_lines(diff: str) -> list[DiffLine]:
    """A unified difference line by line.

    >>> [kind for kind, _ in diff_lines("--- a/x\\n+++ b/x\\n@@ -1 +1,2 @@\\n-old\\n+--- new\\n same")]
    ['head', 'head', 'head', 'gone', 'new', 'same']
    """
    lines, inside = [], False
    for line in diff.split("\n")[: -1 if diff.endswith("\n") else None]:
        inside = inside or line.startswith("@@")
        head = not inside or line.startswith(("@@", "\\"))
        kind = "head" if head else {"+": "new", "-": "gone"}.get(line[:1], "same")
        lines.append(DiffLine(kind, line))
    return lines


def _step(step: Any) -> Step:
    if not isinstance(step, Mapping):
        return Step("", [Entry("", _text(step))])
    name = next((key for key in _NAMES if isinstance(step.get(key), str) and step[key]), "")
    # What kind of step it is goes without saying where the tool is named, and steps are numbered.
    passed_over = {name, "step"} | ({"type"} if name == "tool" and step.get("type") == "tool" else set())
    entries = [
        entry
        for key, value in step.items()
        if key not in passed_over and value not in (None, "", [], {})
        for entry in _entries(
            "" if key == "arguments" and isinstance(value, Mapping) else str(key), value, _DEPTH
        )
    ]
    more = len(entries) - MOST_ENTRIES
    shown = [*entries[:MOST_ENTRIES], Entry("", f"… {more} more")] if more > 0 else entries
    return Step(_clip(str(step[name])) if name else "", shown)


def _entries(name: str, value: Any, depth: int) -> Iterator[Entry]:
    """A value's words by name, the entries of mappings each by itself."""
    if isinstance(value, Mapping) and depth:
        for key, inner in value.items():
            yield from _entries(f"{name}.{key}" if name else str(key), inner, depth - 1)
    else:
        yield Entry(_clip(name), _text(value))


def _changed(file: Mapping[str, Any]) -> Changed:
    diff = file.get("diff")
    lines = diff_lines(_clip(diff, 2 * LONGEST)) if isinstance(diff, str) and diff else []
    return Changed(_text(file.get("path")), _text(file.get("change")), lines, _text(file.get("note")))


def _checked(name: str, check: Mapping[str, Any]) -> Checked:
    status, why = check.get("status"), _text(check.get("why"))
    ended = why or ("" if status is None else f"exit status {status}")
    return Checked(name, check.get("passed") is True, ended, _text(check.get("output")))


def _text(value: Any) -> str:
    """A value in words: a text as it is, anything else as JSON; at most :data:`LONGEST` characters."""
    if value is None:
        return ""
    return _clip(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def _clip(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else f"{text[:most]}\n… ({len(text) - most:,} more characters)"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else []
