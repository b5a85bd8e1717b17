"""SQL as text: finding it in an answer, mending it for a lenient reader, and what its outermost level says."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import NamedTuple

_FENCE = re.compile(r"```(?:sql(?:ite)?\b)?(.*?)```", re.IGNORECASE | re.DOTALL)
# "To select the names, …" and "with pleasure" are prose.
_QUERY_START = re.compile(
    r"(?<!\bto )(?<!\bwe )(?<!\bwill )(?<!\bcan )(?<!\byou )(?<!\bi )\bselect\b(?!s? statement|s? query)"
    r"|\bwith\s+(?:recursive\s+)?[\"`\[]?\w{1,64}[\"`\]]?\s*(?:\([^()]{0,200}\)\s*)?\bas\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"""'[^']*'?|"[^"]*"?|`[^`]*`?|\[[^\]]*\]?""")
_ORDER_BY = re.compile(r"\border\s+by\b", re.IGNORECASE)
_LIMIT = re.compile(r"\blimit\b", re.IGNORECASE)
_TAKEN_BACK = re.compile(
    r"\b(?:wait|actually|correct(?:ed|ion|ing)?|fix(?:ed|es|ing)?|mistake|wrong|incorrect|oops|should (?:be|have been)"
    r"|revised?|final|updated|complete query|full query|on second thoughts?|let me (?:re\w+|try again)|improved"
    r"|putting (?:it|this|everything) together|so the (?:query|answer) is)\b",
    re.IGNORECASE,
)
"""Words that make what follows them count in place of what stood before."""
_ALTERNATIVE = re.compile(
    r"\b(?:alternative(?:ly)?|equivalent(?:ly)?|another way|you (?:can|could) also|same as)\b", re.IGNORECASE
)
LONGEST_QUERY = 100_000
"""Characters of a query that are looked at."""
_MOST_QUERIES = 20
"""Queries of an answer, and blocks of it, that are looked at."""


class FoundQuery(NamedTuple):
    """The query that an answer gives, and another one that it gives beside it, where nothing tells the two apart."""

    query: str | None
    rival: str | None = None


def find_query(text: str) -> str | None:
    """The SQL in an answer: the first fenced block, else from the first SELECT or WITH to the first semicolon.

    A later query counts where the words before it take the earlier one back ("Wait, that is wrong", "Corrected:") or
    call it the final one. Backticks that quote a name stay, those that mark the query as code go.

    >>> find_query("The query is SELECT name FROM singer; it lists all names.")
    'SELECT name FROM singer'
    >>> find_query("Use `SELECT name FROM `singer`` for it."), find_query("SELECT `name` FROM `singer`")
    ('SELECT name FROM `singer`', 'SELECT `name` FROM `singer`')
    >>> find_query("SELECT a FROM t;\\nWait, that is wrong.\\nSELECT b FROM t;")
    'SELECT b FROM t'
    """
    return read_query(text).query


def read_query(text: str) -> FoundQuery:
    """:func:`find_query`, with the last other query in a block of its own that nothing says to be a draft.

    What is called an alternative, or is a part of the query itself, is no rival.
    """
    chosen, end, rival = None, 0, None
    for start, after, query in _queries(text):
        between = text[end:start]
        if chosen is None:
            chosen = query
        elif normalise_sql(query) not in normalise_sql(chosen) and not _ALTERNATIVE.search(between):
            if _TAKEN_BACK.search(between):
                chosen, rival = query, None
            elif text[start:].startswith("```") and re.search(r"\bfrom\b", query, re.IGNORECASE):
                rival = query
        end = after
    return FoundQuery(chosen, rival)


def _queries(text: str) -> Iterator[tuple[int, int, str]]:
    """Every query of an answer with where it stands: those of fenced blocks, and between and behind them in prose."""
    position, fences = 0, list(islice(_FENCE.finditer(text), _MOST_QUERIES))
    fenced = [(fence, _query_in(fence[1])) for fence in fences]
    blocks = [(fence, query) for fence, query in fenced if query is not None]
    if not blocks:
        yield from _in_prose(text, 0)
        return
    for index, (fence, (query, _, _)) in enumerate(blocks):
        if index:  # before the first block prose quotes the question or thinks aloud
            yield from _in_prose(text[: fence.start()], position)
        yield fence.start(), fence.end(), query
        position = fence.end()
    yield from _in_prose(text, position)


def _in_prose(text: str, position: int) -> Iterator[tuple[int, int, str]]:
    """Queries of prose from a position on, each up to its semicolon or an empty line.

    One that is not the answer's first must name a table and stand where a query is written down: at the head of a line,
    behind a colon, or in backticks.
    """
    first = position == 0
    for _ in range(_MOST_QUERIES):
        next_query = _query_in(text[position:])
        if next_query is None:
            return
        query, start, length = next_query
        written = text[: position + start].rstrip(" ").endswith(("\n", ":", "`"))
        if first or (written and re.search(r"\bfrom\b", query, re.IGNORECASE)):
            yield position + start, position + start + length, query
        first = False
        position += start + max(1, length)


def _query_in(source: str) -> tuple[str, int, int] | None:
    """The first query of a text, where it begins, and how many characters of the text it takes."""
    start = _QUERY_START.search(source)
    if start is None:
        return None
    query = source[start.start() :][:LONGEST_QUERY]
    end = blank_quoted(query).find(";")
    query = query[:end] if end >= 0 else query.partition("\n\n")[0]
    length = len(query) + (end >= 0)
    if "`" in query:
        query = _without_code_marks(query, inline=source[: start.start()].endswith("`"))
    return (query.strip(), start.start(), length) if query.strip() else None


def _without_code_marks(query: str, *, inline: bool) -> str:
    """Cut a query at the backtick that closes it as code: one that closes no quoted name.

    Only a backtick before the query can be closed so; without one, an odd one at the end is left over from a fence.
    """
    fence = query.find("```")
    if fence >= 0:
        query = query[:fence]
    if not inline:
        bare = query.rstrip()
        return bare.rstrip("`") if bare.count("`") % 2 and bare.endswith("`") else query
    position = 0
    while (tick := query.find("`", position)) >= 0:
        closing = query.find("`", tick + 1)
        opens = query[tick + 1 : tick + 2].isidentifier() and not query[tick - 1 : tick].isidentifier()
        if not opens or closing < 0 or query[tick - 1 : tick] == "`":
            return query[:tick]
        position = closing + 1
    return query


_TYPOGRAPHIC = str.maketrans("‘’“”", "''\"\"")
# A run of line breaks is entered at its head alone; what is left is stripped.
_PROSE_LINE = re.compile(
    r"(?<!\s)[^\S\n]*\n\s*(?:This|The|Here|It|In this|Note|Explanation|Where|To|I|We|You)\b[^\n]*[a-z][^\n]*.*",
    re.DOTALL,
)


def mend_query(text: str) -> str | None:
    """The SQL a lenient reader finds: quotes made straight, HTML escapes undone, prose on the lines behind it cut off.

    >>> mend_query("SELECT name FROM pet WHERE kind = ‘dog’\\nThis lists the dogs")
    "SELECT name FROM pet WHERE kind = 'dog'"
    """
    query = find_query(html.unescape(text.translate(_TYPOGRAPHIC)))
    return _PROSE_LINE.sub("", query).strip() or None if query else None


def has_top_level_order(query: str) -> bool:
    """Whether the outermost query orders its rows; an ORDER BY inside parentheses does not count.

    >>> has_top_level_order("SELECT * FROM (SELECT a FROM t ORDER BY a)")
    False
    """
    return bool(_ORDER_BY.search(_outermost(query)))


def order_by_columns(query: str, columns: int, direction: str) -> str | None:
    """The query with its result's columns as further sort keys of its outermost ORDER BY; ``None`` without one.

    ``direction`` is ``ASC`` or ``DESC``: where the two differ, the query's own keys leave ties open.

    >>> order_by_columns("SELECT a FROM t ORDER BY b LIMIT 1", 1, "DESC")
    'SELECT a FROM t ORDER BY b, 1 DESC LIMIT 1'
    """
    bare = query.strip().rstrip("; ")
    outer = _outermost(bare)
    orders = list(_ORDER_BY.finditer(outer))
    if not orders:
        return None
    limit = _LIMIT.search(outer, orders[-1].end())
    at = limit.start() if limit else len(bare)
    keys = ", ".join(f"{number} {direction}" for number in range(1, columns + 1))
    return f"{bare[:at].rstrip()}, {keys} {bare[at:]}".rstrip()


def _outermost(query: str) -> str:
    """The query with quoted parts and all that stands in parentheses blanked out, of the same length."""
    text = blank_quoted(query)
    depths = accumulate((character == "(") - (character == ")") for character in text)
    return "".join(character if depth == 0 else "_" for character, depth in zip(text, depths, strict=True))


def normalise_sql(query: str) -> str:
    """One spelling of a query for comparing texts: folded blanks and case, no final semicolon.

    >>> normalise_sql("SELECT  a\\nFROM t;")
    'select a from t'
    """
    return " ".join(query.split()).rstrip("; ").casefold()


def blank_quoted(query: str) -> str:
    """The query with quoted texts and names blanked out, of the same length; an open quote goes to the end.

    >>> blank_quoted("SELECT 'a;b'")
    'SELECT _____'
    """
    return _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), query)
