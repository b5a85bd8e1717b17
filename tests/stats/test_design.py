"""Design matrices by hand: treatment coding, references, what the observed cells can tell, grouped rows."""

import numpy as np
import pytest

from pcsuite.errors import AnalysisError
from pcsuite.stats.design import cell_totals, encode_cells, fixed_design, indicator
from support.lme4 import fit_mixed_rows

CELLS = [{"condition": c, "size": s} for c in ("a", "b") for s in ("s", "t")]


def test_an_interaction_is_the_product_of_its_columns():
    design = fixed_design(CELLS, ["condition", "size", "condition:size"])
    assert design.names == ("(Intercept)", "condition[b]", "size[t]", "condition[b]:size[t]")
    assert design.matrix.tolist() == [[1, 0, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]]
    assert design.full_rows([{"condition": "b", "size": "t"}]).tolist() == [[1, 1, 1, 1]]


def test_a_missing_cell_makes_its_mean_not_estimable():
    design = fixed_design(CELLS[:3], ["condition", "size", "condition:size"])
    assert design.estimable(design.full_rows(CELLS)).tolist() == [True, True, True, False]


def test_rows_are_grouped_by_item_and_cell():
    cells, codes = encode_cells({"condition": ["b", "a", "b"]})
    assert cells == [{"condition": "a"}, {"condition": "b"}]
    assert codes.tolist() == [1, 0, 1]
    totals = cell_totals(["q", "q", "q"], codes, [1.0, 0.5, 0.0])
    assert (totals.cell.tolist(), totals.count.tolist()) == ([0, 1], [1, 2])
    assert (totals.total.tolist(), totals.squares.tolist()) == ([0.5, 1], [0.25, 1])
    assert totals.rows == 3
    assert indicator(codes).tolist() == [[0, 1], [1, 0], [0, 1]]
    with pytest.raises(AnalysisError, match="do not pair"):
        cell_totals(["q"], codes, [1.0, 0.5, 0.0])


def test_missing_cells_drop_a_column_by_name():
    factors = {"condition": ["a", "b", "a"] * 8, "size": ["s", "s", "t"] * 8}
    items = np.repeat(np.arange(8), 3)
    scores = np.random.default_rng(2).random(24)
    fit = fit_mixed_rows(scores, items, factors, ["condition", "size", "condition:size"])
    assert fit.design.dropped == ("condition[b]:size[t]",)
    assert len(fit.beta) == 3


def test_reference_level_can_be_chosen():
    factors = {"condition": ["a", "b"] * 6}
    scores = np.random.default_rng(3).random(12)
    fit = fit_mixed_rows(
        scores, np.repeat(np.arange(6), 2), factors, ["condition"], references={"condition": "b"}
    )
    assert fit.design.names == ("(Intercept)", "condition[a]")
