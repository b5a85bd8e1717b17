"""Baselines: written, read, and compared as the run they are of."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pcsuite as pcs
from pcsuite.analysis.baseline import Baseline
from pcsuite.analysis.compare import compare_runs
from pcsuite.errors import AnalysisError
from support.own_task import write_own_profile
from support.two_runs import SCORE_ONLY, run_of


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return pcs.run(write_own_profile(tmp_path_factory.mktemp("own")), quiet=True)


@pytest.mark.slow
def test_a_baseline_is_the_run_it_is_of(made, tmp_path):
    path = made.baseline().write(tmp_path / "deep" / "own.json", made.metrics)
    read = Baseline.read(path)
    assert read.name == "own"
    assert len(read.digests["tickets"]) == 40
    for key, cell in made.scores.cells.items():
        again = read.scores.cells[key]
        names = [read.scores.item_names["tickets"][item] for item in again.items]
        assert names == [made.scores.item_names["tickets"][item] for item in cell.items]
        np.testing.assert_allclose(again.values["score"], cell.values["score"])
    compared = compare_runs(read.scores, made.scores, metrics=made.metrics, margin=0.2)
    assert compared.changes == []
    assert compared.standing == "no worse"
    assert path.stat().st_size < 8000


def test_the_file_is_the_same_every_time_and_holds_no_text(made, tmp_path):
    first = made.baseline().write(tmp_path / "a.json", made.metrics).read_text()
    assert first == made.baseline().write(tmp_path / "b.json", made.metrics).read_text()
    assert "ticket 1 about" not in first


def test_items_that_were_edited_are_left_out(made):
    digests = {"tickets": dict(made.digests()["tickets"]) | {"t003": "other", "t999": "new"}}
    kept, changed = made.baseline().without_changed(digests)
    assert changed == 1
    compared = compare_runs(kept.scores, made.scores, metrics=made.metrics)
    assert {record["n_items"] for record in compared.table.records()} == {39}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"format": "other"}',
        '{"format": "pcsuite baseline 1", "run": "x", "pooled": [], "cells": [{}]}',
    ],
)
def test_what_is_no_baseline_is_one_line(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(AnalysisError, match=r"x.json: not a baseline of the suite"):
        Baseline.read(path)
    with pytest.raises(AnalysisError, match="no such baseline"):
        Baseline.read(tmp_path / "gone.json")


def test_a_cell_with_too_few_values_is_refused(made, tmp_path):
    path = made.baseline().write(tmp_path / "a.json", made.metrics)
    document = json.loads(path.read_text())
    document["cells"][0]["metrics"]["score"].pop()
    path.write_text(json.dumps(document))
    with pytest.raises(AnalysisError, match="another number of values than items"):
        Baseline.read(path)


def test_missing_scores_and_clusters_are_part_of_a_baseline(tmp_path):
    """What failed when the baseline was made is missing in it, and what was related stays so."""
    run = run_of(np.ones(30), failed=[3, 4], unscored=[7])
    related = replace(run, clusters={"t": np.arange(30) // 3})
    path = Baseline(related, "before").write(tmp_path / "b.json", SCORE_ONLY)
    document = json.loads(path.read_text())
    assert document["cells"][0]["missing"] == {"i003": 1.0, "i004": 1.0, "i007": 1.0}
    read = Baseline.read(path).scores
    compared = compare_runs(read, run_of(np.ones(30)), metrics=SCORE_ONLY, margin=0.3)
    assert {(entry.run, entry.item_id) for entry in compared.missing} == {
        ("first", "i003"),
        ("first", "i004"),
        ("first", "i007"),
    }
    (record,) = compared.table.records()
    # Of ten clusters of three the one with the unscored item has two; one has lost all but one.
    assert (record["n_items"], record["n_clusters"], record["missing_first"]) == (27, 10, 3)
    assert (record["delta_least"], record["delta_most"]) == (0.0, pytest.approx(0.1))
