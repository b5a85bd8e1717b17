"""Intervals and corrected p-values against the truth that the simulated provider is given.

Outcomes are drawn by the provider's own function, as a run draws them, so what is tested is the whole claim:
"the effects set in YAML are inside the 95 % intervals of the report 95 times in 100".
"""

import numpy as np
import pytest
from simulated_truth import true_accuracy, true_effect

from pcsuite.engines.adapters.base import CallContext, Decoding, Request
from pcsuite.engines.adapters.simulated import SimulatedAdapter, SimulatedOptions
from pcsuite.stats.bootstrap import bootstrap_mean, paired_bootstrap
from pcsuite.stats.permutation import benjamini_hochberg, sign_flip_test
from support.drawing import draw

pytestmark = pytest.mark.slow

TASK = "agnews_json"
RIGHT, WRONG = '{"label": "World"}', '{"label": "Sports"}'
OPTIONS = SimulatedOptions(
    base_accuracy=0.45,
    operator_effects={"HELPS": 1.8, "HURTS": -0.6},
    item_difficulty_sd=2.0,
    seed_noise_sd=0.5,
    json_validity=0.9,
    json_effects={"HELPS": 0.5},
    abstain_rate=0.02,
)

CONDITIONS = {
    "C0": (), "good": ("HELPS",), "bad": ("HURTS",), "null1": ("A",), "null2": ("B",), "null3": ("A", "B"),
}  # fmt: skip
NULLS = [name for name in CONDITIONS if name.startswith("null")]
REPETITIONS, ITEMS, SEEDS = 640, 32, 2
MORE_SEEDS = 5
"""Of the control, to show what replicates do to an analysis of rows."""


def draw_scores(model: SimulatedAdapter, study: int, condition: str) -> np.ndarray:
    """Scores of one condition in one study, items by seeds."""
    decoding = Decoding("d1", temperature=0.7, top_p=0.95, max_tokens=80)
    scores = np.empty((ITEMS, MORE_SEEDS if condition == "C0" else SEEDS))
    for item, row in enumerate(scores):
        context = CallContext(
            TASK,
            f"{study}/{item}",
            condition,
            CONDITIONS[condition],
            "none",
            lambda: RIGHT,
            lambda _: WRONG,
        )
        for seed in range(len(row)):
            row[seed] = draw(model, Request("p", decoding, seed, None, context))["text"] == RIGHT
    return scores


@pytest.fixture(scope="module")
def studies():
    """Scores of each study by condition."""
    model = SimulatedAdapter("sim", OPTIONS)
    return [{name: draw_scores(model, study, name) for name in CONDITIONS} for study in range(REPETITIONS)]


def deltas(study: dict[str, np.ndarray], condition: str) -> np.ndarray:
    """Per item, the condition less the control, at the same number of seeds."""
    return study[condition].mean(axis=1) - study["C0"][:, :SEEDS].mean(axis=1)


def rng_of(study: int) -> np.random.Generator:
    return np.random.default_rng([20, study])


def test_intervals_of_effects_cover_the_truth(studies):
    for condition in ("good", "bad", "null1"):
        truth = true_effect(OPTIONS, TASK, CONDITIONS[condition])
        estimates = [
            paired_bootstrap(deltas(study, condition), rng=rng_of(place), resamples=400)
            for place, study in enumerate(studies)
        ]
        covered = np.mean([estimate.low <= truth <= estimate.high for estimate in estimates])
        assert 0.93 <= covered <= 0.97, condition


def test_item_by_seed_rows_are_not_independent(studies):
    """The interval of a condition's accuracy: right with items as the unit, far too short with rows."""
    truth = true_accuracy(OPTIONS, TASK, CONDITIONS["C0"])
    ours = naive = 0
    for place, study in enumerate(studies):
        estimate = bootstrap_mean(study["C0"].mean(axis=1), rng=rng_of(place), resamples=400)
        ours += estimate.low <= truth <= estimate.high
        rows = bootstrap_mean(study["C0"].ravel(), rng=rng_of(place))
        naive += rows.low <= truth <= rows.high
    assert 0.93 <= ours / REPETITIONS <= 0.97
    assert naive / REPETITIONS < 0.85


def test_false_discoveries_stay_below_the_nominal_rate(studies):
    """Benjamini–Hochberg at 5 %, among two true effects and three conditions that do nothing."""
    names = [name for name in CONDITIONS if name != "C0"]
    proportions, alarms, found = [], 0, 0
    for place, study in enumerate(studies):
        p_values = {name: sign_flip_test(deltas(study, name), rng=rng_of(place)).p_value for name in names}
        adjusted = dict(zip(names, benjamini_hochberg(list(p_values.values())), strict=True))
        reported = {name for name, value in adjusted.items() if value <= 0.05}
        proportions.append(len(reported & set(NULLS)) / max(1, len(reported)))
        found += "good" in reported
        # With nothing to find every discovery is false, so the chance of one is the false-discovery rate.
        alarms += min(benjamini_hochberg([p_values[name] for name in NULLS])) <= 0.05
    sampling_error = 2 * np.sqrt(0.05 * 0.95 / REPETITIONS)
    assert np.mean(proportions) <= 0.05 + sampling_error
    assert alarms / REPETITIONS <= 0.05 + sampling_error
    assert found / REPETITIONS > 0.5
