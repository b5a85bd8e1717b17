"""A constraint against retries at equal tokens: by hand, coverage, and the simulated provider's known truth."""

import numpy as np
import pytest

from pcsuite.analysis.analyse import analyse
from pcsuite.analysis.load.runs import RunTables
from pcsuite.config.load import load_suite
from pcsuite.engines.adapters.simulated import SimulatedOptions, json_probability
from pcsuite.errors import AnalysisError
from pcsuite.logging.log import newest_rows
from pcsuite.runners.run_suite import run_suite
from pcsuite.stats.equal_tokens import (
    NO_ROW,
    UNREADABLE,
    Arm,
    affordable_share,
    compare_at_equal_tokens,
    readable_pairs,
)
from support.profiles import SIMULATED, write_profile
from support.synthetic_log import OPERATORS, make_row, write_log


def test_disagreement_leaves_pairs_of_one_seed_out():
    answers = np.array([[1, 1, 2], [5, 5, 5], [7, 8, NO_ROW], [7, NO_ROW, NO_ROW]])
    assert readable_pairs(answers)[1] == pytest.approx([4 / 6, 0.0, 1.0, np.nan], nan_ok=True)
    # Of (1, 1) and (1, 2) the pairs under different seeds are 1–2 and 1–1.
    assert readable_pairs(np.array([[1, 1]]), np.array([[1, 2]]))[1] == pytest.approx([0.5])
    with pytest.raises(AnalysisError, match="do not pair"):
        readable_pairs(answers, answers[:, :2])
    with pytest.raises(AnalysisError, match="whole numbers"):
        readable_pairs(answers.astype(float))


def test_what_cannot_be_read_is_no_answer():
    answers = np.array([[1, UNREADABLE, 2], [UNREADABLE, UNREADABLE, 5], [NO_ROW, 4, UNREADABLE]])
    both, differing = readable_pairs(answers)
    assert both == pytest.approx([1 / 3, 0.0, 0.0])
    assert differing == pytest.approx([1 / 3, 0.0, 0.0])


def test_the_share_of_retries_that_can_be_paid_for():
    free, retry = np.full(5, 100.0), np.array([180.0, 180.0, 180.0, 100.0, 90.0])
    constrained = np.array([120.0, 90.0, 300.0, 100.0, 95.0])
    assert affordable_share(free, retry, constrained) == pytest.approx([0.25, 0.0, 1.0, 1.0, 1.0])


def arm(answers, tokens, valid):
    items = len(answers)
    return Arm(np.array(answers), np.full(items, tokens), np.array(valid), np.array(valid) / 2)


def test_a_comparison_by_hand():
    # Free: two replicates that differ. Retry: they agree, and every answer is valid. A quarter can be paid for.
    free = arm([[0, 1]] * 12, 100.0, [0.5] * 12)
    retry = arm([[1, 1]] * 12, 140.0, [1.0] * 12)
    constrained = arm([[2, 2]] * 12, 110.0, [1.0] * 12)
    found = compare_at_equal_tokens(free, retry, constrained, rng=np.random.default_rng(1), resamples=200)
    assert found.share.value == pytest.approx(0.25)
    # Across the arms, under different seeds: 0–1 differs, 1–1 does not.
    mixed = 0.75**2 * 1.0 + 2 * 0.25 * 0.75 * 0.5 + 0.25**2 * 0.0
    assert found.disagreement.value == pytest.approx(-mixed)
    assert found.valid.value == pytest.approx(1 - (0.75 * 0.5 + 0.25))
    assert found.score.value == pytest.approx(found.valid.value / 2)
    assert found.unrestricted.value == 0.0
    assert (found.free_tokens, found.retry_tokens, found.constrained_tokens) == (100, 140, 110)


def answers_of(rng, right, valid, seeds):
    """0 right, 1–3 wrong."""
    shape = (len(right), seeds)
    wrong = 1 + rng.integers(3, size=shape)
    given = np.where(rng.random(shape) < right[:, None], 0, wrong)
    return np.where(rng.random(shape) < valid, given, UNREADABLE)


@pytest.mark.slow
def test_intervals_cover():
    """The constraint changes no choice, so readable answers differ as often; validity differs by what is computed."""
    rng = np.random.default_rng(8)
    valid, retried, seeds, items = 0.6, 0.84, 6, 50
    q = 15 / (100 * (1 - valid))  # a retry costs 100 tokens, the constraint 15
    truth_valid = 1 - ((1 - q) * valid + q * retried)
    hits = np.zeros(2)
    for _ in range(500):
        right = rng.beta(2, 1.5, items)
        first = rng.random((items, seeds)) < valid
        arms = []
        for chance, tokens in ((valid, 100.0), (retried, 100 + 100 * (1 - first).mean(axis=1)), (1.0, 115.0)):
            given = answers_of(rng, right, chance, seeds)
            spent = tokens + rng.normal(0, 5, items)
            arms.append(Arm(given, spent, (given >= 0).mean(axis=1), (given == 0).mean(axis=1)))
        found = compare_at_equal_tokens(*arms, rng=rng, resamples=500)
        hits += (
            found.disagreement.low <= 0 <= found.disagreement.high,
            found.valid.low <= truth_valid <= found.valid.high,
        )
    assert ((hits / 500 >= 0.93) & (hits / 500 <= 0.98)).all()


@pytest.mark.slow
def test_the_hypothesis_on_a_log(tmp_path):
    rows = []
    retrying = (*OPERATORS["C4"], "RETRY_ON_FAIL")
    for k in range(20):
        for seed in (1, 2, 3):
            common = {"item": f"{k}", "decoding": "D1", "seed": seed, "completion_tokens": 20}
            # Free: x, y and something unreadable, which a retry reads as x.
            answer = ("x", "y", None)[seed - 1]
            valid = answer is not None
            rows.append(make_row(condition="C4", answer=answer, schema_valid=valid, **common))
            tokens = 100 if valid else 460
            rows.append(
                make_row(
                    condition="C4R", operators=retrying, answer=answer or "x", prompt_tokens=tokens, **common
                )
            )
            rows.append(make_row(condition="C6", answer="x", prompt_tokens=130, **common))
    with RunTables([write_log(tmp_path / "a.jsonl", rows)], tmp_path / "tables") as tables:
        found = analyse(tables, embeddings="off").tables
    (row,) = found["constraint_vs_retry"].records()
    # Tokens 120 free, 240 with every retry, 150 constrained: a quarter of the retries.
    assert row["retries_afforded"] == pytest.approx(0.25)
    # Ordered pairs under different seeds, both readable: free 2 of 6, free and retry 4 of 6, retry 6 of 6; and differing:
    # x–y and y–x; x–y, y–x and y–x (of the retry); x–y, y–x, y–x, x–y.
    weights = 0.75**2, 2 * 0.25 * 0.75, 0.25**2
    mixed = np.dot(weights, (2, 3, 4)) / np.dot(weights, (2, 4, 6))
    assert row["disagreement_delta"] == pytest.approx(-mixed)
    assert row["validity_delta"] == pytest.approx(1 - (0.75 * 2 / 3 + 0.25))
    verdict = {finding["id"]: finding for finding in found["hypotheses"].records()}["H2R"]
    assert (verdict["verdict"], verdict["effect"]) == ("supported", pytest.approx(-mixed))
    assert (
        "An answer took 150 tokens constrained, 240 with every retry and 120 free, so 25%"
        in verdict["evidence"]
    )
    assert (
        "Against every retry that fits in the same completion limit, whatever it cost: -0.667"
        in verdict["evidence"]
    )


def test_too_few_readable_answers_are_no_test(tmp_path):
    free = arm([[0, UNREADABLE]] * 12, 100.0, [0.5] * 12)
    retry, constrained = (arm([[0, 0]] * 12, tokens, [1.0] * 12) for tokens in (140.0, 110.0))
    found = compare_at_equal_tokens(free, retry, constrained, rng=np.random.default_rng(1), resamples=200)
    assert np.isnan(found.disagreement.value)
    assert len(found.rows) == 0
    assert found.valid.value == pytest.approx(1 - (0.75 * 0.5 + 0.25))


MODEL = SIMULATED | {
    "base_accuracy": 0.6,
    "operator_effects": {},
    "json_validity": 0.6,
    "mean_completion_tokens": 8,
}


@pytest.mark.slow
def test_the_simulated_truth_is_found(tmp_path):
    profile = write_profile(
        tmp_path,
        {"sim": MODEL},
        conditions=("C4", "C4R", "C6"),
        regimes=("D1",),
        items=40,
        repro={"seeds": {"D1": list(range(1, 9))}, "seeds_per_task": {"default": 8}},
    )
    log = run_suite(load_suite(profile), quiet=True).paths.log
    with RunTables([log], tmp_path / "tables") as tables:
        (row,) = analyse(tables, embeddings="off").tables["constraint_vs_retry"].records()
    options = SimulatedOptions(base_accuracy=0.6, json_validity=0.6)
    items = sorted({row.task.item_id for row in newest_rows(log)})
    valid = json_probability(options, ())
    retried = 1 - (1 - valid) ** 3  # two retries; answers are short, so the token budget never ends them
    q = row["retries_afforded"]
    assert q == pytest.approx(
        (row["constrained_tokens"] - row["free_tokens"]) / (row["retry_tokens"] - row["free_tokens"]),
        abs=1e-9,
    )
    # A constraint that changes no choice leaves the disagreement of readable answers as it is.
    assert 38 <= row["n_items"] <= len(items) == 40
    assert row["disagreement_delta_low"] <= 0 <= row["disagreement_delta_high"]
    assert row["disagreement_delta"] == pytest.approx(0.0, abs=0.06)
    assert row["validity_delta"] == pytest.approx(1 - ((1 - q) * valid + q * retried), abs=0.06)
    assert row["unrestricted_delta"] == pytest.approx(0.0, abs=0.06)
