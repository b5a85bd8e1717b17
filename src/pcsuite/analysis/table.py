"""Tables and what is declared of them: every column's name, meaning and look, once.

A module under ``analysis/tables`` declares the :class:`TableSpec` of each table beside the code that computes it.
The CSV header, the page, Markdown, LaTeX and ``docs/reference/tables.md`` are made from it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol

from pcsuite._util.files import Put, replacing, write_errors
from pcsuite.analysis.frame import SHOWN_ROWS, Frame, relation_of
from pcsuite.errors import AnalysisError
from pcsuite.stats.estimate import FloatArray, IntArray, Rng
from pcsuite.stats.related_rows import mean_over_items

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_QUOTED = re.compile('[,"\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]')
"""A spreadsheet takes a text cell that begins with one of these for a formula."""
Form = Literal["auto", "text", "number", "interval", "difference", "p"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name in the CSV file, what it means, and how the page and LaTeX show it."""

    name: str
    meaning: str
    shown: bool = True
    """On the page; the CSV file has it either way."""
    label: str = ""
    """Heading on the page; by default the name with blanks."""
    form: Form = "auto"
    """``auto`` tells by the values: an interval where there are limits, a number, or text."""
    digits: int = 3
    late: bool = False
    """Shown after the columns that are not."""
    sparse: bool = False
    """Shown only where some row has a value other than 0."""
    paper: str = ""
    """Heading in LaTeX, where the table has a LaTeX form and the column a place in it."""


def interval(name: str, meaning: str, **look: Any) -> tuple[Column, Column, Column]:
    """The columns ``name``, ``name_low`` and ``name_high``: a value with the limits of its 95 % interval.

    ``look`` is how the value is shown; the limits stand in its column on the page and never in one of their own.
    """
    return (
        Column(name, meaning, **look),
        Column(f"{name}_low", f"lower 95 % limit of {name}", shown=False),
        Column(f"{name}_high", f"upper 95 % limit of {name}", shown=False),
    )


@dataclass(frozen=True)
class TableSpec:
    """A table: its file name (without ``.csv``), title, what a row stands for, columns in order, and a note."""

    name: str
    title: str
    row: str
    """One row per …"""
    columns: tuple[Column, ...]
    note: str = ""
    """What a reader must know, shown above the table."""
    folded: bool = False
    """Among the further tables of the page."""
    caption: str = ""
    """Caption in LaTeX."""
    dotted: tuple[tuple[str, str], ...] = ()
    """Dotted names (``task.id``) under which the CSV file repeats columns at its end, each with its column; rows of
    perturbed prompts leave them empty, as readers of those names know of none."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, the CSV header."""
        return tuple(column.name for column in self.columns)

    def is_limit(self, name: str) -> bool:
        """Whether a column is a limit of another one's interval.

        ``drop_low`` is where there is a column ``drop``; a column that merely ends so is not.
        """
        return name.endswith(("_low", "_high")) and name.rpartition("_")[0] in self.names

    def without(self, name: str) -> TableSpec:
        """The spec without a column, for a page that shows one value of it alone."""
        return replace(self, columns=tuple(column for column in self.columns if column.name != name))

    def extended(self, columns: Iterable[Column]) -> TableSpec:
        """The spec with further columns at the end, for tables whose columns depend on the run.

        The reference page shows the spec without them.
        """
        return replace(self, columns=(*self.columns, *columns))


CELL = (
    Column("task", "id of the task"),
    Column("model", "id of the model"),
    Column("decoding", "decoding regime"),
    Column("condition", "id of the condition"),
)
"""The columns that name a cell."""
MAIN_CELL = tuple(
    replace(column, label=label, form="text", paper=label.capitalize())
    for column, label in zip(CELL, ("task", "model", "regime", "condition"), strict=True)
)
"""The same in the main tables of the page and of LaTeX."""
DOTTED_CELL = (
    ("task.id", "task"),
    ("model.id", "model"),
    ("condition.id", "condition"),
    ("decoding.id", "decoding"),
)
"""The columns of :data:`CELL` under dotted names."""
N_ITEMS = Column("n_items", "items the figures rest on")
N_CLUSTERS = Column(
    "n_clusters",
    "clusters of those items, where some are related: the independent units of limits and tests; else empty",
    label="clusters",
    form="number",
    late=True,
    sparse=True,
)
"""The last column of a table whose limits or tests are over items."""


@dataclass(slots=True, repr=False)
class Table(Frame):
    """Rows of a declared table; ``None`` is an empty cell."""

    spec: TableSpec
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, spec: TableSpec, records: Iterable[Mapping[str, Any]]) -> Table:
        """A table from mappings; a column that a record lacks is empty, one that the spec lacks is an error.

        >>> spec = TableSpec("sizes", "Sizes", "model", (Column("model", "its id"), Column("size", "its size")))
        >>> Table.of(spec, [{"model": "m"}]).rows
        [('m', None)]
        """
        names, declared = spec.names, frozenset(spec.names)
        rows = []
        for record in records:
            if not declared.issuperset(record):
                extra = next(name for name in record if name not in declared)
                raise AnalysisError(
                    f"table '{spec.name}' has no column '{extra}'", hint="declare it in the table's TableSpec"
                )
            rows.append(tuple(record.get(name) for name in names))
        return cls(spec, rows)

    @property
    def name(self) -> str:
        """File name without ending."""
        return self.spec.name

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.spec.names

    def __len__(self) -> int:
        return len(self.rows)

    def head(self, rows: int = SHOWN_ROWS) -> list[tuple[Any, ...]]:
        """The first rows."""
        return self.rows[:rows]

    def relation(self) -> Any:
        """The rows as a DuckDB relation; raises ``MissingExtraError`` where DuckDB is not installed."""
        return relation_of(self.columns, self.rows)

    def write_csv(self, path: Path, put: Put = replacing) -> Path:
        """Write the table as UTF-8 CSV, whole or not at all, and return the path.

        Numbers have ten digits, undefined ones are empty, and text that a spreadsheet would evaluate begins with an
        apostrophe. Raises :class:`AnalysisError` where the file cannot be written.
        """
        with write_errors(AnalysisError, path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with put(path) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
                for row in (self.columns, *self.rows) if not self.spec.dotted else self._with_dotted():
                    stream.write(",".join(map(_csv_cell, row)) + "\n")
        return path

    def _with_dotted(self) -> Iterator[tuple[Any, ...]]:
        """Header and rows with the columns that are repeated under dotted names."""
        yield (*self.columns, *(name for name, _ in self.spec.dotted))
        at = [self.columns.index(column) for _, column in self.spec.dotted]
        perturbed = self.columns.index("perturbation") if "perturbation" in self.columns else None
        for row in self.rows:
            is_clean = perturbed is None or row[perturbed] in (None, "", "none")
            yield (*row, *(row[index] if is_clean else None for index in at))


def _csv_cell(value: Any) -> str:
    """A cell as it stands in the file: quoted where it holds a comma, a quotation mark or any line end.

    Python's own writer leaves a bare carriage return unquoted (before 3.13), and readers begin a new row there.
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return format(value, ".10g") if math.isfinite(value) else ""
    if isinstance(value, str):
        return _csv_text(value)
    if isinstance(value, bool):
        return str(value).lower()
    return _quoted(str(value))


@lru_cache(maxsize=4096)
def _csv_text(text: str) -> str:
    """A text as it stands in the file; names come again in every row."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")  # lone surrogates, which UTF-8 has not
    return _quoted("'" + text if text.startswith(FORMULA_STARTS) else text)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def number(value: Any) -> float | None:
    """A finite float, or ``None``."""
    converted = math.nan if value is None else float(value)
    return converted if math.isfinite(converted) else None


class WithLimits(Protocol):
    """A value with the limits of its interval: an estimate, or a pooled effect."""

    @property
    def value(self) -> float: ...

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


def corrected_columns(
    over: str, *, paper: str = "", holm_shown: bool = True
) -> tuple[Column, Column, Column]:
    """The columns ``p_bh``, ``p_holm`` and ``stars`` of p-values that are adjusted ``over`` a family."""
    holm: dict[str, Any] = {"label": "p (Holm)", "form": "p"} if holm_shown else {"shown": False}
    return (
        Column("p_bh", f"{over} (Benjamini–Hochberg)", label="p (BH)", form="p", paper=paper),
        Column("p_holm", "the same adjusted after Holm", **holm),
        Column("stars", "* 0.05, ** 0.01, *** 0.001, of p_bh", shown=False),
    )


def mean_columns(
    name: str,
    values: FloatArray,
    rng: Rng,
    bounds: tuple[float, float] | None = None,
    clusters: IntArray | None = None,
) -> dict[str, float | None]:
    """The mean over items with its interval, as :func:`estimate_columns` has it; no columns where there is no item.

    The interval is over ``clusters`` where items are related.
    """
    if not len(values):
        return {}
    return estimate_columns(name, mean_over_items(values, clusters, rng=rng, bounds=bounds))


def estimate_columns(name: str, estimate: WithLimits) -> dict[str, float | None]:
    """An estimate as the columns ``name``, ``name_low`` and ``name_high``.

    What is undefined (not a number, infinite) is ``None``, an empty cell.
    """
    return {
        name: number(estimate.value),
        f"{name}_low": number(estimate.low),
        f"{name}_high": number(estimate.high),
    }
