import pytest

from pcsuite.verifier.scores import Counts, paired_difference, pool_evals


def test_metrics_worked_out_by_hand():
    # TP 6; FP = 1 + 2 + 1 = 4; FN = 3 + 2 + 1 = 6; P = 6/10, R = 6/12, F1 = 12/22
    counts = Counts(6, {"omission": 3, "hallucination": 1, "format_error": 2, "wrong_value": 1})
    metrics = counts.as_dict()
    assert (metrics["true_positives"], metrics["false_positives"], metrics["false_negatives"]) == (6, 4, 6)
    assert (metrics["total_fields_gt"], metrics["total_fields_extracted"], metrics["correct_fields"]) == (
        12,
        10,
        6,
    )
    assert metrics["precision"] == pytest.approx(0.6)
    assert metrics["recall"] == pytest.approx(0.5)
    assert metrics["f1"] == pytest.approx(12 / 22)


def test_nothing_of_nothing_is_zero():
    assert (Counts().precision, Counts().recall, Counts().f1) == (0, 0, 0)


def test_macro_and_micro():
    small, large = Counts(1, {"omission": 1}), Counts(98, {"omission": 2})
    pooled = pool_evals([small, large])
    # F1 = 2/3 and 196/198; pooled TP 99, FN 3
    assert pooled.macro_f1 == pytest.approx((2 / 3 + 196 / 198) / 2)
    assert pooled.micro_f1 == pytest.approx(198 / 201)
    assert pooled.macro_interval[0] == pytest.approx(2 / 3)
    assert pooled.macro_interval[1] == pytest.approx(196 / 198)


def test_one_eval_has_no_interval():
    assert pool_evals([Counts(matches=1)]).macro_interval is None
    assert pool_evals([]).macro_f1 == 0


def test_intervals_repeat():
    counts = [Counts(k, {"omission": 10 - k}) for k in range(1, 10)]
    assert pool_evals(counts) == pool_evals(counts)
    assert (
        pool_evals(counts).macro_interval[0]
        < pool_evals(counts).macro_f1
        < pool_evals(counts).macro_interval[1]
    )


def test_paired_difference():
    mean, interval = paired_difference([0.5, 0.6, 0.7], [0.6, 0.7, 0.8])
    assert mean == pytest.approx(0.1)
    assert interval[0] == pytest.approx(0.1)
    assert interval[1] == pytest.approx(0.1)


def test_a_worsened_eval_pulls_the_interval_below_no_change():
    # means of two draws from {-0.2, 0.4}: both ends are draws of one eval twice (probability 1/4 each)
    assert paired_difference([0.5, 0.5], [0.3, 0.9]) == (pytest.approx(0.1), pytest.approx((-0.2, 0.4)))


def test_one_eval_changes_without_an_interval():
    assert paired_difference([0.5], [0.75]) == (0.25, None)
