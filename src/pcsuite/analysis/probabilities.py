"""Probabilities for those who ask (``--posterior``): is it better, is it too small to matter?

They are added to a table of differences as columns of their own, and nothing else is decided by them: verdicts stay
those of :mod:`pcsuite.contrasts`. The computation is :mod:`pcsuite.stats.posterior`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from pcsuite._util.text import figure_text
from pcsuite.analysis.table import Column, Table, estimate_columns, interval, number
from pcsuite.stats.estimate import Estimate
from pcsuite.stats.posterior import Posterior, shared_correlations, shrunken_effects

Record = Mapping[str, Any]
PROBABILITIES = (
    Column("p_better", "probability that it is a change for the better", label="P(better)", form="number", digits=2),
    Column(
        "p_within",
        "probability that it is smaller than the margin in either direction; empty without a margin",
        label="P(within margin)",
        form="number",
        digits=2,
        sparse=True,
    ),
    *interval("posterior", "the difference after shrinkage over its family; limits hold 95 % of the probability",
              form="difference"),
    Column("posterior_margin", "the margin that p_within is about", shown=False),
)  # fmt: skip
"""Columns that are appended where probabilities are asked for."""


def with_probabilities(
    table: Table,
    better: Callable[[Record], int | None],
    family: Callable[[Record], Hashable],
    *,
    effect: str = "delta",
    margin: Callable[[Record], float | None] = lambda record: None,
    weights: Callable[[Record], Mapping[str, float]] | None = None,
) -> Table:
    """The table with :data:`PROBABILITIES` of a difference ``effect`` that has limits.

    ``better`` is the sign of a change for the better (``None``: nobody can say, and there is no probability of it), the
    same for all rows of a family,
    ``family`` names what is drawn from one population and shrunk together, ``margin`` what is too small to matter.
    ``weights`` are those of a row's conditions, by which rows that share one are known to err together; without them
    rows err independently. Rows without limits have no probability.
    """
    records = list(table.records())
    families: dict[Hashable, list[int]] = {}
    for index, record in enumerate(records):
        if better(record) is not None and record[f"{effect}_low"] is not None:
            families.setdefault(family(record), []).append(index)
    for members in families.values():
        estimates = [
            Estimate(*(records[index][f"{effect}{end}"] for end in ("", "_low", "_high")))
            for index in members
        ]
        related = None if weights is None else shared_correlations([weights(records[i]) for i in members])
        # All rows of a family have one metric, and so one good end and one margin.
        sign, small = better(records[members[0]]) or 1, margin(records[members[0]])
        posteriors = shrunken_effects(estimates, better=sign, margin=small, correlations=related)
        for index, posterior in zip(members, posteriors, strict=True):
            records[index] |= probability_columns(posterior, small)
    return Table.of(table.spec.extended(PROBABILITIES), records)


def probability_columns(posterior: Posterior, margin: float | None) -> dict[str, float | None]:
    """The columns of one posterior."""
    return {
        "p_better": number(posterior.p_better),
        "p_within": number(posterior.p_within),
        **estimate_columns("posterior", posterior.estimate),
        "posterior_margin": margin if posterior.p_within is not None else None,
    }


def probability_words(record: Record) -> str:
    """``P(better) 0.93, P(within ±0.05) 0.31``; empty where a record has no probability.

    >>> probability_words({"p_better": 0.931, "p_within": 0.312, "posterior_margin": 0.05})
    'P(better) 0.93, P(within ±0.05) 0.31'
    """
    if record.get("p_better") is None:
        return ""
    within = ""
    if record.get("p_within") is not None:
        within = f", P(within ±{record['posterior_margin']:g}) {figure_text(record['p_within'])}"
    return f"P(better) {figure_text(record['p_better'])}{within}"


def probability_lines(records: Sequence[Record], name: Callable[[Record], str]) -> list[str]:
    """A line for each record that has a probability, under the name that the caller gives it, and what they are."""
    lines = [f"{name(record)}: {words}" for record in records if (words := probability_words(record))]
    return [*lines, NOTE] if lines else []


NOTE = (
    "Probabilities are posterior ones, shrunk over the effects of the family; no verdict rests on them"
    " (docs/explanation/selection.md)."
)
