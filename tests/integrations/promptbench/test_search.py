"""Attacked prompts searched on development items, logged as perturbations, and searched once."""

import csv
import json

import pytest

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.data.items import SAMPLES, read_items
from pcsuite.integrations.promptbench import search
from pcsuite.integrations.promptbench.attacks import SEPARATOR, AttackNotApplicableError
from pcsuite.integrations.promptbench.block import plan_promptbench
from pcsuite.integrations.promptbench.search import (
    attacked_perturber,
    find_attacks,
    search_items,
    target_of,
    with_attacks,
)
from pcsuite.logging.log import iter_rows
from support.profiles import SIMULATED, write_profile


@pytest.mark.usefixtures("promptbench_environment")
def test_attacked_prompts_are_logged_as_perturbations_and_searched_once(tmp_path, capsys):
    block = {
        "attack_types": ["promptbench:checklist", "promptbench:stresstest", "promptbench:semantic"],
        "tasks": ["csqa_json"],
        "conditions_subset": ["C0", "C4"],
        "query_budget": 5,
        "search_items": 2,
        "max_items": 3,
    }
    path = write_profile(
        tmp_path, {"sim": SIMULATED}, tasks=("csqa_json",), integrations={"promptbench": block}
    )
    assert main(["promptbench", "--quiet", "--config", str(path)]) == 0
    told = capsys.readouterr().out
    assert "checklist × C4 × csqa_json × sim:" in told
    assert "semantic × C0 × csqa_json × sim: not applicable: semantic has no canned prompts" in told
    log = tmp_path / "outputs" / "runs" / "t.jsonl"
    rows = list(iter_rows(log))
    assert len(rows) == 3 * 2 * 3
    stored = json.loads(log.with_suffix(".attacks.json").read_text())
    assert len(stored) == 4
    logged = {(row.condition.id, row.perturbation.type, row.perturbation.id) for row in rows}
    for record in stored.values():
        ref = record["perturbation"]
        assert ref["id"].startswith(f"promptbench:{record['attack']}-")
        assert (record["condition"], ref["type"], ref["id"]) in logged
        assert record["parts"] != record["original"]
    with (tmp_path / "outputs" / "tables" / "robustness_by_attack.csv").open() as stream:
        for row in csv.DictReader(stream):
            clean = float(row["clean"])
            wanted = 1 - float(row["attacked"]) / clean if clean else None
            assert (float(row["drop_rate"]) if row["drop_rate"] else None) == pytest.approx(wanted)
    assert main(["promptbench", "--quiet", "--config", str(path)]) == 0
    told = capsys.readouterr().out
    assert "queries" not in told
    assert "18 were done before" in told
    assert len(list(iter_rows(log))) == 18


REQUESTS = []


class StubWorker:
    """Stands in for PromptBench: asks for two scores and appends a word to the last part."""

    async def attack(self, request, score):
        REQUESTS.append(request)
        if request.attack == "semantic":
            raise AttackNotApplicableError("nothing to change")
        attacked = request.text + " really"
        original = await score(request.text)
        # Without one of its parts the text is scored as the original is.
        assert await score(request.text.split(SEPARATOR)[0]) == original
        scores = {"original_score": original, "attacked_score": await score(attacked)}
        return {"attacked": attacked, "queries": 2, "ranking": "none", **scores}

    async def aclose(self):
        """Nothing to end."""


def test_a_search_sees_development_items_only_and_its_record_becomes_a_perturbation(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "environment_python", lambda tool: tmp_path)
    monkeypatch.setattr(search, "PromptBenchWorker", StubWorker)
    block = {"attack_types": ["promptbench:checklist"], "tasks": ["csqa_json"], "conditions_subset": ["C1"]}
    block |= {"max_items": 2, "search_items": 3, "query_budget": 7}
    suite = load_suite(
        write_profile(tmp_path, {"sim": SIMULATED}, tasks=("csqa_json",), integrations={"promptbench": block})
    )
    plan, attacks = plan_promptbench(suite)
    assert attacks == ["checklist"]
    (cell,) = plan.cells
    tried = {item.item_id for item in search_items(suite, cell)}
    assert len(tried) == 3
    assert tried <= {item.item_id for item in read_items(SAMPLES / "commonsense_qa_dev.jsonl")}
    told = []
    (record,) = find_attacks(plan, [*attacks, "semantic"], told.append)
    assert told[0].startswith("checklist × C1 × csqa_json × sim: ")
    assert told[0].endswith(" on 3 development items, 2 queries")
    assert told[1] == "semantic × C1 × csqa_json × sim: not applicable: nothing to change"
    assert (record.parts[:-1], record.parts[-1]) == (record.original[:-1], record.original[-1] + " really")
    assert set(record.search_items) == tried
    assert (record.budget, record.perturbation.type) == (7, "promptbench:checklist")
    (attacked_cell,) = with_attacks(plan, [record]).cells
    assert record.perturbation in attacked_cell.perturbations
    assert tuple(target_of(attacked_cell)) == ("csqa_json", "sim", "C1")
    edit_of = attacked_perturber([record])
    edits = {}
    for unit in with_attacks(plan, [record]).units("sim"):
        edits[unit.perturbation.type] = edit_of(unit)
    assert edits[None] is None
    asked = len(REQUESTS)
    assert find_attacks(plan, attacks, told.append) == [record]
    assert len(REQUESTS) == asked, "a stored record is not searched again"
