"""Further scores by name: which blocks move them, by limits and with the error rate held over all of them."""

import json

import numpy as np
import pytest

import pcsuite as pcs
from pcsuite.ablation.named_scores import judge_named
from pcsuite.contrasts import ArmScores
from support.targets import program, write_study


def arms(full, **without):
    return {
        name: ArmScores(np.array(values, dtype=float), bounds=(0.0, 1.0))
        for name, values in {
            "full": full,
            **{f"-{block}": values for block, values in without.items()},
        }.items()
    }


def judged(named, blocks=("rules", "noise"), **more):
    return judge_named(named, blocks, margin=0.2, rng=np.random.default_rng(1), **more)


def test_a_block_that_moves_a_score_is_named_and_one_that_does_not_is_no_worse():
    (found,) = judged({"tone": arms([1.0] * 60, rules=[0.0] * 60, noise=[1.0] * 60)})
    assert (found.score, found.full) == ("tone", 1.0)
    assert [entry.verdict for entry in found.verdicts] == ["helps", "no worse without it"]
    assert found.records()[0]["effect"] == pytest.approx(1.0)


def test_p_is_corrected_over_all_blocks_scores_and_cells():
    lost = [0.0] * 8 + [1.0] * 52
    one = judged({"tone": arms([1.0] * 60, rules=lost, noise=[1.0] * 60)})
    more = judged({name: arms([1.0] * 60, rules=lost, noise=[1.0] * 60) for name in "abc"}, cells=2)
    alone, corrected = (found[0].verdicts[0].p_value for found in (one, more))
    assert alone == pytest.approx(2 * 2 * 0.5**8)  # sign flips of eight items, two blocks
    assert corrected == pytest.approx(6 * alone)


def test_what_no_arm_shows_is_left_out():
    assert judged({"tone": {}}) == []
    assert judged({"tone": arms([np.nan] * 60, rules=[1.0] * 60)}) == []
    (found,) = judged({"tone": arms([1.0] * 60, rules=[0.0] * 60)})
    assert [entry.block for entry in found.verdicts] == ["rules"]


@pytest.mark.slow
def test_named_scores_of_a_scorer_stand_beside_the_score(tmp_path, monkeypatch):
    monkeypatch.chdir(write_study(tmp_path))
    program(
        tmp_path,
        "score.py",
        """
        def score(answer, item):
            polite = "please" in answer
            return {"score": item["queue"] in answer, "scores": {"tone": {"score": polite, "reason": "says please"}}}
        """,
    )
    program(
        tmp_path,
        "app.py",
        """
        def answer(prompt, item):
            return item["text"].split()[-1] + (" please" if "kind" in prompt else "")
        """,
    )
    options = {"answer": "queue", "scorer": "score.py:score", "margin": 0.3, "trim": False, "quiet": True}
    found = pcs.ablate("AGENTS.md", "tickets.csv", target="app.py:answer", design="leave-one-out", **options)
    found.write()
    document = json.loads((tmp_path / "outputs/ablations/AGENTS/ablation.json").read_text())
    said = {entry["block"]: (entry["score"], entry["verdict"]) for entry in document["named_scores"]}
    assert said == {
        "tone": ("tone", "helps"),
        "rules": ("tone", "no worse without it"),
        "noise": ("tone", "no worse without it"),
    }
    assert {entry["block"]: entry["verdict"] for entry in document["verdicts"]}[
        "tone"
    ] == "no worse without it"
    words = "Score tone (1.00 with the full prompt): tone helps, +1.00 ["
    page = (tmp_path / "outputs/ablations/AGENTS/ablation.md").read_text()
    assert words in page
    assert "no worse without rules and noise alone (margin 0.3)." in page
    assert "Further scores" in (tmp_path / "outputs/ablations/AGENTS/ablation.html").read_text()
