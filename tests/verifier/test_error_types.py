"""A kind of error is declared once: one added from outside is known to everything that tells of errors."""

import json
import runpy
from pathlib import Path

import pytest

from pcsuite.analysis.metrics import metrics_of
from pcsuite.cli import main
from pcsuite.config.definitions import MetricSpec
from pcsuite.config.load import load_suite
from pcsuite.data.items import Item
from pcsuite.errors import ConfigError
from pcsuite.evaluation.base import Answer
from pcsuite.verifier import compare
from pcsuite.verifier.error_types import ERROR_TYPES, ErrorType
from pcsuite.verifier.evaluator import BuildingSpecEvaluator
from pcsuite.verifier.improve.state import load_rules
from pcsuite.verifier.scores import Counts
from pcsuite.verifier.values import judge_value

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_table_docs.py"
ROUNDED = ErrorType(
    "rounded",
    "rounded off",
    "given, but rounded",
    costs_precision=True,
    costs_recall=True,
    extraction="the value rounded to the ten",
    metric="roundings",
    spec=MetricSpec(label="rounded values", higher_is_better=False, description="Fields that were rounded."),
    series=3,
)


def judge_with_rounding(expected, actual, *rules):
    verdict = judge_value(expected, actual, *rules)
    return "rounded" if verdict == "wrong_value" and actual == round(expected, -1) else verdict


@pytest.fixture
def rounded(monkeypatch):
    """A fifth kind: its entry, and the place that decides it."""
    monkeypatch.setitem(ERROR_TYPES, "rounded", ROUNDED)
    monkeypatch.setattr(compare, "judge_value", judge_with_rounding)


def verify(folder):
    """``pcsuite verify`` of a record that rounds the 27 dwelling units of the truth and has its two stories."""
    (folder / "truth.csv").write_text("field,value\nDwelling Units,27\nStories,2\n")
    (folder / "extracted.json").write_text('{"project": {"dwelling_units": 30, "stories": 2}}')
    files = [str(folder / name) for name in ("truth.csv", "extracted.json")]
    outputs = {"--out": "results", "--junit": "junit.xml", "--sarif": "out.sarif"}
    main(["verify", *files, *(word for flag, name in outputs.items() for word in (flag, str(folder / name)))])


def test_an_added_kind_is_in_results_pages_tables_and_files_for_ci(tmp_path, capsys, rounded):
    verify(tmp_path)
    results = next(tmp_path.rglob("eval-results.json"))
    metrics = json.loads(results.read_text())["metrics"]
    assert metrics["errors_by_type"]["rounded"] == 1
    # One right, one that costs both sides: precision and recall are a half.
    assert (metrics["precision"], metrics["recall"]) == (0.5, 0.5)
    page = (results.parent / "eval-report.html").read_text()
    assert "Rounded<small>given, but rounded</small>" in page
    assert (
        '<button type="button" class="kind c3" data-kind="rounded" aria-pressed="true">Rounded 1</button>'
        in page
    )
    printed = capsys.readouterr().out
    assert "rounded off" in printed
    assert "project.dwelling_units: rounded: 30, the truth is 27" in (tmp_path / "junit.xml").read_text()
    rules = json.loads((tmp_path / "out.sarif").read_text())["runs"][0]["tool"]["driver"]["rules"]
    assert {"id": "rounded", "shortDescription": {"text": "given, but rounded"}} in rules


def test_an_added_kind_is_a_metric_of_the_task_with_its_label(rounded):
    item = Item("a", "", {"record": {"project": {"dwelling_units": 27}}})
    answer = Answer('{"project": {"dwelling_units": 30}}')
    metrics = BuildingSpecEvaluator().evaluate(item, answer).metrics
    assert (metrics["roundings"], metrics["wrong_values"]) == (1, 0)
    assert metrics_of().label("roundings") == "rounded values"
    assert load_suite("quickstart").metrics["roundings"].higher_is_better is False


def test_an_added_kind_is_in_the_reference_and_a_rule_may_be_meant_for_it(tmp_path, rounded):
    rows = runpy.run_path(str(SCRIPT))["error_rows"]()
    assert "| `rounded` | a value | the value rounded to the ten | both |\n" in rows
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: '1.0'\nrules:\n- {id: EXACT, error_types: [rounded], text: Do not round.}\n")
    assert load_rules(rules)


def test_a_rule_for_an_unknown_kind_is_refused_with_the_nearest(tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: '1.0'\nrules:\n- {id: EXACT, error_types: [omision], text: Say all.}\n")
    with pytest.raises(ConfigError, match=r"unknown error type 'omision' \(did you mean 'omission'\?\)"):
        load_rules(rules)


def test_an_undeclared_kind_cannot_be_counted():
    with pytest.raises(KeyError):
        Counts().add("typo")
