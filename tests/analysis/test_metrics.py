"""Metric specs: what is bundled, what is laid over it, and a scorer's own metric from outside the package."""

import csv
import json
import re

import pytest
import yaml

from pcsuite import cli
from pcsuite.analysis.metrics import bundled_metrics, declared_by, metrics_of
from pcsuite.config.definitions import MetricSpec
from pcsuite.config.load import bundled_configs
from pcsuite.evaluation import EVALUATORS
from pcsuite.evaluation.base import Evaluation
from pcsuite.evaluation.single_answer import ClassificationEvaluator
from support.analysed import tables_of
from support.profiles import write_profile
from support.synthetic_log import make_row


def test_an_undeclared_metric_gets_sensible_words():
    metrics = bundled_metrics()
    assert metrics.label("edit_distance") == "edit distance"
    assert metrics["edit_distance"].shown == ("task_metrics",)
    assert metrics.improved("edit_distance", 1.0) is None
    assert "edit_distance" not in metrics


def test_directions_and_costs():
    metrics = bundled_metrics()
    assert [metrics.improved("score", d) for d in (0.1, -0.1, 0.0)] == [True, False, None]
    assert [metrics.improved("truncated", d) for d in (0.1, -0.1)] == [False, True]
    assert metrics.improved("abstained", 0.1) is None
    assert [name for name in metrics.compared_in("effects") if metrics.is_cost(name)] == ["total_tokens"]


def test_a_type_alone_says_which_way_is_better():
    types = ("primary", "format", "hallucination", "entropy", "efficiency")
    assert [MetricSpec(type=kind).higher_is_better for kind in types] == [True, True, False, False, False]
    assert MetricSpec(type="entropy", higher_is_better=None).higher_is_better is None


def test_a_later_layer_has_the_last_word_and_an_unreadable_one_none():
    told = {"json_valid": {"label": "JSON"}, "odd": {"direction_of_travel": "up"}}
    metrics = metrics_of(told, {"task_score": MetricSpec(label="F1")})
    assert (metrics.label("json_valid"), metrics.label("score"), metrics.label("odd")) == (
        "JSON",
        "F1",
        "odd",
    )
    assert next(iter(metrics)) == "score"


def test_a_manifest_keeps_what_the_bundled_file_does_not_say():
    own = MetricSpec(label="politeness", compared=("effects",))
    kept = declared_by({**bundled_metrics(), "politeness": own})
    assert kept == {"politeness": {"label": "politeness", "compared": ["effects"]}, "score": kept["score"]}
    assert metrics_of(kept)["politeness"] == own


@pytest.mark.slow
def test_a_range_beyond_one_has_no_risks(tmp_path):
    spec = MetricSpec(label="rouge", range=(0.0, 100.0), compared=("effects",))
    rows = [
        make_row(item=f"{k}", condition=c, metrics={"rouge": float(c == "C1"), "plain": float(c == "C1")})
        for k in range(6)
        for c in ("C0", "C1")
    ]
    known = {"rouge": spec, "plain": spec.model_copy(update={"range": None})}
    effects = {row["metric"]: row for row in tables_of(tmp_path, rows, metrics=known)["effects"]}
    assert effects["rouge"]["delta"] == effects["plain"]["delta"] == 1.0
    assert (effects["rouge"]["risk_reduction"], effects["plain"]["risk_reduction"]) == (None, 1.0)


class Polite(ClassificationEvaluator):
    """Counts, besides the label, how often the answer says please."""

    def evaluate(self, item, answer):
        found = super().evaluate(item, answer)
        return Evaluation(found.parsed, {**found.metrics, "pleases": float(len(answer.text) % 7)})


@pytest.mark.slow
def test_a_metric_of_a_users_scorer_reaches_tables_and_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(EVALUATORS, "_targets", {**EVALUATORS._targets, "polite": Polite})
    profile = write_profile(tmp_path, conditions=("C0", "C3"), suite={"models_ref": "models.yaml"})
    bundled = yaml.safe_load((bundled_configs() / "tasks_v1.yaml").read_text(encoding="utf-8"))
    task = {**bundled["tasks"]["agnews_json"], "evaluator": "polite"}
    files = {
        "tasks": {"version": "1.0", "tasks": {"agnews_json": task}},
        "metrics": {
            "version": "1.0",
            "metrics": {
                "pleases": {
                    "label": "courtesy <count>",
                    "higher_is_better": False,
                    "range": [0, None],
                    "compared": ["effects", "compare", "mixed_model"],
                    "shown": ["summary_by_condition", "task_metrics", "verdicts"],
                }
            },
        },
    }
    for name, content in files.items():
        (tmp_path / f"own_{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    given = yaml.safe_load(profile.read_text(encoding="utf-8"))
    given["suite"] |= {"tasks_ref": "own_tasks.yaml", "metrics_ref": "own_metrics.yaml"}
    profile.write_text(yaml.safe_dump(given, sort_keys=False), encoding="utf-8")
    assert cli.main(["run", "--config", str(profile), "-q"]) == 0
    # By the log alone: the manifest remembers what the profile declared.
    assert cli.main(["report", "t", "--output-dir", "outputs", "--no-plots", "--embeddings", "off"]) == 0
    tables = tmp_path / "outputs" / "tables"
    with (tables / "effects.csv").open(encoding="utf-8") as stream:
        records = list(csv.DictReader(stream))
    assert {row["decoding"] for row in records if row["metric"] == "pleases"} == {"D0", "D1"}
    assert "json_valid" in {row["metric"] for row in records}
    with (tables / "summary_by_condition.csv").open(encoding="utf-8") as stream:
        header = next(csv.reader(stream))
    # Names with a dot, for programs that expect them, come last.
    assert [name for name in header if "." not in name][-3:] == ["pleases", "pleases_low", "pleases_high"]
    with (tables / "mixed_model.csv").open(encoding="utf-8") as stream:
        assert "pleases" in {row["metric"] for row in csv.DictReader(stream)}
    page = (tmp_path / "outputs" / "reports" / "t" / "index.html").read_text(encoding="utf-8")
    for part in ("effects", "levels"):
        data = re.search(rf'<div class="data-table" id="{part}-table"[^>]*><script[^>]*>(.*?)</script>', page)
        assert "courtesy <count>" in str(json.loads(data[1]))
    capsys.readouterr()
    assert cli.main(["compare", "t", "t", "--output-dir", "outputs"]) == 0
    assert "courtesy <count>" in capsys.readouterr().out
