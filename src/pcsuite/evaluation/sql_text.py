"""SQL as text: finding it in an answer, mending it for a lenient reader, and what its outermost level says."""

from __future__ import annotations

import html
import re
from itertools import accumulate

_FENCE = re.compile(r"```(?:sql(?:ite)?\b)?[ \t]*\n?(.*?)```", re.IGNORECASE | re.DOTALL)
# "To select the names, …" and "with pleasure" are prose.
_QUERY_START = re.compile(
    r"(?<!\bto )(?<!\bwe )(?<!\bwill )(?<!\bcan )(?<!\byou )(?<!\bi )\bselect\b(?!s? statement|s? query)"
    r"|\bwith\s+(?:recursive\s+)?[\"`\[]?\w{1,64}[\"`\]]?\s*(?:\([^()]{0,200}\)\s*)?\bas\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"""'[^']*'?|"[^"]*"?|`[^`]*`?|\[[^\]]*\]?""")
_ORDER_BY = re.compile(r"\border\s+by\b", re.IGNORECASE)
_LIMIT = re.compile(r"\blimit\b", re.IGNORECASE)
LONGEST_QUERY = 100_000
"""Characters of a query that are looked at."""


def find_query(text: str) -> str | None:
    """The SQL in an answer: a fenced block, else from the first SELECT or WITH to the first semicolon.

    Backticks that quote a name stay, those that mark the query as code go.

    >>> find_query("The query is SELECT name FROM singer; it lists all names.")
    'SELECT name FROM singer'
    >>> find_query("Use `SELECT name FROM `singer`` for it."), find_query("SELECT `name` FROM `singer`")
    ('SELECT name FROM `singer`', 'SELECT `name` FROM `singer`')
    """
    fence = _FENCE.search(text)
    source = fence[1] if fence else text
    start = _QUERY_START.search(source)
    if start is None:
        return None
    query = source[start.start() :][:LONGEST_QUERY]
    end = blank_quoted(query).find(";")
    query = query[:end] if end >= 0 else query.partition("\n\n")[0]
    if "`" in query:
        query = _without_code_marks(query, inline=source[: start.start()].endswith("`"))
    return query.strip() or None


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
_PROSE_LINE = re.compile(
    r"\n\s*(?:This|The|Here|It|In this|Note|Explanation|Where|To|I|We|You)\b[^\n]*[a-z][^\n]*.*", re.DOTALL
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
