"""PromptBench's side of the conversation, with stand-ins for PromptBench itself."""

import sys
from types import SimpleNamespace

import pytest

from pcsuite.integrations.promptbench.worker import ABOVE_ZERO, NothingToAttackError, run_attack

CANNED = ["Sort them well.", "Sort {these}.", "Put them in order."]


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    """The modules that the worker imports in its own environment."""
    canned = SimpleNamespace(SEMANTIC_ADV_PROMPT_SET={"parcels": {"one": CANNED[:2], "two": CANNED[2:]}})

    class Attack:
        def __init__(self, *args, **options):
            self.text, self.score = args[3], args[4]
            self.prompt_attack = SimpleNamespace(search_method=SimpleNamespace(wir_method="unk"))

        def attack(self):
            for changed in (self.text, f"{self.text} [UNK]", f"{self.text} a", f"{self.text} a b"):
                assert self.score(changed) == pytest.approx(score(changed) + ABOVE_ZERO)

    attack = SimpleNamespace(Attack=Attack, attack_config={"goal_function": {}})
    for name, module in {
        "torch": SimpleNamespace(manual_seed=lambda seed: None),
        "promptbench": SimpleNamespace(),
        "promptbench.prompts": SimpleNamespace(),
        "promptbench.prompts.semantic_atk_prompts": canned,
        "promptbench.prompt_attack": SimpleNamespace(attack=attack),
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    return attack


def score(text):
    return {"Sort parcels.": 1.0, "Sort parcels. [UNK]": 0.0}.get(text, 0.5)


def request(attack="checklist", budget=9, dataset="parcels"):
    text = "Sort parcels."
    return {
        "attack": attack,
        "text": text,
        "protected": [],
        "seed": 1,
        "budget": budget,
        "instruction": text,
        "dataset": dataset,
    }


def test_the_last_of_the_worst_is_reported_and_a_mask_is_no_attack(stand_ins):
    found = run_attack(request(), score)
    assert found == {
        "attacked": "Sort parcels. a b",
        "attacked_score": 0.5,
        "original_score": 1.0,
        "queries": 4,
        "ranking": "unk",
    }
    assert stand_ins.attack_config["goal_function"]["query_budget"] == 9


def test_a_small_budget_is_not_spent_on_ranking():
    assert run_attack(request(budget=3), score)["ranking"] == "random"


def test_canned_prompts_stand_in_for_the_instruction_within_the_budget():
    found = run_attack(request("semantic", budget=2), score)
    assert found["queries"] == 2
    assert found["attacked"] in (CANNED[0], CANNED[2])
    with pytest.raises(NothingToAttackError, match="for dataset 'letters'; it has them for parcels"):
        run_attack(request("semantic", dataset="letters"), score)
    with pytest.raises(NothingToAttackError, match="changed nothing within 1 queries"):
        run_attack(request("semantic", budget=1), score)
