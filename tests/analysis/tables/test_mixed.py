import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.metrics import Metrics, bundled_metrics
from pcsuite.analysis.tables.mixed import ALL_TASKS, mixed_results
from support.synthetic_log import make_row, write_log


def graded(items, conditions, models=(("m1", "1B"),), task="t", seeds=(0,)):
    rng = np.random.default_rng(5)
    rows = []
    for item in range(items):
        ease = rng.normal(0, 0.2)
        for model, size in models:
            for place, condition in enumerate(conditions):
                for seed in seeds:
                    score = 0.4 + ease + 0.1 * place + rng.normal(0, 0.1)
                    rows.append(
                        make_row(
                            task=task,
                            item=f"{item}",
                            model=model,
                            size=size,
                            condition=condition,
                            seed=seed,
                            score=score,
                        )
                    )
    return rows


def fit(tmp_path, rows, metrics=("score",)):
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        known = Metrics({name: bundled_metrics()[name] for name in metrics})
        return mixed_results(tables, item_scores(tables, squares=metrics), known)


@pytest.mark.slow
def test_estimates_are_those_of_a_reference_fit(tmp_path):
    rows = graded(40, ("C0", "C1", "C2"))
    found = fit(tmp_path, rows)
    data = pd.DataFrame(
        {
            "y": [row.metrics["task_score"] for row in rows],
            "item": [row.task.item_id for row in rows],
            "condition": [row.condition.id for row in rows],
        }
    )
    reference = smf.mixedlm("y ~ C(condition)", data, groups=data["item"]).fit(reml=True)
    table = {record["term"]: record for record in found.models.records() if record["kind"] == "fixed"}
    for term, name in (("condition[C1]", "C(condition)[T.C1]"), ("condition[C2]", "C(condition)[T.C2]")):
        assert table[term]["estimate"] == pytest.approx(reference.params[name], abs=1e-4)
        change = data.pivot(index="item", columns="condition", values="y")
        paired = stats.ttest_rel(change[term[10:12]], change["C0"])
        assert (table[term]["p_value"], table[term]["df"]) == pytest.approx((paired.pvalue, 39), rel=1e-5)
    variance = next(record for record in found.models.records() if record["term"] == "item")
    assert variance["estimate"] == pytest.approx(float(reference.cov_re.iloc[0, 0]), rel=1e-2)


@pytest.mark.slow
def test_marginal_means_of_a_balanced_run_are_plain_means(tmp_path):
    rows = graded(30, ("C0", "C1"))
    found = fit(tmp_path, rows)
    means = {r["condition"]: r for r in found.means.records() if r["over"] == "condition"}
    plain = {c: np.mean([r.metrics["task_score"] for r in rows if r.condition.id == c]) for c in ("C0", "C1")}
    assert means["C1"]["mean"] == pytest.approx(plain["C1"], abs=1e-6)
    assert means["C1"]["difference"] == pytest.approx(plain["C1"] - plain["C0"], abs=1e-6)
    assert means["C0"]["difference"] is None


@pytest.mark.slow
def test_sizes_enter_with_their_interaction(tmp_path):
    found = fit(tmp_path, graded(20, ("C0", "C1"), models=(("a", "1B"), ("b", "8B"))))
    terms = {record["term"] for record in found.models.records()}
    assert {"condition[C1]", "size[8B]", "condition[C1]:size[8B]"} <= terms
    assert any(record["over"] == "condition × size" for record in found.means.records())


@pytest.mark.slow
def test_tasks_are_pooled_with_a_dataset_intercept(tmp_path):
    rows = graded(15, ("C0", "C1"), task="t1") + graded(15, ("C0", "C1"), task="t2")
    found = fit(tmp_path, rows)
    assert {scope for scope, _ in found.fits} == {"t1", "t2", ALL_TASKS}
    pooled = {
        r["term"] for r in found.models.records() if r["scope"] == ALL_TASKS and r["kind"] == "variance"
    }
    assert "dataset" in pooled


@pytest.mark.slow
def test_means_are_filled_where_a_family_comes_in_one_size(tmp_path):
    rows = graded(12, ("C0", "C1"), models=(("a", "1B"), ("b", "8B")))
    rows += [
        make_row(task="t", item=f"{k}", model="api", family="gpt", size="", condition=c, score=0.1 * (k % 5))
        for k in range(12)
        for c in ("C0", "C1")
    ]
    found = fit(tmp_path, rows)
    means = [r for r in found.means.records() if r["over"] == "condition"]
    assert len(means) == 2
    assert all(r["mean"] is not None for r in found.means.records())


@pytest.mark.slow
def test_models_of_one_family_and_size_are_told_apart(tmp_path):
    rows = graded(12, ("C0", "C1"), models=(("a", "1B"), ("b", "1B")))
    found = fit(tmp_path, rows)
    terms = {r["term"] for r in found.models.records()}
    assert "model[b]" in terms
    # Two answers of two models are no replicates.
    assert "item:cell" not in terms


@pytest.mark.slow
def test_the_control_of_the_run_is_the_reference(tmp_path):
    rows = [
        make_row(
            item=f"{k}",
            condition=name,
            operators=own,
            score=0.1 * k + 0.3 * len(own) + 0.01 * (k % 3) * len(name),
        )
        for k in range(6)
        for name, own in (("x:-A", ("B",)), ("x:-B", ("A",)), ("x:all", ("A", "B")))
    ]
    found = fit(tmp_path, rows)
    means = {r["condition"]: r for r in found.means.records() if r["over"] == "condition"}
    assert means["x:all"]["difference"] is None
    assert means["x:-A"]["difference"] == pytest.approx(-0.3, abs=0.02)


def test_scores_without_spread_are_said_not_fitted(tmp_path):
    rows = [
        make_row(item=f"{k}", condition=c, score=float(c == "C1")) for k in range(5) for c in ("C0", "C1")
    ]
    found = fit(tmp_path, rows)
    assert found.fits == {}
    assert found.notes == [
        "No mixed model of score for agnews_json: the values do not vary within any condition."
    ]


@pytest.mark.slow
def test_each_condition_has_a_mean_on_one_family_in_two_sizes_and_an_api_model(tmp_path):
    """The API model comes in no other size and cannot enforce a constraint: C6 has its mean over those that can."""
    models = (("small", "7B", "qwen"), ("medium", "14B", "qwen"), ("api", "frontier", "gpt"))
    rows = [
        make_row(
            task="t", item=f"{k}", model=model, size=size, family=family, condition=condition, decoding=regime,
            score=0.2 + 0.1 * lift + 0.1 * place + 0.02 * (k % 5) + 0.01 * ((k + place) % 3),
        )
        for k in range(12)
        for lift, (model, size, family) in enumerate(models)
        for place, condition in enumerate(("C0", "C4", "C6"))
        for regime in ("D0", "D1")
        if (model, condition) != ("api", "C6")
    ]  # fmt: skip
    found = [r for r in fit(tmp_path, rows).means.records() if r["scope"] == "t"]
    alone = {r["condition"]: r for r in found if r["over"] == "condition"}
    assert set(alone) == {"C0", "C4", "C6"}
    assert all(r["mean"] is not None and r["mean_low"] is not None for r in alone.values())
    assert alone["C4"]["mean"] == pytest.approx(0.2 + 0.1 + 0.1 + 0.1 / 3 + 0.01, abs=0.02)
    # Over two models, and its difference is from C0 on the same two.
    assert alone["C6"]["note"] == "over 14B qwen, 7B qwen only: the rest lacks it"
    assert alone["C6"]["difference"] == pytest.approx(0.2, abs=0.01)
    classes = {(r["condition"], r["size_class"]) for r in found if r["over"] == "condition × size class"}
    assert {("C0", "S"), ("C0", "M"), ("C0", "L"), ("C6", "S"), ("C6", "M")} <= classes
    missing = [r for r in found if r["mean"] is None]
    assert {(r["condition"], r["size"] or r["size_class"]) for r in missing} == {
        ("C6", "frontier"),
        ("C6", "L"),
    }


@pytest.mark.slow
def test_every_metric_that_is_compared_has_its_model(tmp_path):
    rows = [
        make_row(
            task="t", item=f"{k}", condition=c, score=float((k + place) % 3 == 0),
            metrics={"unsupported_rate": (k % 4) / 4, "abstain_misuse": float(k % 5 == place), "abstained": float(k % 2)},
            completion_tokens=20 + k + 5 * place,
        )
        for k in range(20)
        for place, c in enumerate(("C0", "C1"))
    ]  # fmt: skip
    metrics = bundled_metrics()
    found = fit(tmp_path, rows, metrics=tuple(metrics.compared_in("effects")))
    assert metrics.compared_in("mixed_model") == metrics.compared_in("effects")
    fitted = {metric for _, metric in found.fits}
    assert {"score", "unsupported_rate", "abstained", "abstain_misuse", "total_tokens"} <= fitted
