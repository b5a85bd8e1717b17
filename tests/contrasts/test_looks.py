import numpy as np
import pytest

from pcsuite.contrasts import ArmScores, Contrast, Family, judge_look, judge_planned_look, unbiased_at_stop
from pcsuite.errors import AnalysisError
from pcsuite.stats import Estimate, StoppingRule, anytime_p, confidence_sequence, stopped_mean
from pcsuite.stats.planned_looks import spending_shares
from pcsuite.stats.sequential import SHARES

AGAINST = Contrast.of("new", "old")


def sides(new, old, bounds=(0, 1)):
    return {
        "new": ArmScores(np.array(new, float), bounds=bounds),
        "old": ArmScores(np.array(old, float), bounds=bounds),
    }


def test_a_look_is_the_confidence_sequence_at_the_familys_level():
    new, old = np.array([1.0, 1, 0, 1] * 10), np.array([0.0, 1, 0, 0] * 10)
    look = judge_look(sides(new, old), AGAINST, Family("bonferroni", size=4))
    reference = confidence_sequence(new - old, level=1 - 0.05 / 4, looks=[40])
    assert (look.estimate.low, look.estimate.high) == (reference.low[-1], reference.high[-1])
    assert (look.estimate.value, look.estimate.level, look.estimate.n) == (0.5, 0.9875, 40)
    assert look.p_value == anytime_p(new - old)
    assert look.verdict == "better"


def test_limits_never_widen_from_one_look_to_the_next():
    earlier = (Estimate(0.2, 0.05, 0.3), 0.001)
    look = judge_look(sides([1, 0, 1, 0], [0, 1, 0, 1]), AGAINST, Family("none"), earlier=earlier)
    assert (look.estimate.low, look.estimate.high, look.p_value) == (0.05, 0.3, 0.001)
    assert look.verdict == "better"


def test_wide_scales_and_less_is_better():
    new, old = np.full(30, 1.0), np.full(30, 5.0)
    look = judge_look(
        sides(new, old, (1, 5)), Contrast.of("new", "old", better=-1), Family("none", margin=0.5)
    )
    assert look.verdict == "better"
    assert look.no_worse
    assert look.estimate.low >= -4
    assert judge_look(sides(new, old, (1, 5)), AGAINST, Family("none", margin=0.5)).no_worse is False


def test_equal_arms_are_equivalent_within_a_margin_only():
    arms = sides(np.ones(200), np.ones(200))
    assert judge_look(arms, AGAINST, Family("none", margin=0.1)).verdict == "equivalent"
    assert judge_look(arms, AGAINST, Family("none")).verdict == "undecided"


def test_what_cannot_be_looked_at():
    assert judge_look(sides([np.nan], [1]), AGAINST, Family("none")) is None
    with pytest.raises(AnalysisError, match="cannot be corrected by holm"):
        judge_look(sides([1], [1]), AGAINST, Family("holm"))
    with pytest.raises(AnalysisError, match="bounded"):
        judge_look(sides([1], [1], None), AGAINST, Family("none"))
    with pytest.raises(AnalysisError, match="bounded"):
        judge_look(sides([1], [1]), Contrast.of("new", "old", better=None), Family("none"))


def test_copies_are_bet_on_once():
    texts, labels = np.array([1.0, 0, 1, 1, 0, 1] * 4), np.repeat(np.arange(24), 5)
    once = judge_look(sides(texts, np.zeros(24)), AGAINST, Family("none", margin=0.05))
    copies = judge_look(
        {
            name: ArmScores(np.repeat(values, 5), bounds=(0, 1), clusters=labels)
            for name, values in (("new", texts), ("old", np.zeros(24)))
        },
        AGAINST,
        Family("none", margin=0.05),
    )
    assert copies.p_value == pytest.approx(once.p_value)
    assert (copies.estimate.low, copies.estimate.high) == pytest.approx(
        (once.estimate.low, once.estimate.high)
    )
    assert copies.estimate.method == "confidence sequence, 24 clusters"


def test_a_cluster_counts_by_its_size_up_to_that_of_a_random_item():
    """Sizes 1, 1 and 2: a random item stands in one of 1.5 on average, so the bets are 2/3, 2/3 and 1."""
    labels, values = np.array([0, 1, 2, 2]), np.array([1.0, 0.0, 1.0, 0.0])
    found = anytime_p(values, clusters=labels)
    capital = np.mean([(1 + share * 2 / 3) * (1 + share / 2) for share in SHARES])
    assert found == pytest.approx(min(1.0, 2 / capital))


def test_the_mean_at_an_early_stop_is_that_of_all_orders_that_stop_there():
    new = np.array([0.0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    rule = StoppingRule(batch=5)
    found = unbiased_at_stop(sides(new, np.zeros(20)), AGAINST, rule, rng=np.random.default_rng(0))
    assert found == stopped_mean(new, rule, rng=np.random.default_rng(0))
    assert unbiased_at_stop(sides([np.nan], [1.0]), AGAINST, rule, rng=np.random.default_rng(0)) is None


# Looks that were planned.

PARTS = spending_shares([0.25, 0.5, 0.75, 1.0]).tolist()


def planned_looks(treated, control, *, rng, margin=0.1, size=4, clusters=None, assume="nothing"):
    """All four looks at two arms, as far as they go."""
    taken = []
    for number in range(1, 5):
        seen = slice(0, len(treated) * number // 4)
        sides = {
            name: ArmScores(
                values[seen], bounds=(0, 1), clusters=None if clusters is None else clusters[seen]
            )
            for name, values in (("new", treated), ("old", control))
        }
        look = judge_planned_look(
            sides,
            Contrast.of("new", "old"),
            Family("bonferroni", margin=margin, size=size, assume=assume),
            shares=PARTS[:number],
            fraction=number / 4,
            rng=rng,
            earlier=taken,
        )
        taken.append(look)
        if look.verdict in ("better", "worse") or look.hopeless:
            break
    return taken


def test_a_clear_loss_is_shown_before_the_items_end():
    rng = np.random.default_rng(1)
    control = (rng.random(120) < 0.9).astype(float)
    taken = planned_looks((rng.random(120) < 0.3).astype(float), control, rng=rng)
    assert taken[-1].verdict == "worse"
    assert len(taken) < 4
    assert taken[-1].estimate.high < 0
    assert taken[-1].moved is not None


def test_looks_at_graded_scores_and_at_clusters_have_their_part_each():
    rng = np.random.default_rng(2)
    control, treated = rng.random(200) * 0.3, rng.random(200) * 0.3 + 0.6
    graded = planned_looks(treated, control, rng=rng)
    assert graded[-1].verdict == "better"
    assert all(look.moved is None for look in graded)
    copies = np.repeat(np.arange(40), 5)
    binary = (np.repeat(rng.random(40), 5) < 0.5).astype(float)
    related = planned_looks(np.ones(200), binary, rng=rng, clusters=copies)
    assert related[-1].verdict == "better"
    assert all(look.moved is None for look in related)


def test_what_changes_nothing_is_no_worse_and_what_cannot_be_told_is_given_up():
    rng = np.random.default_rng(3)
    same = (rng.random(400) < 0.6).astype(float)
    taken = planned_looks(same, same, rng=rng, margin=0.05)
    assert taken[-1].verdict in ("no worse", "equivalent")
    assert taken[-1].no_worse
    noisy = [(rng.random(80) < 0.5).astype(float) for _ in range(2)]
    given_up = planned_looks(*noisy, rng=rng, margin=0.01)
    assert given_up[-1].verdict == "undecided"
    assert len(given_up) < 4


def false_claims(draw, studies, *, loss=0.0, margin=0.1, **more):
    """Studies that say of a change without effect that it is better or worse; or of a loss that it is no worse."""
    false = 0
    for number in range(studies):
        rng = np.random.default_rng([7, number])
        *sides, clusters = draw(rng)
        last = planned_looks(*sides, rng=rng, size=1, margin=margin, clusters=clusters, **more)[-1].verdict
        false += last in (("no worse", "equivalent", "better") if loss else ("better", "worse"))
    return false / studies


def independent(rng, change=0.0):
    ability = rng.random(160)
    sides = [(rng.random(160) < np.clip(ability + shift, 0, 1)).astype(float) for shift in (change, 0.0)]
    return *sides, None


def in_clusters(rng):
    """Forty texts, four times each, whose copies answer alike."""
    sides = [np.repeat((rng.random(40) < 0.6).astype(float), 4) for _ in range(2)]
    return *sides, np.repeat(np.arange(40), 4)


def lopsided(rng):
    """Gains of 0.5 on 4 % of the items, losses of about 0.02 on the others: a mean of 0, and sign flips are fooled."""
    gains = np.where(rng.random(160) < 0.04, 0.5, -0.5 * 0.04 / 0.96)
    return 0.4 + gains, np.full(160, 0.4), None


@pytest.mark.parametrize("draw", [independent, in_clusters, lopsided])
def test_false_findings_are_held_over_all_looks(draw):
    """At most 5 % are allowed; of 300 studies 8.8 % are three standard errors more."""
    assert false_claims(draw, 300) <= 0.088


def test_a_loss_of_the_margin_is_called_no_worse_in_few_studies():
    assert false_claims(lambda rng: independent(rng, change=-0.2), 300, loss=0.2, margin=0.15) <= 0.088


def test_only_families_that_share_their_level_can_be_looked_at():
    sides = {"new": ArmScores(np.ones(9)), "old": ArmScores(np.zeros(9))}
    with pytest.raises(AnalysisError, match="bonferroni"):
        judge_planned_look(
            sides,
            Contrast.of("new", "old"),
            Family("holm"),
            shares=[1.0],
            fraction=1.0,
            rng=np.random.default_rng(0),
        )


def test_looks_that_could_not_show_no_worse_leave_their_part_of_the_error_to_the_next():
    """100 items that all stay as they are, margin 0.05: a look of n items needs 0.95ⁿ below its part of 5 %.

    Only the last can: 0.95⁷⁵ = 0.021 is more than 0.05 · 0.422. It then has all of it, and 0.95¹⁰⁰ = 0.006.
    """
    from pcsuite.contrasts.looks import _share_of_margin

    family, seen = Family("bonferroni", margin=0.05), [25, 50, 75, 100]
    parts = [_share_of_margin(PARTS[:look], seen[:look], family) for look in (1, 2, 3, 4)]
    assert parts[:2] == [0.0, 0.0]
    assert sum(parts) == pytest.approx(1.0)
    assert _share_of_margin(PARTS, [], family) == PARTS[-1]
    assert _share_of_margin(PARTS, seen, Family("bonferroni")) == 0.0
