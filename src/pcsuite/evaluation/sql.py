"""Text-to-SQL by execution: does the query return what the gold query returns? (Spider, Yu et al. 2018)"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import ClassVar, cast

from pydantic import BaseModel, Field

from pcsuite.config.base import Definition
from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation.abstention import ABSTENTION, text_abstains
from pcsuite.evaluation.base import Answer, Evaluation, Evaluator, Parsed
from pcsuite.evaluation.parsing import clean_text, parse_object
from pcsuite.evaluation.schema_check import fill_required
from pcsuite.evaluation.scoring import conclude, is_unanswerable, truth_of
from pcsuite.evaluation.sqlite_readonly import QueryLimits, QueryRefusedError, Row, run_query

_FENCE = re.compile(r"```(?:sql(?:ite)?)?[ \t]*\n(.*?)```", re.IGNORECASE | re.DOTALL)
_QUERY_START = re.compile(r"\b(?:select|with)\b", re.IGNORECASE)
_CLOSING_QUOTE = {"'": "'", '"': '"', "`": "`", "[": "]"}
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

    @property
    def settings(self) -> SqlOptions:
        """The options, typed."""
        return cast(SqlOptions, self.options)

    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        """Score one answer."""
        text = clean_text(answer.text)
        parsed, query = self._read(text)
        abstained = query is None and text_abstains(text)
        parsed.answer = ABSTENTION if abstained else (normalise_sql(query) if query else None)
        same = executed = False
        if query and answer.finish_reason != "length" and not is_unanswerable(item):
            try:
                rows = self._rows(item, query)
            except QueryRefusedError as error:
                parsed.parse_errors.append(f"query not run: {str(error)[:200]}")
            else:
                executed = True
                same = self._same_result(item, rows)
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
        """A query that runs and returns one value no gold query returns."""
        return self._write(f"SELECT 'no such value {rng.randrange(10**6)}'")

    def _write(self, query: str) -> str:
        if self.schema is None:
            return query
        return json.dumps(fill_required({self.settings.query_field: query}, self.schema), ensure_ascii=False)

    def _read(self, text: str) -> tuple[Parsed, str | None]:
        if self.schema is not None or text.lstrip().startswith("{"):
            parsed = parse_object(text, self.schema)
            value = parsed.fields.get(self.settings.query_field)
            if self.schema is not None or isinstance(value, str):
                return parsed, value if isinstance(value, str) and not text_abstains(value) else None
        return Parsed(), find_query(text)

    def _rows(self, item: Item, query: str) -> tuple[Row, ...]:
        settings = self.settings
        limits = QueryLimits(settings.time_limit_s, settings.max_rows)
        return run_query(self._database(item), query[:_LONGEST_QUERY], limits)

    def _same_result(self, item: Item, rows: tuple[Row, ...]) -> bool:
        gold_query = str(truth_of(item, "query"))
        settings = self.settings
        limits = QueryLimits(settings.time_limit_s, settings.max_rows)
        gold_rows = _gold_rows(self._database(item), gold_query, limits)
        if isinstance(gold_rows, str):
            raise DataError(f"item '{item.item_id}': the gold query does not run: {gold_rows}")
        if has_top_level_order(gold_query):
            return rows == gold_rows
        return Counter(rows) == Counter(gold_rows)

    def _database(self, item: Item) -> Path:
        name = str(truth_of(item, "database"))
        root = self.settings.database_root
        path = item.file(name) if root is None else Path(root) / name
        if not path.is_file():
            raise DataError(
                f"item '{item.item_id}': database {path} does not exist",
                hint="export the dataset again, or set the evaluator's database_root",
            )
        return path


@lru_cache(maxsize=4096)
def _gold_rows(database: Path, query: str, limits: QueryLimits) -> tuple[Row, ...] | str:
    """Rows of a gold query, or why it does not run; each is run once."""
    try:
        return run_query(database, query, limits)
    except QueryRefusedError as error:
        return str(error)


def find_query(text: str) -> str | None:
    """The SQL in an answer: a fenced block, else from the first SELECT or WITH to the first semicolon."""
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
    """Whether the outermost query orders its rows; an ORDER BY inside parentheses does not count."""
    depth = 0
    outer = []
    for character in blank_quoted(query):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            outer.append(character)
    return bool(_ORDER_BY.search("".join(outer)))


def normalise_sql(query: str) -> str:
    """One spelling of a query for comparing texts: folded blanks and case, no final semicolon."""
    return " ".join(query.split()).rstrip("; ").casefold()


def blank_quoted(query: str) -> str:
    """The query with quoted texts and names blanked out, of the same length, in one pass."""
    blanked = []
    closing: str | None = None
    for character in query:
        if closing is None:
            closing = _CLOSING_QUOTE.get(character)
            blanked.append("_" if closing else character)
        else:
            blanked.append("_")
            closing = None if character == closing else closing
    return "".join(blanked)
