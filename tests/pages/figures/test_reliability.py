"""Figures of reliability: what they show, what they leave out, which regime they are of."""

from pcsuite.analysis.table import Table
from pcsuite.analysis.tables.efficiency import ABSTENTION
from pcsuite.pages.figures.declare import Facts, draw_figures


def record(decoding, **values):
    return {"task": "t", "model": "m", "decoding": decoding, "condition": "C0", **values}


def test_the_least_random_regime_is_the_one_of_lowest_temperature():
    temperature = {"a_hot": 1.0, "b_cold": 0.0}
    counts = {
        f"{what}_{items}": 2 for what in ("abstained", "answered") for items in ("unanswerable", "answerable")
    }
    rows = [record(name, recall=0.5, misuse=0.5, **counts) for name in temperature]
    (figure,) = draw_figures({"abstention": Table.of(ABSTENTION, rows)}, Facts(temperature))
    assert "under b_cold" in figure.caption


def test_abstention_is_a_matrix_for_each_condition():
    counts = {
        "abstained_unanswerable": 3,
        "answered_unanswerable": 1,
        "abstained_answerable": 0,
        "answered_answerable": 6,
    }
    rows = [record("cold", **counts) | {"condition": name} for name in ("C0", "C2", "C10")]
    (figure,) = draw_figures({"abstention": Table.of(ABSTENTION, rows)})
    assert figure.name == "abstain_confusion__t__m"
    for name in ("C0", "C2", "C10"):
        assert f"{name}, unanswerable items that were abstained: 3 of 4" in figure.svg
        assert f"{name}, answerable items that were answered: 6 of 6" in figure.svg
    assert "75%" in figure.svg


def test_the_worst_case_stands_beside_the_clean_score():
    row = {
        "worst_attack": "injection", "attacks": 2, "clean": 1.0, "clean_low": 0.9, "clean_high": 1.0,
        "worst": 0.25, "worst_low": 0.1, "worst_high": 0.5,
    }  # fmt: skip
    rows = [record(name, **row) for name in ("cold", "hot")]
    (figure,) = draw_figures({"robustness_worst_case": rows}, Facts({"cold": 0.0, "hot": 1.0}))
    assert figure.name == "robustness_worst_case__t__grid"
    assert "<title>C0, clean prompts, no attack: 1.00 [0.90, 1.00]</title>" in figure.svg
    assert "<title>C0, worst attack, injection: 0.25 [0.10, 0.50]</title>" in figure.svg
    assert "t under cold" in figure.caption
    assert "over 2 attacks" in figure.caption


def test_entropy_is_left_out_where_rows_have_disagreement_alone():
    row = record("hot", disagreement=0.5, disagreement_low=0.25, disagreement_high=0.75)
    (alone,) = draw_figures({"entropy_by_condition": [row]})
    assert "corrected" not in alone.svg
    assert ": the chance that two replicates disagree, means" in alone.caption
    (both,) = draw_figures({"entropy_by_condition": [row | {"entropy_normalised": 0.75}]})
    assert "corrected" in both.svg
    assert "bias-corrected entropy and the chance" in both.caption
    assert "<title>C0, hot: 0.75</title>" in both.svg
