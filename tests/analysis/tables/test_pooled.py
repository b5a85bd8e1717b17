import numpy as np
import pytest
from scipy import stats

from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.metrics import Metrics, bundled_metrics
from pcsuite.analysis.tables.pooled import pooled
from pcsuite.stats.pooling import random_effects
from support.synthetic_log import make_row, write_log


def compute(tmp_path, gains, items=12):
    """Scores of C0 and C1; ``gains`` has the mean gain by task and model."""
    rng = np.random.default_rng(1)
    rows, truth = [], {}
    for (task, model), gain in gains.items():
        own = gain + rng.normal(0, 0.1, items)
        truth[task, model] = own
        rows += [
            make_row(
                task=task, model=model, item=f"{k}", condition=c, score=0.3 + float(own[k]) * (c == "C1")
            )
            for k in range(items)
            for c in ("C0", "C1")
        ]
    with RunTables([write_log(tmp_path / "a.jsonl", rows)], tmp_path / "tables") as tables:
        table = pooled(item_scores(tables), Metrics({"score": bundled_metrics()["score"]}))
    return {record["over"]: record for record in table.records()}, truth


def test_over_tasks_models_are_averaged_item_by_item(tmp_path):
    tasks, models = ("t1", "t2", "t3"), ("a", "b")
    found, truth = compute(tmp_path, {(t, m): 0.1 * k for k, t in enumerate(tasks) for m in models})
    assert set(found) == {"tasks", "models", "tasks and models"}
    means = [np.mean([truth[t, m] for m in models], axis=0) for t in tasks]
    expected = random_effects([m.mean() for m in means], [m.std(ddof=1) / np.sqrt(12) for m in means])
    record = found["tasks"]
    assert record["effect"] == pytest.approx(expected.mean.value)
    assert (record["effect_low"], record["p_value"]) == pytest.approx((expected.mean.low, expected.p_value))
    assert record["prediction_low"] == pytest.approx(expected.prediction_low)
    assert record["tau"] == pytest.approx(0.1, abs=0.05)
    assert (record["tasks"], record["models"], record["contrast"]) == (3, 2, "C1 − C0")
    # On these very tasks the spread between them does not count.
    assert record["effect_low"] < record["these_low"] < record["these"] < record["these_high"]


def test_models_on_the_same_items_share_their_error(tmp_path):
    found, truth = compute(tmp_path, {("t", m): 0.2 for m in "abd"}, items=30)
    assert set(found) == {"models"}
    shared = np.mean([truth["t", m] for m in "abd"], axis=0)
    width = found["models"]["effect_high"] - found["models"]["effect_low"]
    assert width >= 2 * stats.norm.ppf(0.975) * shared.std(ddof=1) / np.sqrt(30)


def test_one_task_on_one_model_is_not_pooled(tmp_path):
    assert compute(tmp_path, {("t", "m"): 0.2})[0] == {}
