from pcsuite.report.verdicts import verdicts


def effect(**given):
    record = {
        "task": "t", "model": "m", "decoding": "d0", "condition": "C6", "baseline": "C0", "metric": "score",
        "n_items": 40, "control": 0.31, "treated": 1.0, "delta": 0.69, "delta_low": 0.52, "delta_high": 0.8,
        "p_bh": 0.0004,
    }  # fmt: skip
    return record | given


def texts(records):
    return [(verdict.text, verdict.tone) for verdict in verdicts(records, {"d0": 0.0, "d1": 0.7})]


def test_a_gain_is_told_with_its_numbers():
    assert texts([effect(metric="json_valid")]) == [
        (
            "t, m: C6 raised JSON validity from 0.31 to 1.00 against C0 (+0.69, 95 % interval 0.52 to 0.80,"
            " 40 items, adjusted p < 0.001: holds after correction).",
            "good",
        )
    ]


def test_chance_is_called_chance():
    ((text, tone),) = texts([effect(p_bh=0.2, delta=0.05, treated=0.36)])
    assert text.startswith(
        "t, m: no condition raised the score beyond chance; the largest change is C6 raised"
    )
    assert "adjusted p 0.200: does not hold after correction" in text
    assert tone == "neutral"


def test_harm_is_told():
    best = effect(condition="C1")
    found = texts([best, effect(condition="C2", delta=-0.2, treated=0.11), effect(metric="unsupported_rate")])
    assert [tone for _, tone in found] == ["good", "bad", "bad"]
    assert "C2 lowered the score from 0.31 to 0.11" in found[1][0]
    assert "C6 raised the unsupported rate" in found[2][0]


def test_the_least_random_regime_speaks():
    found = texts([effect(), effect(decoding="d1", condition="C5")])
    assert len(found) == 1
    assert found[0][0].startswith("t, m, d0: C6 raised")


def test_cost_is_a_ratio():
    ((text, _),) = texts([effect(metric="total_tokens", control=100.0, treated=250.0, delta=150.0)])
    assert text == "t, m: against 100 tokens an answer under C0, C6 2.5 times as many."
