"""Wrong queries that look like a right one: what a test of it must tell apart (mutation testing, DeMillo et al. 1978).

A mutant differs from the gold query in one place: a comparison, a constant, a filter that is always true, AND for OR,
another aggregate, DISTINCT, the direction of an order, a limit, the kind of a join or of a set operation. Contents on
which a mutant returns what the gold query returns cannot tell an answer with that mistake from a right one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

_TOKEN = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]"
    r"|[0-9]+(?:\.[0-9]+)?|[A-Za-z_]\w*(?:\s*\.\s*(?:[A-Za-z_]\w*|\"[^\"]*\"|`[^`]*`))?"
    r"|<=|>=|<>|!=|==|\|\||\s+|."
    , re.DOTALL,
)  # fmt: skip
_OPPOSITES: Mapping[str, tuple[str, ...]] = {
    ">": (">=", "<"),
    ">=": (">", "<="),
    "<": ("<=", ">"),
    "<=": ("<", ">="),
    "=": ("!=", ">=", "<="),
    "==": ("!=",),
    "!=": ("=",),
    "<>": ("=",),
}
_AGGREGATES: Mapping[str, tuple[str, ...]] = {
    "max": ("min",),
    "min": ("max",),
    "avg": ("sum", "max"),
    "sum": ("avg", "max"),
}
_SETS = {"union": "INTERSECT", "intersect": "UNION", "except": "UNION"}
_CLAUSES = {"select", "from", "where", "having", "on", "group", "order", "limit"}
_NOT_NAMES = _CLAUSES | {
    "and",
    "or",
    "not",
    "in",
    "like",
    "between",
    "is",
    "null",
    "by",
    "join",
    "as",
    "distinct",
    "exists",
}
MOST_MUTANTS = 60
LARGEST_GROUP = 250
"""Rows up to which a group is made as large as a HAVING asks for."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column with constants in a query."""

    column: str
    """The column's name, without its table, folded; ``count`` where a count is compared."""
    values: tuple[float | str, ...]


class SqlTokens:
    """A query in pieces, of which some can be replaced."""

    def __init__(self, query: str) -> None:
        self.texts = _TOKEN.findall(query.strip().rstrip("; \n"))
        self.words = [text.casefold() for text in self.texts]

    def replaced(self, first: int, last: int, text: str) -> str:
        """The query with the tokens from ``first`` to ``last`` written anew."""
        return "".join([*self.texts[:first], text, *self.texts[last + 1 :]])

    def after(self, index: int) -> int:
        """Index of the next token that is no blank; one behind the last where there is none."""
        index += 1
        while index < len(self.texts) and self.texts[index].isspace():
            index += 1
        return index

    def before(self, index: int) -> int:
        """Index of the token before that is no blank; -1 where there is none."""
        index -= 1
        while index >= 0 and self.texts[index].isspace():
            index -= 1
        return index

    def word(self, index: int) -> str:
        """A token folded; empty beyond the ends."""
        return self.words[index] if 0 <= index < len(self.words) else ""

    def closing(self, index: int) -> int:
        """Index of the bracket that closes the one at ``index``; the last token where none does."""
        depth = 0
        for position in range(index, len(self.texts)):
            depth += (self.texts[position] == "(") - (self.texts[position] == ")")
            if depth == 0:
                return position
        return len(self.texts) - 1

    def opening(self, index: int) -> int:
        """Index of the bracket that opens the one at ``index``; 0 where none does."""
        depth = 0
        for position in range(index, -1, -1):
            depth += (self.texts[position] == ")") - (self.texts[position] == "(")
            if depth == 0:
                return position
        return 0

    @cached_property
    def clauses(self) -> list[str]:
        """The clause that each token stands in, at its own depth of brackets."""
        clauses, stack = [], [""]
        for text, word in zip(self.texts, self.words, strict=True):
            if text == "(":
                stack.append(stack[-1])
            if word in _CLAUSES:
                stack[-1] = word
            clauses.append(stack[-1])
            if text == ")" and len(stack) > 1:
                stack.pop()
        return clauses

    def left_operand(self, index: int) -> int:
        """Where the operand before an operator begins: a name, a constant, or a call with its brackets."""
        start = self.before(index)
        if self.word(start) == ")":
            start = self.opening(start)
            name = self.before(start)
            if re.fullmatch(r"[a-z_]\w*", self.word(name)) and self.word(name) not in _NOT_NAMES:
                start = name
        return start

    def right_operand(self, index: int) -> int:
        """Where the operand behind an operator ends."""
        end = self.after(index)
        if self.word(end) == "-":
            end = self.after(end)
        if self.word(end) == "(":
            return self.closing(end)
        behind = self.after(end)
        return self.closing(behind) if self.word(behind) == "(" and self.word(end) not in _NOT_NAMES else end

    def filters(self) -> Iterator[tuple[int, int, int]]:
        """Conditions of WHERE and HAVING: where each begins, its operator, and where it ends."""
        for index, word in enumerate(self.words):
            if self.clauses[index] not in ("where", "having"):
                continue
            previous = self.before(index)
            start = self.left_operand(previous if self.word(previous) == "not" else index)
            if word in _OPPOSITES or word in ("like", "in"):
                yield start, index, self.right_operand(index)
            elif word == "between":
                middle = self.after(self.right_operand(index))
                if self.word(middle) == "and":
                    yield start, index, self.right_operand(middle)
            elif word == "is":
                end = self.after(index)
                yield start, index, self.after(end) if self.word(end) == "not" else end


def mutants(query: str) -> list[str]:
    """Queries that differ from a gold query in one place, each once, at most :data:`MOST_MUTANTS`; some may not run.

    >>> mutants("SELECT name FROM pet WHERE age > 3")[:3]
    ['SELECT name FROM pet WHERE age >= 3', 'SELECT name FROM pet WHERE age < 3', 'SELECT name FROM pet WHERE 1 = 1']
    """
    tokens = SqlTokens(query)
    written = dict.fromkeys(_all_mutants(tokens))
    return [mutant for mutant in written if mutant != "".join(tokens.texts)][:MOST_MUTANTS]


def _all_mutants(tokens: SqlTokens) -> Iterator[str]:
    yield from _of_filters(tokens)
    yield from _of_constants(tokens)
    between = False
    for index, word in enumerate(tokens.words):
        following, behind = tokens.word(tokens.after(index)), tokens.after(index)
        if word == "between":
            between = True
        elif word == "and" and between:
            between = False
        elif word in ("and", "or") and tokens.clauses[index] in ("where", "having"):
            yield tokens.replaced(index, index, "OR" if word == "and" else "AND")
        elif word in _AGGREGATES and following == "(":
            for other in _AGGREGATES[word]:
                yield tokens.replaced(index, index, other)
        elif word == "count" and following == "(":
            inside = tokens.after(behind)
            if tokens.word(inside) not in ("*", "distinct"):
                yield tokens.replaced(behind, behind, "(DISTINCT ")
        elif word == "distinct":
            yield tokens.replaced(index, tokens.after(index) - 1, "")
        elif word == "select" and index == 0 and _can_repeat(tokens, following):
            yield tokens.replaced(index, index, "SELECT DISTINCT")
        elif word in ("asc", "desc"):
            yield tokens.replaced(index, index, "ASC" if word == "desc" else "DESC")
        elif word == "order" and following == "by":
            yield from _turned(tokens, behind)
        elif word == "join" and tokens.word(tokens.before(index)) not in (
            "left",
            "outer",
            "cross",
            "natural",
        ):
            inner = tokens.before(index) if tokens.word(tokens.before(index)) == "inner" else index
            yield tokens.replaced(inner, index, "LEFT JOIN")
        elif word == "left" and following in ("join", "outer"):
            end = tokens.after(behind) if following == "outer" else behind
            yield tokens.replaced(index, end, "JOIN")
        elif word in _SETS:
            end = behind if following == "all" else index
            yield tokens.replaced(index, end, _SETS[word])
            if word == "union":
                yield tokens.replaced(index, end, "UNION" if following == "all" else "UNION ALL")


def _can_repeat(tokens: SqlTokens, first: str) -> bool:
    """Whether a query could return a row twice: neither a set, nor one row of aggregates."""
    if first == "distinct" or any(word in _SETS for word in tokens.words):
        return False
    return first not in (*_AGGREGATES, "count") or "group" in tokens.words


def _of_filters(tokens: SqlTokens) -> Iterator[str]:
    """Other operators, and the condition always true."""
    for start, index, end in tokens.filters():
        word, previous = tokens.words[index], tokens.before(index)
        for other in _OPPOSITES.get(word, ()):
            yield tokens.replaced(index, index, other)
        if word in ("like", "in", "between"):
            if tokens.word(previous) == "not":
                yield tokens.replaced(previous, index, word.upper())
            else:
                yield tokens.replaced(index, index, f"NOT {word.upper()}")
        if word == "is":
            following = tokens.after(index)
            negative = tokens.word(following) == "not"
            yield tokens.replaced(index, following if negative else index, "IS" if negative else "IS NOT")
        if start >= 0:
            yield tokens.replaced(start, end, "1 = 1")


def _of_constants(tokens: SqlTokens) -> Iterator[str]:
    for index, text in enumerate(tokens.texts):
        if not re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text):
            continue
        value = float(text) if "." in text else int(text)
        for other in (value + 1, value - 1):
            if tokens.clauses[index] == "limit" and other < 1:
                continue
            if tokens.clauses[index] in ("where", "having", "limit", "on") and other >= 0:
                yield tokens.replaced(index, index, f"{other:g}" if isinstance(other, float) else str(other))


def _turned(tokens: SqlTokens, by: int) -> Iterator[str]:
    """The first key of an ORDER BY without a direction, turned round."""
    position = tokens.after(by)
    last = position
    while position < len(tokens.texts):
        if tokens.texts[position] == "(":
            position = tokens.closing(position)
        elif tokens.word(position) in ("asc", "desc"):
            return
        elif tokens.word(position) in (",", ")", "limit", "union", "intersect", "except"):
            break
        last, position = position, tokens.after(position)
    if last < len(tokens.texts):
        yield tokens.replaced(last, last, f"{tokens.texts[last]} DESC")


def comparisons(query: str) -> list[Comparison]:
    """What a query compares its columns with: the values whose neighbours tell a filter from one beside it.

    >>> comparisons("SELECT name FROM pet WHERE age BETWEEN 3 AND 5 AND kind LIKE '%dog%'")
    [Comparison(column='age', values=(3, 5)), Comparison(column='kind', values=('dog',))]
    """
    tokens, listed = SqlTokens(query), []
    for start, index, end in tokens.filters():
        sides = tokens.texts[max(start, 0) : index], tokens.texts[index + 1 : end + 1]
        # A comparison of a constant with a column is one of the column with the constant.
        for named, others in (sides, sides[::-1]):
            column, values = _column_of(named), _constants_of(others)
            if column and values:
                listed.append(Comparison(column, values))
                break
    return listed


def _column_of(texts: Sequence[str]) -> str:
    names = [text for text in texts if re.fullmatch(r"[A-Za-z_\"`\[].*", text, re.DOTALL)]
    names = [name for name in names if name.casefold() not in _NOT_NAMES]
    if not names:
        return ""
    if names[0].casefold() == "count":
        return "count"
    return re.split(r"\s*\.\s*", names[-1])[-1].strip('"`[]').casefold()


def _constants_of(texts: Sequence[str]) -> tuple[float | str, ...]:
    if any(text.casefold() == "select" for text in texts):
        return ()
    values: list[float | str] = []
    for index, text in enumerate(texts):
        if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text):
            sign = -1 if index and texts[index - 1] == "-" else 1
            values.append(sign * (float(text) if "." in text else int(text)))
        elif text[:1] in "'\"" and len(text) > 1:
            plain = text[1:-1].replace(text[0] * 2, text[0]).strip("%_")
            values += [plain] if plain else []
    return tuple(values)


class QueryHints(NamedTuple):
    """What a query takes its data for; columns by their folded names."""

    averaged: frozenset[str] = frozenset()
    """Columns whose mean is asked for."""
    repeated: frozenset[str] = frozenset()
    """Columns whose values may come again, or it would not group by them, ask for distinct ones or intersect them."""
    counts: tuple[int, ...] = ()
    """What numbers of rows are compared with."""


NO_HINTS = QueryHints()
_NAME = r"(?:[A-Za-z_]\w*\s*\.\s*)?([A-Za-z_]\w*)"
_AVERAGED = re.compile(rf"\bavg\s*\(\s*{_NAME}\s*\)", re.IGNORECASE)
_LISTED = r"((?:(?!\b(?:from|having|order|limit|union|intersect|except|where)\b)[\w\s.,])+)"
_GROUPED = re.compile(rf"\bgroup\s+by\s+{_LISTED}", re.IGNORECASE)
_DISTINCT = re.compile(rf"\bdistinct\s+{_LISTED}", re.IGNORECASE)
_SELECTED = re.compile(r"\bselect\s+([\w\s.,]+?)\s+from\b", re.IGNORECASE)


def query_hints(query: str) -> QueryHints:
    """What a query's own words say of its columns.

    >>> sorted(query_hints("SELECT town FROM shop GROUP BY town HAVING count(*) > 2").repeated)
    ['town']
    """
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "''", query)
    passages = [*_GROUPED.findall(bare), *_DISTINCT.findall(bare)]
    if re.search(r"\b(?:intersect|except|union)\b", bare, re.IGNORECASE):
        passages += _SELECTED.findall(bare)
    names = {name.casefold() for passage in passages for name in re.findall(_NAME, passage)} - _NOT_NAMES
    counts = [value for entry in comparisons(query) if entry.column == "count" for value in entry.values]
    return QueryHints(
        frozenset(name.casefold() for name in _AVERAGED.findall(bare)),
        frozenset(names),
        tuple(
            int(value) for value in counts if isinstance(value, (int, float)) and 0 < value <= LARGEST_GROUP
        ),
    )
