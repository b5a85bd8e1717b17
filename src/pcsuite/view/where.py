"""The small language of the view's filter: ``score < 1 and C4.answer ~ "sorry"``.

A comparison is a field, a sign and a value; ``and``, ``or``, ``not`` and brackets join comparisons. A field is one of
:data:`FIELDS`, of a column where its name stands before it (``C4.score``, ``"-role".text``), else of the column that
others are compared with. ``~`` looks for words without regard to case, ``!~`` for items that lack them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pcsuite._util.text import shorten
from pcsuite.errors import ConfigError, did_you_mean

NUMBERS = ("score", "tokens", "answers")
"""Fields of a column that are numbers: the mean score, the mean tokens of a call, and how many answers there are."""
TEXTS = ("answer", "text")
"""Fields of a column that are texts: what was read from an answer, and all of it; any answer to an item counts."""
ITEM_TEXTS = ("item", "input", "truth")
"""Fields of the item itself."""
FIELDS = (*NUMBERS, *TEXTS, *ITEM_TEXTS)
COMPARED = ("<", "<=", ">", ">=", "=", "!=")
"""Signs between numbers; texts have the last two."""
_TOKEN = re.compile(r"""\s*(?:(?P<text>"[^"]*")|(?P<sign><=|>=|!=|!~|[<>=~().])|(?P<word>[^\s"<>=~!().]+))""")
_LONGEST = 1_000
_DEEPEST = 40
"""Brackets and ``not`` inside each other; each takes several calls."""


class Comparison(NamedTuple):
    """A field of a column (empty for the base, and for fields of the item), a sign, and a number or a text."""

    column: str
    field: str
    sign: str
    value: float | str


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on items: a comparison, or ``and``, ``or`` or ``not`` over others."""

    kind: str
    parts: tuple[Where | Comparison, ...]

    def items(self, every: Collection[str], matching: Callable[[Comparison], Collection[str]]) -> set[str]:
        """Those of ``every`` item that it is true of; ``matching`` answers a comparison.

        >>> low = Comparison("", "score", "<", 1.0)
        >>> sorted(Where("not", (low,)).items(["a", "b"], lambda one: ["b"]))
        ['a']
        """
        sets = [
            part.items(every, matching) if isinstance(part, Where) else set(matching(part)) & set(every)
            for part in self.parts
        ]
        if self.kind == "not":
            return set(every) - sets[0]
        return set.intersection(*sets) if self.kind == "and" else set.union(*sets)


def parse_where(text: str, columns: Sequence[str]) -> Where:
    """Read a condition; ``columns`` are the names that may stand before a field.

    Raises :class:`ConfigError` that says what was expected, at which character, and which names there are.

    >>> parse_where('score<1 and C4.answer ~ "sorry"', ["C0", "C4"]).parts[1]
    Comparison(column='C4', field='answer', sign='~', value='sorry')
    """
    return _Reader(text, columns).whole()


class _Reader:
    """Recursive descent over the tokens of a condition."""

    def __init__(self, text: str, columns: Sequence[str]) -> None:
        if len(text) > _LONGEST:
            raise ConfigError(f"where: a condition has at most {_LONGEST:,} characters")
        self._text, self._columns = text, columns
        self._tokens: list[tuple[str, int]] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._error("a text that begins with a quotation mark must end with one", at)
            self._tokens.append((match[0].strip(), match.end() - len(match[0].strip())))
            at = match.end()
        self._next = 0
        self._depth = 0

    def whole(self) -> Where:
        condition = self._either()
        if self._peek() is not None:
            raise self._error("'and' or 'or' was expected", self._at)
        return condition if isinstance(condition, Where) else Where("and", (condition,))

    def _either(self) -> Where | Comparison:
        return self._joined("or", self._both)

    def _both(self) -> Where | Comparison:
        return self._joined("and", self._one)

    def _joined(self, word: str, part: Callable[[], Where | Comparison]) -> Where | Comparison:
        parts = [part()]
        while (self._peek() or "").casefold() == word:
            self._take()
            parts.append(part())
        return parts[0] if len(parts) == 1 else Where(word, tuple(parts))

    def _one(self) -> Where | Comparison:
        token = self._peek()
        if token is None:
            raise self._error("a comparison such as score < 1 was expected", self._at)
        is_negation = token.casefold() == "not"
        if not is_negation and token != "(":
            return self._comparison()
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"at most {_DEEPEST} brackets and 'not' may stand inside each other", self._at)
        self._take()
        inner = Where("not", (self._one(),)) if is_negation else self._either()
        self._depth -= 1
        if not is_negation:
            if self._peek() != ")":
                raise self._error("a closing bracket was expected", self._at)
            self._take()
        return inner

    def _comparison(self) -> Comparison:
        start = self._at
        names = [self._take()]
        while self._peek() == ".":
            self._take()
            names.append(self._peek() or "")
            if self._peek() is not None:
                self._take()
        field = names[-1]
        column = ".".join(name.strip('"') for name in names[:-1])
        if field not in FIELDS:
            raise self._error(f"there is no field '{shorten(field, 40)}'", start, did_you_mean(field, FIELDS))
        if column and field in ITEM_TEXTS:
            raise self._error(f"'{field}' is the item's own and stands without a column", start)
        if column and column not in self._columns:
            hint = did_you_mean(column, self._columns)
            raise self._error(f"there is no column '{shorten(column, 40)}'", start, hint)
        sign = self._peek()
        if sign is None or (sign not in COMPARED and sign not in ("~", "!~")):
            raise self._error(f"one of {' '.join(COMPARED)} ~ !~ was expected", self._at)
        self._take()
        value = self._peek()
        if value is None or value in ("(", ")") or value in COMPARED:
            raise self._error(f"a value was expected after '{sign}'", self._at)
        at = self._at
        self._take()
        while not value.startswith('"') and self._peek() == ".":  # 0.5 is one number
            self._take()
            value += f".{self._take()}"
        if field in NUMBERS:
            if sign in ("~", "!~"):
                raise self._error(f"'{field}' is a number and has no words: compare it with < > = !=", at)
            try:
                return Comparison(column, field, sign, float(value))
            except ValueError:
                raise self._error(f"'{shorten(value, 40)}' is no number", at) from None
        if sign not in ("~", "!~", "=", "!="):
            raise self._error(f"'{field}' is a text: compare it with ~ !~ = or !=", at)
        return Comparison(column, field, sign, value.strip('"'))

    def _peek(self) -> str | None:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else None

    def _take(self) -> str:
        if self._next >= len(self._tokens):
            raise self._error("something is missing", self._at)
        self._next += 1
        return self._tokens[self._next - 1][0]

    @property
    def _at(self) -> int:
        return self._tokens[self._next][1] if self._next < len(self._tokens) else len(self._text)

    def _error(self, message: str, at: int, hint: str | None = None) -> ConfigError:
        fields = f'fields: {", ".join(FIELDS)}; for example score < 1 and C4.answer ~ "sorry"'
        return ConfigError(f"where: {message} (character {at + 1})", hint=hint or fields)
