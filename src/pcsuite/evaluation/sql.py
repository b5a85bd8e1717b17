"""Text-to-SQL by execution: does the query return what the gold query returns? (Spider, Yu et al. 2018)"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from random import Random
from typing import ClassVar, NamedTuple

from pydantic import BaseModel, Field

from pcsuite.config.definitions import Definition
from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation.abstention import ABSTENTION, text_abstains
from pcsuite.evaluation.base import Answer, Evaluation, Evaluator, Parsed, clean_text, conclude, truth_of
from pcsuite.evaluation.lenient import lenient_text, loose_field, loose_object
from pcsuite.evaluation.parsing import parse_object
from pcsuite.evaluation.schema_check import written_answer
from pcsuite.evaluation.sql_contents import generated_contents, stored_contents
from pcsuite.evaluation.sql_match import naive_match, same_result
from pcsuite.evaluation.sql_process import QueryLimits, QueryRefusedError, Row, run_query
from pcsuite.evaluation.sql_text import (
    LONGEST_QUERY,
    has_top_level_order,
    mend_query,
    normalise_sql,
    read_query,
)


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
    generated_contents: int = Field(default=8, ge=0, le=20)
    """Further contents that are made, at most, for a database which has none stored beside it; 0 for the given one
    only. Three are the database shuffled; more are made while they tell further mutants of the gold query apart."""


class Execution(NamedTuple):
    """What came of running a query beside the gold one, by the names of the metrics."""

    executed: bool = False
    execution_match: bool = False
    """Same result on the given database, in any order of columns."""
    naive_match: bool = False
    """Same result with the columns as they stand."""
    coincidental_match: bool = False
    """Same result on the given database, another on one of the contents."""
    contents: int = 0
    """Contents compared, the given one included."""

    @property
    def correct(self) -> bool:
        """Same result on every content."""
        return self.execution_match and not self.coincidental_match


class SqlEvaluator(Evaluator):
    """Execution accuracy: the gold query's result on every content, whatever the order of columns.

    Rows count in their order where the gold query orders them at its outermost level. The databases are opened
    read-only, anything but reading is refused, and a query that runs too long is stopped.
    """

    Options: ClassVar[type[BaseModel]] = SqlOptions
    options: SqlOptions

    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        """Score one answer by what its query returns; ``executed`` says whether it ran at all.

        Beside the score: ``execution_match`` (the given database alone), ``naive_match`` (and its order of columns),
        ``contents`` compared, ``coincidental_match`` (right on the given database, wrong on another content).
        ``exact_match`` compares the queries' texts. ``DataError`` where the gold query or the database is at fault.
        """
        text = clean_text(answer.text)
        parsed, query = self._read(text)
        abstained = query is None and text_abstains(text)
        parsed.answer = ABSTENTION if abstained else (normalise_sql(query) if query else None)
        unanswerable = item.unanswerable
        done, lenient = Execution(), None
        if answer.finish_reason != "length" and not unanswerable and not abstained:
            if query:
                done = self._execute(item, query, parsed)
                done = self._beside_rival(item, text, query, done, parsed)
            if not done.executed:
                lenient = self._lenient_score(item, answer.text, query, parsed)
        return conclude(
            parsed,
            answer,
            score=float(abstained if unanswerable else done.correct),
            lenient=lenient,
            exact_match=bool(query) and parsed.answer == normalise_sql(str(item.truth.get("query", ""))),
            abstained=abstained,
            unanswerable=unanswerable,
            extra=done._asdict(),
        )

    def _execute(self, item: Item, query: str, parsed: Parsed) -> Execution:
        """Run a query and the gold one on the given database and, where they agree, on its other contents."""
        name, root = str(truth_of(item, "database")), self.options.database_root
        database = item.file(name) if root is None else Path(root) / name
        if not database.is_file():
            hint = "export the dataset again, or set the evaluator's database_root"
            raise DataError(f"item '{item.item_id}': database {database} does not exist", hint=hint)
        limits = QueryLimits(self.options.time_limit_s, self.options.max_rows)
        gold_query = str(truth_of(item, "query"))
        try:
            rows = run_query(database, query[:LONGEST_QUERY], limits)
        except QueryRefusedError as error:
            parsed.parse_errors.append(f"query not run: {str(error)[:200]}")
            return Execution()
        gold_rows = _gold_rows(database, gold_query, limits)
        if isinstance(gold_rows, str):
            raise DataError(f"item '{item.item_id}': the gold query does not run: {gold_rows}")
        ordered = has_top_level_order(gold_query)
        naive = naive_match(gold_rows, rows, ordered=ordered)
        if not naive and not same_result(gold_rows, rows, ordered=ordered):
            return Execution(executed=True, contents=1)
        coincidental, contents = False, 1
        if normalise_sql(query) != normalise_sql(gold_query):
            others = stored_contents(database) or generated_contents(
                database, gold_query, self.options.generated_contents
            )
            for content in others:
                expected = _gold_rows(content, gold_query, limits)
                if isinstance(expected, str):
                    continue
                contents += 1
                try:
                    rows_there = run_query(content, query[:LONGEST_QUERY], limits)
                except QueryRefusedError as error:
                    parsed.parse_errors.append(f"query not run on another content: {str(error)[:200]}")
                    rows_there = ((error.__class__.__name__,),)
                if not same_result(expected, rows_there, ordered=ordered):
                    coincidental = True
                    break
        return Execution(True, True, naive, coincidental, contents)

    def _beside_rival(self, item: Item, text: str, query: str, done: Execution, parsed: Parsed) -> Execution:
        """What came of the query, unless the answer gives another one beside it and one of the two alone is right.

        Then nobody can say which is meant: the reading is ambiguous, and no score is guessed.
        """
        first, rival = read_query(text)
        if rival is None or first != query:  # of JSON the query is a field
            return done
        other = self._execute(item, rival, Parsed())
        if other.correct == done.correct:
            return done
        parsed.reading = "ambiguous"
        return done._replace(execution_match=False, naive_match=False, coincidental_match=False)

    def _lenient_score(self, item: Item, text: str, query: str | None, parsed: Parsed) -> float:
        """1 where the query is right once typographic quotes, escapes, wrapping JSON and prose behind it are gone."""
        visible = lenient_text(text)
        names = (self.options.query_field, "sql", "query", "answer")
        loose = loose_object(visible, names, scalar=True)
        value = loose_field(loose[0], names, scalar=True) if loose is not None else None
        mended = mend_query(value if isinstance(value, str) else visible)
        if mended is None or mended == query:
            return 0.0
        done = self._execute(item, mended, Parsed())
        if done.correct:
            parsed.note_lenient("query", "mended text")
        return float(done.correct)

    def gold_answer(self, item: Item) -> str:
        """The gold query."""
        return self._write(ABSTENTION if item.unanswerable else str(truth_of(item, "query")).strip())

    def wrong_answer(self, item: Item, rng: Random) -> str:
        """A query that runs and returns one value no gold query returns.

        The value carries a random number, so that wrong answers differ among replicates.
        """
        return self._write(f"SELECT 'no such value {rng.randrange(10**6)}'")

    def _write(self, query: str) -> str:
        if self.schema is None:
            return query
        return written_answer({self.options.query_field: query}, self.schema)

    def _read(self, text: str) -> tuple[Parsed, str | None]:
        if self.schema is not None or text.lstrip().startswith("{"):
            parsed = parse_object(text, self.schema, (self.options.query_field,))
            value = parsed.fields.get(self.options.query_field)
            if self.schema is not None or isinstance(value, str):
                return parsed, value if isinstance(value, str) and not text_abstains(value) else None
        return Parsed(), read_query(text).query


@lru_cache(maxsize=4096)
def _gold_rows(database: Path, query: str, limits: QueryLimits) -> tuple[Row, ...] | str:
    """Rows of a gold query, or why it does not run; each is run once."""
    try:
        return run_query(database, query, limits)
    except QueryRefusedError as error:
        return str(error)
