"""Whether a rule is followed with its block and without it, and what is said of it; what dropping saves in a year."""

import numpy as np
import pytest

from pcsuite.ablation.adherence import judge_adherence
from pcsuite.ablation.savings import yearly_savings
from pcsuite.ablation.verdicts import BlockVerdict
from pcsuite.contrasts import ArmScores
from pcsuite.stats.estimate import Estimate, undefined

FREE = ["naming", "tone", "tests"]


def shares(full, without, n=100, **more):
    sides = [
        ArmScores(np.array([1.0] * round(n * share) + [0.0] * (n - round(n * share))), **more)
        for share in (full, without)
    ]
    return {"naming": {"full": sides[0], "-naming": sides[1]}}


def judged(checked, **options):
    settings = {
        "margin": 0.1,
        "rng": np.random.default_rng(1),
        "missing": "bound",
        "comparisons": 1,
    } | options
    (found,) = judge_adherence({"naming": "true"}, checked, FREE, **settings)
    return found


@pytest.mark.parametrize(
    ("full", "without", "words"),
    [
        (1.0, 0.4, "followed 100 % with, 40 % without: followed because the block is there"),
        (1.0, 0.98, "followed 100 % with, 98 % without: the system does so anyway"),
        (0.2, 0.8, "followed 20 % with, 80 % without: followed less where the block is there"),
        (
            0.3,
            0.3,
            "followed 30 % with, 30 % without: the rule is seldom followed, with the block or without it",
        ),
        (0.05, 0.0, "followed 5 % with, 0 % without: the rule is not followed"),
    ],
)
def test_what_is_said(full, without, words):
    assert judged(shares(full, without)).words == words


def test_few_items_leave_it_undecided():
    found = judged(shares(1.0, 0.9, n=10))
    assert found.verdict.verdict == "undecided"
    assert found.words.endswith("whether the block makes the difference is undecided")


def test_missing_calls_can_undo_a_claim_and_are_counted():
    checked = shares(1.0, 1.0)
    lost = np.array([0.0] * 70 + [1.0] * 30)
    full = checked["naming"]["full"]
    values = np.where(lost > 0, np.nan, full.values)
    checked["naming"]["full"] = ArmScores(values, failed=lost, bounds=(0.0, 1.0))
    checked["naming"]["-naming"] = ArmScores(np.ones(100), failed=np.zeros(100), bounds=(0.0, 1.0))
    found = judged(checked)
    assert (found.items, found.verdict.missing) == (70, 30)
    assert found.verdict.verdict != "helps"


def test_nothing_is_claimed_where_items_were_chosen_by_the_score_or_none_was_checked():
    assert judged(shares(1.0, 0.0), tested=False).words.endswith(
        "not tested: the items were chosen by the score (--until)"
    )
    assert judged({}).words == "not one answer was checked with and without it"
    assert judged({}).record()["with"] is None


def verdict(block, said):
    return BlockVerdict(block, said, undefined("x", 0), 1.0, None, False, None)


def test_savings_of_a_year():
    cost = {name: Estimate(2.0, 1.0, 3.0, 0.95, 20, "t") for name in FREE}
    said = [
        verdict("naming", "helps"),
        verdict("tone", "no worse without it"),
        verdict("tests", "no worse without it"),
    ]
    cost["tests"] = undefined("no price", 0)
    # 1,000 calls a day are 365 thousand a year, at two dollars a thousand.
    assert [(one.what, one.usd, one.low, one.high) for one in yearly_savings(1000, said, cost, 4.0)] == [
        ("tone", 730.0, 365.0, 1095.0),
        ("the trimmed prompt", 1460.0, 1460.0, 1460.0),
    ]
    assert yearly_savings(1000, said[:1], cost, None) == []
