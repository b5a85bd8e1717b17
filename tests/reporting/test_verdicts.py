import pytest

from pcsuite.analysis.metrics import bundled_metrics
from pcsuite.reporting.verdicts import headline, overall_verdicts, verdict_groups

TEMPERATURE = {"d0": 0.0, "d1": 0.7}


def effect(**given):
    record = {
        "task": "t", "model": "m", "decoding": "d0", "condition": "C6", "baseline": "C0", "metric": "score",
        "n_items": 40, "control": 0.31, "treated": 1.0, "delta": 0.69, "delta_low": 0.52, "delta_high": 0.8,
        "p_value": 0.0001, "p_bh": 0.0004,
    }  # fmt: skip
    return record | given


def sentences(records):
    (group,) = verdict_groups(records, TEMPERATURE, bundled_metrics())
    return [(verdict.text, verdict.evidence, verdict.tone) for verdict in group.verdicts]


def test_a_gain_is_told_with_its_numbers():
    assert sentences([effect(metric="json_valid")]) == [
        (
            "C6 raised JSON validity from 0.31 to 1.00 against C0",
            "+0.69, 95 % interval 0.52 to 0.80, 40 items, adjusted p < 0.001: holds after correction",
            "good",
        )
    ]


def test_the_best_of_several_is_told_after_selection():
    chosen = {
        "task": "t", "model": "m", "decoding": "d0", "condition": "C6", "n_conditions": 7, "adjusted": 0.41,
        "adjusted_low": 0.2, "adjusted_high": 0.8,
    }  # fmt: skip
    (group,) = verdict_groups([effect()], TEMPERATURE, bundled_metrics(), best=[chosen])
    assert group.verdicts[0].evidence.endswith(
        "holds after correction; as the best of 7 it is worth +0.41 after selection, 95 % interval 0.20 to 0.80"
    )
    other = chosen | {"condition": "C5"}
    (group,) = verdict_groups([effect()], TEMPERATURE, bundled_metrics(), best=[other])
    assert group.verdicts[0].evidence.endswith("holds after correction")


def test_chance_is_called_chance():
    ((text, evidence, tone),) = sentences([effect(p_bh=0.2, delta=0.05, treated=0.36)])
    assert (
        text
        == "No condition raised the score beyond chance; at most, C6 raised it from 0.31 to 0.36 against C0"
    )
    assert "adjusted p 0.200: does not hold after correction" in evidence
    assert tone == "neutral"


def test_a_loss_that_holds_is_not_called_at_most():
    lost = [
        effect(delta=-0.1, treated=0.21, p_bh=0.001),
        effect(condition="C4", delta=-0.3, treated=0.01, p_bh=0.001),
    ]
    text, evidence, tone = sentences(lost)[0]
    assert (
        text
        == "Every condition lowered the score; the least loss: C6 lowered it from 0.31 to 0.21 against C0"
    )
    assert evidence.endswith("holds after correction")
    assert tone == "bad"
    text, evidence, tone = sentences([effect(delta=-0.1, treated=0.21, p_bh=0.4)])[0]
    assert text == "Every condition lowered the score; C6 lowered it from 0.31 to 0.21 against C0"
    assert evidence.endswith("does not hold after correction")
    assert tone == "neutral"


def test_harm_is_told():
    records = [
        effect(condition="C1"),
        effect(condition="C2", delta=-0.2, treated=0.11),
        effect(metric="unsupported_rate"),
    ]
    found = sentences(records)
    assert [tone for _, _, tone in found] == ["good", "bad", "bad"]
    assert found[1][0] == "C2 lowered the score from 0.31 to 0.11 against C0"
    assert found[2][0] == "C6 raised the unsupported rate from 0.31 to 1.00 against C0"


def test_validity_is_told_of_the_constrained_condition():
    records = [effect(metric="json_valid", condition="mine", delta=0.2), effect(metric="json_valid")]
    (group,) = verdict_groups(records, TEMPERATURE, bundled_metrics(), constrained={"mine"})
    assert [verdict.text.split()[0] for verdict in group.verdicts] == ["mine"]
    assert sentences(records)[0][0].startswith("C6 raised")


def test_the_least_random_regime_speaks():
    (group,) = verdict_groups(
        [effect(), effect(decoding="d1", condition="C5")], TEMPERATURE, bundled_metrics()
    )
    assert group.decoding == "d0"
    assert [verdict.text.split()[0] for verdict in group.verdicts] == ["C6"]


def test_cost_is_a_ratio():
    ((text, _, _),) = sentences(
        [effect(metric="total_tokens", control=100.0, treated=250.0, delta=150.0, p_bh=None)]
    )
    assert text == "Tokens per answer: 100 under C0; C6 2.5× that many"


@pytest.mark.parametrize(("others", "named"), [(2, True), (5, False)])
def test_the_headline_stays_one_sentence(others, named):
    records = [effect(model=f"m{k}", delta=0.2, p_bh=0.01) for k in range(3)]
    records += [
        effect(model=f"m{k}", condition=f"D{number}", delta=-0.1, p_bh=0.01)
        for k in range(3)
        for number in range(others)
    ]
    said = headline(records, TEMPERATURE, bundled_metrics())
    assert said.startswith("C6 improved the score on 3 of 3 task–model pairs")
    assert ("Others: D0 worse on 3 of 3" in said) is named


def test_the_overview_counts_pairs():
    records = [effect(model=f"m{k}", delta=0.1 * k, p_bh=0.01 if k > 1 else 0.5) for k in range(1, 4)]
    records += [
        effect(model=f"m{k}", condition="C1", delta=-0.1, p_bh=0.01 if k == 1 else 0.5) for k in range(1, 4)
    ]
    (verdict,) = overall_verdicts(records, TEMPERATURE, bundled_metrics())
    assert (
        verdict.text
        == "C6 improved the score on 2 of 3 task–model pairs (after correction), by +0.20 in the median"
    )
    assert verdict.evidence == "Others: C1 worse on 1 of 3 (-0.10)"
    assert verdict.tone == "neutral"


def test_one_pair_needs_no_overview():
    assert overall_verdicts([effect()], TEMPERATURE, bundled_metrics()) == []


def test_the_headline_has_limits_that_hold_for_the_whole_family():
    records = [
        effect(joint_low=0.4, joint_high=0.9, family_size=7, n_clusters=12),
        effect(condition="C1", delta=0.01, p_bh=0.8),
    ]
    words = headline(records, TEMPERATURE, bundled_metrics())
    assert words == (
        "C6 raised the score from 0.31 to 1.00 against C0 (+0.69, 95 % +0.40 to +0.90 for all 7 contrasts at once,"
        " 40 items in 12 clusters)."
    )
    ((_, evidence, _),) = sentences(records[:1])
    assert evidence == (
        "+0.69, 95 % interval 0.40 to 0.90 for all 7 contrasts at once, 40 items in 12 clusters, adjusted p < 0.001:"
        " holds after correction"
    )


def test_what_sign_flips_alone_show_is_told_with_its_clause():
    clause = "unless rare large opposite cases exist"
    record = effect(p_value=0.09, p_bh=0.09, p_symmetric_bh=0.01, clause=clause, delta=0.1, treated=0.41)
    assert f"{clause}; whatever the shape of the differences no change is shown." in headline(
        [record], TEMPERATURE, bundled_metrics()
    )
    ((text, evidence, tone),) = sentences([record])
    assert text.startswith("No condition raised the score beyond chance")
    assert evidence.endswith(f"whatever the shape of the differences, but does {clause}")
    assert tone == "neutral"


def test_too_few_clusters_are_told_as_the_reason():
    reason = "not tested: 4 clusters, at least 6 are needed"
    record = effect(p_value=None, p_bh=None, caution=reason, delta_low=None, delta_high=None, n_clusters=4)
    assert headline([record], TEMPERATURE, bundled_metrics()) == f"Effects were {reason}."
    ((_, evidence, _),) = sentences([record])
    assert evidence.endswith(f"40 items in 4 clusters, adjusted p n/a: {reason}")


FORMAL = {"form": "the form, not the answer", "lenient_delta": -0.03, "lenient_p_bh": 0.6}


def test_the_headline_names_what_holds_under_both_readings():
    formal = effect(condition="C3", delta=0.8, treated=0.95, control=0.15, **FORMAL)
    sure = effect(condition="C4", delta=0.2, treated=0.51, form=None, lenient_delta=0.18, lenient_p_bh=0.01)
    told = headline([formal, sure], TEMPERATURE, bundled_metrics())
    assert told.startswith("C4 raised the score from 0.31 to 0.51 against C0 (+0.20")
    assert told.endswith(
        "; C3 raised it from 0.15 to 0.95 against C0: the form, not the answer (+0.80 strictly read, -0.03 leniently)."
    )


def test_the_headline_says_where_nothing_holds_under_both_readings():
    told = headline([effect(**FORMAL)], TEMPERATURE, bundled_metrics())
    assert told == (
        "No condition moved the score under both readings of the answers; C6 raised it from 0.31 to 1.00 against C0"
        " (95 % +0.52 to +0.80, 40 items): the form, not the answer (+0.69 strictly read, -0.03 leniently)."
    )
    # Signs that differ where neither reading holds are told beside the number, and make no headline.
    weak = effect(p_bh=0.4, delta=0.02, **FORMAL)
    assert "beyond chance" in headline([weak], TEMPERATURE, bundled_metrics())


def test_a_gain_of_the_form_is_no_good_news():
    ((text, evidence, tone),) = sentences([effect(**FORMAL)])
    assert text.startswith(
        "No condition raised the score under both readings of the answers; at most, C6 raised it"
    )
    assert evidence.endswith("the form, not the answer (+0.69 strictly read, -0.03 leniently)")
    assert tone == "neutral"
    best, beside = sentences([effect(**FORMAL), effect(condition="C4", delta=0.2, treated=0.51)])
    assert (best[0], best[2]) == ("C4 raised the score from 0.31 to 0.51 against C0", "good")
    assert beside[0] == "C6 raised the score from 0.31 to 1.00 against C0: the form, not the answer"


def test_over_several_models_effects_of_the_form_do_not_count():
    rows = [effect(model=name, **FORMAL) for name in ("a", "b")]
    told = headline(rows, TEMPERATURE, bundled_metrics())
    assert told == (
        "No condition moved the score beyond chance on any of 2 task–model pairs"
        " (on 2 further effects the form, not the answer)."
    )
