"""Text-to-SQL by execution: does the query return what the gold query returns? (Spider, Yu et al. 2018)"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import ClassVar

from pydantic import BaseModel, Field

from pcsuite.config.definitions import Definition
from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation.base import Answer, Evaluation, Evaluator, Parsed, conclude, is_unanswerable, truth_of
from pcsuite.evaluation.parsing import ABSTENTION, clean_text, parse_object, text_abstains
from pcsuite.evaluation.schema_check import fill_required
from pcsuite.evaluation.sql_process import QueryLimits, QueryRefusedError, Row, run_query

_FENCE = re.compile(r"```(?:sql(?:ite)?)?[ \t]*\n(.*?)```", re.IGNORECASE | re.DOTALL)
_QUERY_START = re.compile(r"\b(?:select|with)\b", re.IGNORECASE)
_QUOTED = re.compile(r"""'[^']*'?|"[^"]*"?|`[^`]*`?|\[[^\]]*\]?""")
_ORDER_BY = re.compile(r"\border\s+by\b", re.IGNORECASE)
_LONGEST_QUERY = 100_000


class SqlOptions(Definition):
    """Options of the ``sql`` evaluator."""

    query_field: str = "sql"
    """Field with the query, where the answer is JSON."""
    database_root: str | None = None
    """Folder that relative database paths of the items start from; by default where the items came from."""
    time_limit_s: float = Field(default=5.0, gt=0)
    """Seconds a query may run."""
    max_rows: int = Field(default=100_000, gt=0)
    """Rows a result may have."""


class SqlEvaluator(Evaluator):
    """Execution accuracy: same rows as the gold query, in the same order where the gold query orders them.

    The database is opened read-only, anything but reading is refused, and a query that runs too long is
    stopped.
    """

    Options: ClassVar[type[BaseModel]] = SqlOptions
    options: SqlOptions

    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        """Score one answer by what its query returns; ``executed`` says whether it ran at all.

        ``exact_match`` compares the queries' texts. ``DataError`` where the gold query or the database is at fault.
        """
        text = clean_text(answer.text)
        parsed, query = self._read(text)
        abstained = query is None and text_abstains(text)
        parsed.answer = ABSTENTION if abstained else (normalise_sql(query) if query else None)
        same = executed = False
        if query and answer.finish_reason != "length" and not is_unanswerable(item):
            database = self._database(item)
            limits = QueryLimits(self.options.time_limit_s, self.options.max_rows)
            try:
                rows = run_query(database, query[:_LONGEST_QUERY], limits)
                executed = True
            except QueryRefusedError as error:
                parsed.parse_errors.append(f"query not run: {str(error)[:200]}")
            else:
                gold_query = str(truth_of(item, "query"))
                gold_rows = _gold_rows(database, gold_query, limits)
                if isinstance(gold_rows, str):
                    raise DataError(f"item '{item.item_id}': the gold query does not run: {gold_rows}")
                ordered = has_top_level_order(gold_query)
                same = rows == gold_rows if ordered else Counter(rows) == Counter(gold_rows)
        correct = abstained if is_unanswerable(item) else same
        return conclude(
            parsed,
            answer,
            score=float(correct),
            exact_match=bool(query) and parsed.answer == normalise_sql(str(item.truth.get("query", ""))),
            abstained=abstained,
            unanswerable=is_unanswerable(item),
            extra={"executed": executed},
        )

    def gold_answer(self, item: Item) -> str:
        """The gold query."""
        return self._write(ABSTENTION if is_unanswerable(item) else str(truth_of(item, "query")).strip())

    def wrong_answer(self, item: Item, rng: Random) -> str:
        """A query that runs and returns one value no gold query returns.

        The value carries a random number, so that wrong answers differ among replicates.
        """
        return self._write(f"SELECT 'no such value {rng.randrange(10**6)}'")

    def _write(self, query: str) -> str:
        if self.schema is None:
            return query
        return json.dumps(fill_required({self.options.query_field: query}, self.schema), ensure_ascii=False)

    def _read(self, text: str) -> tuple[Parsed, str | None]:
        if self.schema is not None or text.lstrip().startswith("{"):
            parsed = parse_object(text, self.schema)
            value = parsed.fields.get(self.options.query_field)
            if self.schema is not None or isinstance(value, str):
                return parsed, value if isinstance(value, str) and not text_abstains(value) else None
        return Parsed(), find_query(text)

    def _database(self, item: Item) -> Path:
        name = str(truth_of(item, "database"))
        root = self.options.database_root
        path = item.file(name) if root is None else Path(root) / name
        if not path.is_file():
            hint = "export the dataset again, or set the evaluator's database_root"
            raise DataError(f"item '{item.item_id}': database {path} does not exist", hint=hint)
        return path


@lru_cache(maxsize=4096)
def _gold_rows(database: Path, query: str, limits: QueryLimits) -> tuple[Row, ...] | str:
    """Rows of a gold query, or why it does not run; each is run once."""
    try:
        return run_query(database, query, limits)
    except QueryRefusedError as error:
        return str(error)


def find_query(text: str) -> str | None:
    """The SQL in an answer: a fenced block, else from the first SELECT or WITH to the first semicolon.

    >>> find_query("The query is SELECT name FROM singer; it lists all names.")
    'SELECT name FROM singer'
    """
    fence = _FENCE.search(text)
    source = fence[1] if fence else text
    start = _QUERY_START.search(source)
    if start is None:
        return None
    query = source[start.start() :][:_LONGEST_QUERY]
    end = blank_quoted(query).find(";")
    query = query[:end] if end >= 0 else query.partition("\n\n")[0]
    return query.strip().rstrip("`").strip() or None


def has_top_level_order(query: str) -> bool:
    """Whether the outermost query orders its rows; an ORDER BY inside parentheses does not count.

    >>> has_top_level_order("SELECT * FROM (SELECT a FROM t ORDER BY a)")
    False
    """
    text = blank_quoted(query)
    depths = accumulate((character == "(") - (character == ")") for character in text)
    outer = (character for character, depth in zip(text, depths, strict=True) if depth == 0)
    return bool(_ORDER_BY.search("".join(outer)))


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
