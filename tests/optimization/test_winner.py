"""The winner, the luck in it, and what operators are worth."""

import numpy as np
import pytest

from pcsuite.config.operator_definitions import OperatorSpec
from pcsuite.errors import AnalysisError
from pcsuite.optimization.problem import Candidate, CandidateScore
from pcsuite.optimization.winner import best_score, judge_winner, operator_effects, selection_optimism
from pcsuite.prompts.compiled import BlockChoice, CompiledPrompt
from pcsuite.stats.objective import ItemParts, Objective

J = Objective()


def made(candidate, task, *, complete=True, crashed=False, cost=0.0):
    size = len(task)
    parts = ItemParts(
        tuple(str(n) for n in range(size)),
        np.asarray(task, dtype=float),
        np.full(size, np.nan),
        np.zeros(size),
        np.full(size, cost),
    )
    value = J.worst if crashed else J.value(parts.parts())
    return CandidateScore(candidate, J, value, parts.parts(), parts, 2, complete, crashed=crashed)


def text(number):
    return Candidate.of_text(f"{number} {{{{input}}}}", method="ape")


def blocks(*names):
    spec = OperatorSpec(type="block", template="x")
    return Candidate(CompiledPrompt(blocks=tuple(BlockChoice(name, 0, spec) for name in names)), "blocks")


def test_a_crash_never_wins_and_partial_scores_do_not_count():
    bad = made(text(0), [0.0, 0.0], cost=20.0)  # J = -2, below that of a crash
    crash = made(text(1), [1.0, 1.0], crashed=True)
    partial = made(text(2), [1.0], complete=False)
    assert bad.value < crash.value
    assert best_score([crash, bad, partial]) is bad
    assert (crash.rescaled, bad.rescaled) == (0.0, 0.0)
    with pytest.raises(AnalysisError, match="every development item"):
        best_score([partial])


def test_of_equals_the_cheaper_wins():
    # J is 0.5 for both: all of it task score, or 0.75 of it with 2.5 budgets of tokens at 0.1 each.
    dear, cheap = made(text(0), [0.75, 0.75], cost=2.5), made(text(1), [0.5, 0.5], cost=0.0)
    assert dear.value == cheap.value
    assert best_score([dear, cheap]) is cheap


def test_the_optimism_of_choosing_among_equals_is_found():
    rng = np.random.default_rng(7)
    gaps, corrected = [], []
    for _ in range(40):
        rivals = [made(text(n), (rng.random(60) < 0.5).astype(float)) for n in range(12)]
        winner = best_score(rivals)
        optimism = selection_optimism(rivals, rng, 200)
        gaps.append(winner.value - 0.5)
        corrected.append(winner.value - optimism - 0.5)
    # The best of 12 means of 60 coin tosses lies 1.63 standard errors (0.0645) up: 0.105 on average.
    assert np.mean(gaps) == pytest.approx(0.105, abs=0.02)
    assert abs(np.mean(corrected)) < np.mean(gaps) / 2


def test_one_candidate_leaves_nothing_to_choose():
    assert selection_optimism([made(text(0), [1, 0, 1])], np.random.default_rng(0)) == 0.0


def test_the_gain_is_paired_with_the_baseline():
    baseline = made(text(0), [0, 0, 1, 0, 1, 0, 0, 1, 0, 0])
    better = made(text(1), [1, 0, 1, 1, 1, 0, 1, 1, 0, 0])
    winner = judge_winner([better], baseline, np.random.default_rng(0))
    assert winner.score is better
    assert winner.gain.value == pytest.approx(0.3)
    assert winner.value.low < 0.6 < winner.value.high


def test_the_ledger_recovers_additive_effects():
    rng = np.random.default_rng(11)
    effects = {"A": 0.3, "B": -0.2, "C": 0.0}
    scores = []
    for held in ((), ("A",), ("B",), ("C",), ("A", "B"), ("A", "C"), ("B", "C"), ("A", "B", "C")):
        mean = 0.4 + sum(effects[name] for name in held)
        scores.append(made(blocks(*held), mean + rng.normal(0, 0.05, 200)))
    ledger = {entry["operator"]: entry for entry in operator_effects(scores, np.random.default_rng(0))}
    for name, effect in effects.items():
        assert ledger[name]["effect_J"] == pytest.approx(effect, abs=0.01)
    assert [ledger[name]["earns_its_tokens"] for name in "AB"] == ["yes", "no"]
    assert ledger["A"]["candidates"] == 4


def test_operators_that_always_come_together_are_unclear():
    scores = [made(blocks(), [0.0] * 20), made(blocks("A", "B"), [1.0] * 20)]
    ledger = operator_effects(scores, np.random.default_rng(0))
    assert [entry["earns_its_tokens"] for entry in ledger] == ["unclear", "unclear"]
    assert operator_effects([made(text(0), [1.0])], np.random.default_rng(0)) == []
