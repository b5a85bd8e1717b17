"""Reading what a careful person would still understand: broken JSON, labels in sentences, letters with text.

Lenient readings make ``lenient_score`` and nothing else: an answer that only they understand is right in substance and
wrong in form. Each says which rule it took, and the row notes it. What was cut off is never read.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from pcsuite._util.text import storable
from pcsuite.evaluation.json_spans import object_spans
from pcsuite.evaluation.parsing import MAX_DEPTH, is_schema_echo
from pcsuite.evaluation.thoughts import clean_text, without_reasoning_tags

_LONGEST = 20_000
_CURLY_QUOTES = str.maketrans("“”„‘’", '"""\'\'')
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*("?)')
_STRING_BESIDE_COMMENTS = re.compile(_STRING.pattern, re.DOTALL)
_TRAILING_COMMA = re.compile(r'"|,(?=\s*[}\]])')
_COMMENT_OPENS = re.compile(r'"|//[^\n]*|/\*')
# Braces of LaTeX and prose begin no object.
_OBJECT_BEGINS = re.compile(r"""\{\s*(?:["'“}]|[A-Za-z_]\w*\s*:|$)""")
_BARE_KEY = re.compile(r'"|(?<=[{,])(\s*)([A-Za-z_]\w*)(?=\s*:)')


def lenient_text(text: str) -> str:
    """The text a lenient reader sees: that of a strict one, or all of it where nothing but reasoning was written."""
    cleaned = clean_text(text)
    if not cleaned.strip():
        cleaned = storable(without_reasoning_tags(text))
    return cleaned[-_LONGEST:]


def loose_values(text: str) -> Iterator[tuple[Any, str]]:
    """Values of the text that are JSON but for common slips, last first, each with the rule that was needed.

    The slips: raw line breaks in strings, trailing commas, comments, keys without quotes, curly quotes, Python
    literals, a list or a text where an object belongs. An object that was cut off is none.

    >>> next(loose_values("{'label': 'World', 'sure': True,}"))
    ({'label': 'World', 'sure': True}, 'Python literal')
    """
    stripped = text.strip()
    single = _loose_load(stripped, brackets='[{"')
    if single is not None:
        value, rule = single
        if isinstance(value, str):
            yield from loose_values(value) if value != text else ()
        else:
            yield value, rule
        return
    spans = object_spans(stripped)
    for start, end in reversed(spans):
        loaded = _loose_load(stripped[start:end])
        if loaded is not None:
            yield loaded
    opening, closing = stripped.find("["), stripped.rfind("]")
    if 0 <= opening < closing and not any(start < opening < end for start, end in spans):
        loaded = _loose_load(stripped[opening : closing + 1], brackets="[")
        if loaded is not None:
            yield loaded


def loose_object(
    text: str, names: Collection[str], *, scalar: bool = False
) -> tuple[dict[str, Any], str] | None:
    """The last object that has one of the answer's fields, by whatever name in ``names``, and the rule that found it.

    ``text`` is what :func:`lenient_text` gives. Looks inside a list of one and inside one enclosing object:
    ``{"answer": {…}}``, or a schema whose properties were filled in, but takes no description for an answer.
    Keys come back as written; :func:`loose_field` looks them up. ``scalar`` says that the field is no object itself.
    """
    if "{" not in text:
        return None
    values = list(loose_values(text))
    for value, rule in values:
        for candidate, way in unwrapped(value, rule):
            echo = is_schema_echo(candidate, names)
            if not echo and loose_field(candidate, names, scalar=scalar) is not None:
                return candidate, way
    if values or text.count("{") != 1 or "}" not in text or re.search(r"\w", text.rpartition("}")[2]):
        return None
    # Quotes within quotes break every reader; in a flat object that was closed the field itself can still be seen.
    alternatives = "|".join(map(re.escape, names))
    broken = re.search(rf'"({alternatives})"\s*:\s*("[^"\n]*"|[\w.+-]+)\s*[,}}]', text)
    return None if broken is None else ({broken[1]: broken[2].strip('"')}, "broken quotes")


def loose_answer(
    text: str, fields: Mapping[str, Any], names: Collection[str], *, doubted: bool = False
) -> tuple[Any, str | None] | None:
    """What a lenient reader takes for the one value of an answer, and by which rule; ``None`` where it finds nothing.

    The value under one of ``names`` in the ``fields`` that were read, else in broken JSON, else the text outside JSON,
    which has no rule: its task says what counts there. ``doubted`` says that the object in the text was taken back or
    is one of several: then the words behind it count alone.

    >>> loose_answer('{"Label": "World",}', {}, ["label"]), loose_answer("I say World.", {}, ["label"])
    (('World', 'trailing comma'), ('I say World.', None))
    """
    value = loose_field(fields, names, scalar=True)
    if value is not None:
        return value, "another spelling"
    visible = lenient_text(text)
    loose = None if doubted else loose_object(visible, names, scalar=True)
    if loose is not None:
        return loose_field(loose[0], names, scalar=True), loose[1]
    prose = prose_of(visible).strip()
    return (prose, None) if prose else None


def prose_of(text: str) -> str:
    """The text behind the last object, or all of a text without one: words beside an object are not read in it.

    >>> prose_of('{"label": "Wor')
    ''
    """
    if "{" not in text or not _OBJECT_BEGINS.search(text):
        return text
    return text.rpartition("}")[2] if text.rfind("}") > text.rfind("{") else ""


def loose_field(fields: Mapping[str, Any], names: Collection[str], *, scalar: bool = False) -> Any:
    """The value of the first of ``names`` that is a key, whatever the case, blanks and underscores of the key.

    Nulls are passed over, and objects too where a ``scalar`` is wanted.

    >>> loose_field({"Final Answer": 42}, ["answer", "final_answer"])
    42
    """
    usable = {
        key: value
        for key, value in fields.items()
        if value is not None and not (scalar and isinstance(value, dict))
    }
    for name in names:
        if name in usable:
            return usable[name]
    folded = {_key(key): value for key, value in usable.items() if isinstance(key, str)}
    return next((folded[_key(name)] for name in names if _key(name) in folded), None)


def _key(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()


def unwrapped(value: Any, rule: str) -> Iterator[tuple[dict[str, Any], str]]:
    """An object and those directly inside it, each with the rule that found it; a list of one is what it holds."""
    if isinstance(value, list) and len(value) == 1:
        value, rule = value[0], "list of one"
    if isinstance(value, dict):
        yield value, rule
        for key, inner in value.items():
            if isinstance(inner, list) and len(inner) == 1:
                inner = inner[0]
            if isinstance(inner, dict):
                yield inner, f"inside '{str(key)[:20]}'"


def loose_lists(
    text: str, names: tuple[str, ...], entry_names: Collection[str], size: int
) -> Iterator[tuple[Any, dict[str, Any], str]]:
    """What broken JSON may list, last first: the value, the object it was found in, and the rule.

    ``names`` are the keys it may have, the field's own first; a list without an object counts where one of its entries
    has a key of ``entry_names``, or where all are lists of ``size``. A schema that is echoed is passed over.

    >>> next(loose_lists('[{"name": "Rex"},]', ("entities",), ("name",), 2))
    ([{'name': 'Rex'}], {}, 'a bare list')
    """
    for value, rule in loose_values(lenient_text(text)):
        if isinstance(value, list):
            if any(isinstance(entry, dict) and loose_field(entry, entry_names) for entry in value) or (
                value and all(isinstance(entry, list) and len(entry) == size for entry in value)
            ):
                yield value, {}, "a bare list"
            continue
        for record, way in unwrapped(value, rule):
            if not is_schema_echo(record, names[:1]):
                yield loose_field(record, names), record, way


def _loose_load(text: str, brackets: str = "{") -> tuple[Any, str] | None:
    """A value and the first rule under which the text is one."""
    if not text or text[0] not in brackets or text.count("{") + text.count("[") > 50 * MAX_DEPTH:
        return None
    if _too_deep(text):
        return None
    for rule, repaired in _repairs(text):
        try:
            value = (
                ast.literal_eval(repaired) if rule == "Python literal" else json.loads(repaired, strict=False)
            )
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        try:
            # Whatever came out must be fit for a log: NaN, sets, tuples as keys and the like are not.
            return json.loads(json.dumps(value, allow_nan=False)), rule
        except (ValueError, TypeError, RecursionError):
            continue
    return None


def _too_deep(text: str) -> bool:
    depth = 0
    for match in re.finditer(r"[{}()\[\]]", text):
        depth += 1 if match[0] in "{[(" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _repairs(text: str) -> Iterator[tuple[str, str]]:
    yield "line break in a text", text
    straight = text.translate(_CURLY_QUOTES) if not text.isascii() else text
    if straight is not text:
        yield "curly quotes", straight
    uncommented = _without_comments(straight) if "/" in straight else straight
    if uncommented != straight:
        yield "comment", uncommented
    closed = _outside_strings(_TRAILING_COMMA, uncommented, lambda match: "")
    if closed != uncommented:
        yield "trailing comma", closed
    quoted = _outside_strings(_BARE_KEY, closed, lambda match: f'{match[1]}"{match[2]}"')
    if quoted != closed:
        yield "key without quotes", quoted
    if any(sign in straight for sign in ("'", "(", "True", "False", "None")):
        yield "Python literal", straight


class _Strings:
    """Where the strings of a text end, asked from left to right.

    Where one does not end on its line, none of the quotes up to there begins one that does: they are escaped, and
    their search would come to the same place. It is remembered, or a line of escaped quotes would take quadratic time.
    """

    def __init__(self, text: str, pattern: re.Pattern[str]) -> None:
        self.text, self.pattern = text, pattern
        self._open_to = 0

    def end(self, start: int) -> int:
        """Behind the string that begins at a quote, or right behind the quote where none begins there."""
        literal = self.pattern.match(self.text, start) if start >= self._open_to else None
        if literal is None:
            return start + 1
        if literal[1]:
            return literal.end()
        self._open_to = literal.end()
        return start + 1


def _outside_strings(slip: re.Pattern[str], text: str, replacement: Callable[[re.Match[str]], str]) -> str:
    """The text with what a pattern finds outside of strings replaced; the pattern finds every quote, too."""
    strings = _Strings(text, _STRING)
    parts, kept, position = [], 0, 0
    while (match := slip.search(text, position)) is not None:
        position = match.end()
        if match[0] == '"':
            position = strings.end(match.start())
        else:
            parts += [text[kept : match.start()], replacement(match)]
            kept = position
    return "".join([*parts, text[kept:]])


def _without_comments(text: str) -> str:
    """The text without comments outside of strings; a comment that is not closed stays."""
    strings = _Strings(text, _STRING_BESIDE_COMMENTS)
    last_close = text.rfind("*/")
    parts, kept, position = [], 0, 0
    while (match := _COMMENT_OPENS.search(text, position)) is not None:
        position = match.end()
        if match[0] == '"':
            position = strings.end(match.start())
            continue
        if match[0] == "/*":
            if last_close < position:
                position = match.start() + 1
                continue
            position = text.index("*/", position) + 2
        parts.append(text[kept : match.start()])
        kept = position
    return "".join([*parts, text[kept:]])
