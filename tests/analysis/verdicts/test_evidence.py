"""Measures, levels and pooled effects, by hand."""

import numpy as np
import pytest

from pcsuite.analysis.load.item_scores import CLEAN, CellKey, item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.tables.entropy import answer_counts_by_cell
from pcsuite.analysis.twins import CellPair
from pcsuite.analysis.verdicts.evidence import (
    DISAGREEMENT,
    INVENTED,
    PROMPT_VARIANCE,
    READABLE,
    READABLE_SCORE,
    SEED_VARIANCE,
    Deltas,
    collect_evidence,
    pool_deltas,
)
from pcsuite.logging.manifest import read_manifests
from pcsuite.stats.permutation import sign_flip_test
from support.synthetic_log import make_row, write_log


def key(task="t", model="m", condition="C6"):
    return CellKey(task, model, "D1", CLEAN, condition)


def deltas_of(**by_task):
    found = Deltas()
    for task, values in by_task.items():
        pair = CellPair(key(task), key(task, condition="C4"))
        found.add(pair, np.arange(len(values)), np.array(values, dtype=float), np.zeros(len(values)))
    return found


def read(tmp_path, rows, truths=None):
    with RunTables([write_log(tmp_path / "a.jsonl", rows)], tmp_path / "tables") as tables:
        scores = item_scores(tables)
        answers = answer_counts_by_cell(tables, scores)
        return collect_evidence(tables, scores, read_manifests(tables.logs), answers, truths)


def answers_of(item, condition, answers, scores, **more):
    common = {
        "task": "t",
        "model": "m",
        "item": item,
        "condition": condition,
        "decoding": "D1",
        **more,
    }
    return [
        make_row(seed=seed, answer=answer, score=score, **common)
        for seed, (answer, score) in enumerate(zip(answers, scores, strict=True), start=1)
    ]


def test_readability_score_and_variation_are_told_apart(tmp_path):
    rows = answers_of("a", "C4", ["x", "y", None, "x"], [1, 0, 0, 1])
    rows += answers_of("b", "C4", [None, None, None, "x"], [0, 0, 0, 1])
    # An item that failed throughout keeps its code, so that those after it are not taken for one another.
    rows += answers_of("aa", "C4", ["x"], [1], errors=["timeout"])
    evidence = read(tmp_path, rows)
    cell = key(condition="C4")
    found = {
        name: evidence.measured(cell, name)
        for name in (READABLE, READABLE_SCORE, SEED_VARIANCE, DISAGREEMENT)
    }
    assert found[READABLE].items.tolist() == [0, 2]
    assert found[READABLE].values == pytest.approx([3 / 4, 1 / 4])
    assert found[READABLE_SCORE].values == pytest.approx([2 / 3, 1.0])
    # Of a: 1, 0, 1 about 2/3; one readable answer has no variance and no pair.
    assert found[SEED_VARIANCE].values == pytest.approx([1 / 3])
    assert found[DISAGREEMENT].values == pytest.approx([2 / 3])


def test_a_log_without_parsed_answers_says_nothing_on_readability(tmp_path):
    evidence = read(tmp_path, answers_of("a", "C4", [None, None], [1, 0]))
    assert len(evidence.measured(key(condition="C4"), READABLE).values) == 0
    assert evidence.all_readable([CellPair(key(condition="C4"), key(condition="C4"))])


def test_answers_without_unsupported_content_are_one_and_the_same(tmp_path):
    rows = []
    for seed, (answer, rate) in enumerate((("x", 0.0), ("y", 0.0), ("z", 0.5), ("w", 1.0)), start=1):
        metrics = {"unsupported_rate": rate}
        rows.append(
            make_row(task="t", model="m", item="a", condition="C4", decoding="D1", seed=seed, answer=answer,
                     metrics=metrics)
        )  # fmt: skip
    found = read(tmp_path, rows).measured(key(condition="C4"), INVENTED)
    assert found.values == pytest.approx([1 - 2 / 12])


def test_variance_over_prompts_is_that_of_the_prompts_both_answered(tmp_path):
    rows = []
    for condition, levels in (
        ("C3", {"none": 0.2, "typo": 0.8, "alone": 0.0}),
        ("C4", {"none": 0.5, "typo": 0.5}),
    ):
        rows += [
            make_row(task="t", model="m", item="a", condition=condition, decoding="D1", perturbation=kind,
                     score=score)
            for kind, score in levels.items()
        ]  # fmt: skip
    pair = CellPair(key(condition="C4"), key(condition="C3"))
    ((_, _, values),) = read(tmp_path, rows).deltas([pair], PROMPT_VARIANCE).pairs
    assert values == pytest.approx([0.0 - 0.18])


def test_cells_of_a_task_are_averaged_within_the_item():
    deltas = Deltas()
    for model, items, values in (("m", [0, 1], [0.2, 0.4]), ("n", [1, 2], [0.0, -1.0])):
        pair = CellPair(key(model=model), key(model=model, condition="C4"))
        deltas.add(pair, np.array(items), np.array(values), np.zeros(2))
    (found,) = deltas.by_task.values()
    assert found.items.tolist() == [0, 1, 2]
    assert found.values == pytest.approx([0.2, 0.2, -1.0])


def test_a_task_with_a_single_item_is_no_task_of_an_effect():
    deltas = deltas_of(a=[0.1, 0.3, 0.2, 0.2, 0.1, 0.3, 0.2], b=[0.9])
    assert list(deltas.by_task) == ["a"]
    effect = pool_deltas(deltas)
    assert (effect.value, effect.items, effect.tasks) == (pytest.approx(0.2), 7, 1)


def test_one_task_has_the_interval_of_its_own_items():
    values = np.linspace(-0.1, 0.5, 40)
    found = pool_deltas(deltas_of(a=values))
    assert (found.value, found.items, found.tasks) == (pytest.approx(0.2), 40, 1)
    assert found.low == pytest.approx(0.2 - 2.02 * values.std(ddof=1) / np.sqrt(40), abs=0.01)
    assert found.new_task is None
    assert found.sign() == 1


def test_two_tasks_combine_their_own_limits():
    first, second = np.linspace(-0.1, 0.5, 40), np.linspace(0.2, 0.4, 20)
    arms = [pool_deltas(deltas_of(a=first)), pool_deltas(deltas_of(b=second))]
    found = pool_deltas(deltas_of(a=first, b=second))
    assert found.value == pytest.approx(0.25)
    assert found.value - found.low == pytest.approx(
        np.hypot(*(arm.value - arm.low for arm in arms)) / 2, rel=0.05
    )


def test_three_tasks_that_differ_say_little_of_the_next():
    found = pool_deltas(
        deltas_of(a=np.linspace(0.4, 0.5, 30), b=np.linspace(-0.3, -0.2, 30), c=np.linspace(0, 0.1, 30))
    )
    assert found.low < 0 < found.high
    assert found.new_task[0] < found.low


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"a": [1.0]}, "nothing to compare"),
        ({"a": [0.5, 0.2, 0.3, 0.9, 0.1]}, "5 items, and below 6 the exact test cannot reject"),
        ({"a": [0.0] * 20}, "every answer has the same value, 0, on both sides"),
    ],
)
def test_what_cannot_be_tested_says_why(values, why):
    found = pool_deltas(deltas_of(**values))
    assert found.untested == why
    assert found.sign() == 0


def test_the_exact_test_has_the_last_word():
    # Four of ten differ, all one way: an interval may exclude zero, the exact p-value is 2 · 0.5⁴.
    found = pool_deltas(deltas_of(a=[1, 1, 1, 1, 0, 0, 0, 0, 0, 0]))
    assert found.p_value == pytest.approx(0.125)
    assert found.sign() == 0


def test_a_cell_that_says_the_opposite_takes_the_word_away():
    deltas = Deltas()
    for model, value in (("m", 0.9), ("n", -0.4)):
        pair = CellPair(key(model=model), key(model=model, condition="C4"))
        values = value + np.linspace(-0.05, 0.05, 30)
        deltas.add(pair, np.arange(30), values, np.zeros(30))
    found = pool_deltas(deltas)
    assert found.low > 0
    assert found.opposed == ("t on n",)
    assert found.sign() == 0


def test_many_items_are_judged_by_normal_theory_as_resampling_would():
    rng = np.random.default_rng(5)
    values = rng.choice([-1.0, 0.0, 1.0], p=[0.28, 0.4, 0.32], size=2_400)
    whole, part = pool_deltas(deltas_of(a=values)), pool_deltas(deltas_of(a=values[:1_900]))
    assert whole.high - whole.low == pytest.approx(np.sqrt(19 / 24) * (part.high - part.low), rel=0.06)
    exact = sign_flip_test(values, rng=rng)
    assert whole.p_value == pytest.approx(exact.p_value, abs=0.01)
