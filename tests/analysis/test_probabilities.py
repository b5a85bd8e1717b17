"""Probabilities beside differences: which rows are shrunk together, and where they are shown."""

import csv
import json

import numpy as np
import pytest

from pcsuite.analysis.probabilities import PROBABILITIES, probability_lines, with_probabilities
from pcsuite.analysis.table import Column, Table, TableSpec, interval
from pcsuite.api.runs import compare
from pcsuite.cli import main
from pcsuite.reporting.build import build_report
from pcsuite.stats.estimate import Estimate
from pcsuite.stats.posterior import shared_correlations, shrunken_effects
from support.synthetic_log import make_row, write_log

SPEC = TableSpec("t", "T", "row", (Column("name", ""), Column("metric", ""), *interval("delta", "")))


def test_rows_of_a_family_are_shrunk_together_and_those_without_limits_not_at_all():
    figures = {"a": (0.2, 0.0, 0.4), "b": (0.0, -0.2, 0.2), "c": (0.1, None, None), "d": (0.2, 0.0, 0.4)}
    records = [
        {
            "name": name,
            "metric": "cost" if name == "d" else "score",
            "delta": v,
            "delta_low": low,
            "delta_high": high,
        }
        for name, (v, low, high) in figures.items()
    ]
    table = with_probabilities(
        Table.of(SPEC, records),
        lambda row: -1 if row["metric"] == "cost" else 1,
        lambda row: row["metric"],
        margin=lambda row: 0.1 if row["metric"] == "score" else None,
        weights=lambda row: {row["name"]: 1.0, "control": -1.0},
    )
    rows = {row["name"]: row for row in table.records()}
    related = shared_correlations([{"a": 1, "control": -1}, {"b": 1, "control": -1}])
    first, second = shrunken_effects(
        [Estimate(0.2, 0.0, 0.4), Estimate(0.0, -0.2, 0.2)], margin=0.1, correlations=related
    )
    assert (rows["a"]["p_better"], rows["b"]["p_within"]) == pytest.approx((first.p_better, second.p_within))
    assert rows["c"]["p_better"] is None
    (alone,) = shrunken_effects([Estimate(0.2, 0.0, 0.4)], better=-1)
    assert rows["d"]["p_better"] == pytest.approx(alone.p_better)
    assert rows["d"]["p_within"] is None
    assert table.columns[-6:] == tuple(column.name for column in PROBABILITIES)
    lines = probability_lines(list(table.records()), lambda row: row["name"])
    assert lines[0] == f"a: P(better) {first.p_better:.2f}, P(within ±0.1) {first.p_within:.2f}"
    assert [line.partition(":")[0] for line in lines[:-1]] == ["a", "b", "d"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("posterior")
    first, second = np.arange(60) % 2, np.arange(60) % 10 > 0
    made = {}
    for name, treated in (("before", first), ("after", second)):
        rows = [
            make_row(item=f"{k:02d}", condition=condition, score=float(score), profile=name)
            for condition, scores in (("C0", first), ("C1", treated))
            for k, score in enumerate(scores)
        ]
        made[name] = write_log(folder / "runs" / f"{name}.jsonl", rows)
    return folder, made["before"], made["after"]


def test_a_comparison_has_them_where_asked(logs, capsys):
    _, before, after = logs
    assert "p_better" not in compare(before, after).table.columns
    rows = {
        r["condition"]: r
        for r in compare(before, after, margin=0.05, posterior=True).table.records()
        if r["metric"] == "score"
    }
    assert rows["C1"]["p_better"] > 0.9 > rows["C0"]["p_better"]
    assert rows["C0"]["posterior_margin"] == 0.05
    assert main(["compare", str(before), str(after), "--margin", "0.05", "--posterior"]) == 0
    printed = capsys.readouterr().out
    assert f"C1, score: P(better) {rows['C1']['p_better']:.2f}, P(within ±0.05)" in printed
    assert "no verdict rests on them" in printed
    assert main(["compare", str(before), str(after), "--posterior", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "p_better" in json.dumps(document)


def test_a_report_has_them_where_asked(logs):
    folder, _, after = logs
    plain = build_report([after], folder, plots=False)
    header = next(path for path in plain.tables if path.name == "effects.csv").read_text(encoding="utf-8")
    assert "p_better" not in header.splitlines()[0]
    files = build_report([after], folder, plots=False, posterior=True)
    path = next(path for path in files.tables if path.name == "effects.csv")
    with path.open(encoding="utf-8", newline="") as stream:
        (row,) = [row for row in csv.DictReader(stream) if row["metric"] == "score"]
    assert 0.9 < float(row["p_better"]) < 1
    assert row["posterior_margin"] == "0.05"
    assert 0 < float(row["posterior"]) < float(row["delta"])
    assert "P(better)" in files.index.read_text(encoding="utf-8")
