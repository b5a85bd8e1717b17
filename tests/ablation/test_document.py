import math
from dataclasses import replace

from pcsuite.ablation.document import document
from pcsuite.ablation.trim import Trim, TrimStep


def test_a_step_of_trimming_has_its_difference_and_both_pairs_of_limits(ablated):
    difference = replace(ablated.verdicts[0].effect, value=0.01, low=-0.015, high=math.inf, n=100)
    simultaneous = replace(difference, low=-0.02, high=0.04)
    tone = TrimStep(
        ("tone",), difference, True, clusters=50, missing=2, simultaneous=simultaneous, most_lost=0.018
    )
    noise = TrimStep(("noise",), difference, False)
    trimmed = replace(ablated, trim=Trim(("tone", "noise"), (noise, tone), 0.02), saved_usd=math.nan)
    told = document(trimmed)["trim"]
    assert (told["chosen"], told["dropped"]) == (["tone", "noise"], ["tone"])
    assert told["saved"]["usd_per_1000"] is None  # no number: any JSON reader takes it
    assert told["steps"][1] == {
        "dropped": ["tone"], "confirmed": True, "items": 100, "clusters": 50, "missing": 2,
        "difference": 0.01, "difference_low": -0.015, "difference_high": None,
        "simultaneous_low": -0.02, "simultaneous_high": 0.04, "most_lost": 0.018,
    }  # fmt: skip
    assert told["steps"][0]["simultaneous_low"] is None


def test_without_trimming_there_is_none_and_every_arm_has_its_figures(ablated):
    told = document(replace(ablated, trim=None))
    assert told["trim"] is None
    full = told["arms"][0]
    assert (full["id"], full["items"], full["missing"]) == ("full", 200, 0)
    assert full["score"] == ablated.arms[0].score
    assert full["outcomes"] == {"answered": 200}
