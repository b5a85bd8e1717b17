"""Paraphrases by a model: checked, stored, logged, and written once."""

import json
import re

from pcsuite.cli import main
from pcsuite.integrations.promptbench.attacks import keeps_literals
from pcsuite.logging.log import iter_rows
from support.loopback import LoopbackServer
from support.profiles import SIMULATED, write_profile


def reword(body):
    """Shout the first word of a goal; drop a label from the instruction, which must be refused."""
    text = re.search(r"-----\n(.*)\n-----", body["messages"][-1]["content"], re.DOTALL)[1]
    return text.replace("Goal:", "What to reach:").replace('"justification"', "a reason")


def test_a_models_paraphrases_are_checked_logged_and_kept(tmp_path, capsys):
    with LoopbackServer(answer=reword) as server:
        writer = {
            "provider": "openai",
            "family": "w",
            "size": "1B",
            "params_b": 1,
            "base_url": server.base_url,
        }
        block = {
            "attack_types": ["paraphrase"],
            "tasks": ["csqa_json"],
            "conditions_subset": ["C0", "C1"],
            "variants": 1,
            "max_items": 2,
            "paraphrase_model": "writer",
        }
        path = write_profile(
            tmp_path,
            {"sim": SIMULATED, "writer": writer},
            tasks=("csqa_json",),
            integrations={"promptbench": block},
        )
        command = ["promptbench", "--quiet", "--no-tables", "--models", "sim", "--config", str(path)]
        assert main(command) == 0
        asked = len(server.bodies)
        assert main(command) == 0
        assert (
            len(server.bodies) == asked == 1 + 2
        )  # C0 has one part, C1 two more; then all is stored or cached
    told = capsys.readouterr().out
    assert "paraphrase:writer 1 × C1 × csqa_json × sim: 1 of 3 parts reworded" in told
    assert "paraphrase:writer 1 × C0 × csqa_json × sim: not applicable: no rewording kept every label" in told
    log = tmp_path / "outputs" / "runs" / "t.jsonl"
    rows = list(iter_rows(log))
    assert len(rows) == 2 * 2 * 2 + 2
    (record,) = json.loads(log.with_suffix(".attacks.json").read_text()).values()
    assert record["parts"][2].startswith("What to reach:\n")
    assert record["parts"][:2] == record["original"][:2]
    written = [row for row in rows if row.perturbation.type == "paraphrase:writer"]
    assert {row.condition.id for row in written} == {"C1"}
    assert {row.perturbation.id for row in written} == {record["perturbation"]["id"]}


def test_what_a_rewording_must_keep():
    old = 'Say RED or blue, as JSON with "label".'
    assert keeps_literals(old, 'As JSON with "label": RED or blue?', ["blue", "JSON"])
    assert not keeps_literals(old, 'As JSON with "label": RED or azure?', ["blue", "JSON"])
    assert not keeps_literals(old, "As JSON with label: RED or blue?", ["blue"])
    assert not keeps_literals(old, 'As JSON with "label": red or blue?', ["blue"])
