"""``hypotheses.csv``: every hypothesis and criterion that is declared, each with a verdict and its numbers.

A further one is its :class:`~pcsuite.analysis.verdicts.findings.Hypothesis` and its entry in :data:`CLAIMS`.
"""

from __future__ import annotations

from pcsuite.analysis.table import Table
from pcsuite.analysis.verdicts import basis, constraints, loops, scale, structure
from pcsuite.analysis.verdicts.evidence import Evidence
from pcsuite.analysis.verdicts.findings import HYPOTHESES, Hypothesis

CLAIMS: dict[str, Hypothesis] = {
    claim.id: claim
    for claim in (
        structure.H1, structure.H1V, structure.H1I,
        constraints.H2, constraints.H2E, constraints.H2U, constraints.H2R,
        loops.H3, loops.H3L,
        scale.H4, scale.H4C,
        structure.P1, constraints.P2, loops.P3, basis.P4,
    )
}  # fmt: skip
"""By id, in the order of tables: the hypotheses, then what a publishable result would need, as a reviewer asks."""


def verdict_tables(evidence: Evidence) -> tuple[Table, Table, Table]:
    """``hypotheses.csv``, and the effects that several of the verdicts rest on: ``structure.csv``, ``scale.csv``."""
    records = []
    for claim in CLAIMS.values():
        finding = claim.judge(evidence)
        statement = claim.statement(evidence, finding)
        records.append({"id": claim.id, "statement": statement, **finding.columns()})
    return (
        Table.of(HYPOTHESES, records),
        structure.structure_table(evidence.once(structure.structure_blocks)),
        scale.scale_table(evidence.once(scale.scale_rows), evidence.sizes),
    )
