"""Shared by the tests of the mixed model: the stored fits of R and our fits of the same data."""

import csv
import functools
import json
from pathlib import Path

import numpy as np
import pytest

from pcsuite.stats.design import cell_totals, encode_cells, fixed_design
from pcsuite.stats.mixed import fit_mixed

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "lme4"
MODELS = {
    "crossed": ("crossed", ["condition", "size", "condition:size"], ["dataset"], None),
    "crossed_no_replicate_effect": ("crossed", ["condition", "size"], ["dataset"], False),
    "plain": ("plain", ["condition"], [], None),
    "singular": ("singular", ["condition"], [], None),
    "full": (
        "full",
        ["condition", "size", "decoding", "family", "condition:size", "condition:decoding"],
        [],
        None,
    ),
}


def read_columns(name):
    with (FIXTURES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {key: [row[key] for row in rows] for key in rows[0]}


def fit_mixed_rows(
    scores, items, factors, terms, *, random_factors=(), references=None, replicate_effect=None
):
    """A fit from one score a row, ``factors`` giving the levels by row: the report groups its rows in the database."""
    cells, codes = encode_cells(factors)
    small = {
        name: np.unique([cell[name] for cell in cells], return_inverse=True)[1].astype(np.int64)
        for name in random_factors
    }
    totals, design = cell_totals(items, codes, scores), fixed_design(cells, terms, references=references)
    return fit_mixed(totals, design, small_factors=small, replicate_effect=replicate_effect)


@functools.cache
def fit_reference(name):
    data, terms, random_factors, replicate_effect = MODELS[name]
    columns = read_columns(data)
    scores, items = np.array(columns.pop("score"), dtype=float), columns.pop("item")
    return fit_mixed_rows(
        scores, items, columns, terms, random_factors=random_factors, replicate_effect=replicate_effect
    )


@pytest.fixture(scope="session")
def lme4_reference():
    """Estimates of lme4, lmerTest and emmeans on the stored data."""
    return json.loads((FIXTURES / "reference.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def reference_columns():
    """Reads a stored data set by name into columns of text."""
    return read_columns


@pytest.fixture(scope="session")
def reference_fit():
    """Fits a stored data set by the name of its reference model."""
    return fit_reference
