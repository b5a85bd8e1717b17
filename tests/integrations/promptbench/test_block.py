"""The perturbation block end to end with a model whose true effects are known, and paraphrases that a model writes."""

import csv
import json
import re
import signal
import subprocess
import sys
import time

import pytest

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.errors import ConfigError
from pcsuite.integrations.promptbench.block import plan_promptbench
from pcsuite.logging.log import iter_rows
from pcsuite.runners.run_suite import run_suite
from support.loopback import LoopbackServer
from support.profiles import SIMULATED, write_profile

KINDS = ["injection", "paraphrase", "reorder", "distractor", "role_confusion"]
ITEMS = 6
ROWS = 2 * 4 * ITEMS * (1 + 5 * 2)


def profile_in(folder, latency_ms=0, **block):
    model = SIMULATED | {
        "perturbation_penalties": {"injection": 6.0},
        "latency_ms": latency_ms,
        "base_accuracy": 0.9,
    }
    settings = {
        "max_items": ITEMS,
        "variants": 2,
        "attack_types": KINDS,
        "conditions_subset": ["C2", "C3", "C4", "C6"],
    } | block
    return write_profile(
        folder,
        {"sim": model},
        tasks=("csqa_json", "conll03_ner_json"),
        conditions=("C0", "C2"),
        items=10,
        repro={"max_inflight": 4, "seeds": {"D0": [0], "D1": [1]}},
        integrations={"promptbench": settings},
    )


def table(folder, name):
    with (folder / "outputs" / "tables" / f"{name}.csv").open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("block")
    path = profile_in(folder)
    assert main(["promptbench", "--quiet", "--config", str(path)]) == 0
    return folder, path


def rows_of(folder):
    return list(iter_rows(folder / "outputs" / "runs" / "t.jsonl"))


@pytest.mark.slow
def test_rows_cover_both_tasks_four_conditions_and_all_variants(finished):
    rows = rows_of(finished[0])
    assert len(rows) == len({row.run_id for row in rows}) == ROWS
    assert {row.task.id for row in rows} == {"csqa_json", "conll03_ner_json"}
    assert {row.condition.id for row in rows} == {"C2", "C3", "C4", "C6"}
    assert {row.decoding.id for row in rows} == {"D0"}
    assert {row.perturbation.type for row in rows} == {None, *KINDS}
    assert {row.perturbation.id for row in rows if row.perturbation.type == "reorder"} == {
        "reorder-1",
        "reorder-2",
    }


@pytest.mark.slow
def test_every_perturbed_prompt_differs_from_its_clean_pair(finished):
    rows = rows_of(finished[0])
    clean = {
        (r.task.item_id, r.condition.id): r.prompt.prompt_hash for r in rows if r.perturbation.type is None
    }
    for row in rows:
        if row.perturbation.type is not None:
            assert row.prompt.prompt_hash != clean[row.task.item_id, row.condition.id]


def test_the_worst_case_is_no_better_than_any_attack(finished):
    attacks = table(finished[0], "robustness_by_attack")
    worst = table(finished[0], "robustness_worst_case")
    assert len(worst) == 8
    assert len(attacks) == 8 * 5
    for row in worst:
        own = [a for a in attacks if (a["task"], a["condition"]) == (row["task"], row["condition"])]
        scores = {a["attack"]: float(a["attacked"]) for a in own}
        assert float(row["worst"]) == pytest.approx(min(scores.values()))
        assert all(float(row["worst"]) <= score + 1e-12 for score in scores.values())
        assert scores[row["worst_attack"]] == pytest.approx(float(row["worst"]))
        change = float(row["variance_worst"]) - float(row["variance_clean"])
        assert float(row["variance_change"]) == pytest.approx(change)


def test_drop_rates_follow_the_definition_and_zero_is_said(finished):
    for row in table(finished[0], "robustness_by_attack"):
        clean, attacked = float(row["clean"]), float(row["attacked"])
        if clean > 0:
            assert float(row["drop_rate"]) == pytest.approx(1 - attacked / clean)
            assert row["note"] == ""
        else:
            assert row["drop_rate"] == ""
            assert row["note"] == "clean score is 0: no drop rate"


def test_the_planted_penalty_is_found(finished):
    # A wrong list of entities still gets part of its score, a wrong choice none.
    worst = [row for row in table(finished[0], "robustness_worst_case") if row["task"] == "csqa_json"]
    assert {row["worst_attack"] for row in worst} == {"injection"}


def test_interventions_have_two_variances_beside_the_effect(finished):
    rows = table(finished[0], "interventions")
    assert len(rows) == 8
    for row in rows:
        assert row["wordings"] == row["structures"] == "3"
        assert float(row["wording_variance"]) >= 0
        assert float(row["structure_variance"]) >= 0
        assert row["baseline"] == ("" if row["condition"] == "C2" else "C2")


def test_figures_are_drawn(finished):
    for task in ("csqa_json", "conll03_ner_json"):
        figure = finished[0] / "outputs" / "plots" / f"robustness_drop__{task}__grid.png"
        assert figure.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_block_joins_the_log_of_the_run_and_repeats_no_clean_row(tmp_path):
    path = profile_in(tmp_path, attack_types=["reorder"], tasks=["csqa_json"], conditions_subset=["C2"])
    run_suite(load_suite(path), quiet=True)
    before = len(rows_of(tmp_path))
    assert main(["promptbench", "--quiet", "--no-tables", "--config", str(path)]) == 0
    added = rows_of(tmp_path)[before:]
    assert {row.perturbation.type for row in added} == {"reorder"}
    assert len(added) == ITEMS * 2
    assert {row.config_hash for row in rows_of(tmp_path)} == {added[0].config_hash}
    manifest = json.loads((tmp_path / "outputs" / "runs" / "t.manifest.json").read_text())
    assert manifest["planned_rows"] == before
    assert manifest["blocks"] == {"promptbench": {"planned_rows": ITEMS * 2, "shared_rows": ITEMS}}
    assert set(manifest["conditions"]) == {"C0", "C2"}


def test_a_killed_block_goes_on_and_ends_with_the_same_rows(finished, tmp_path):
    path = profile_in(tmp_path, latency_ms=15)
    command = [sys.executable, "-m", "pcsuite.cli", "promptbench", "--quiet", "--config", str(path)]
    log = tmp_path / "outputs" / "runs" / "t.jsonl"
    for moment in (40, 250):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        while (log.read_bytes().count(b"\n") if log.exists() else 0) < moment:
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert 250 <= log.read_bytes().count(b"\n") < ROWS
    assert main(command[3:]) == 0
    resumed = rows_of(tmp_path)
    assert len(resumed) == len({row.run_id for row in resumed}) == ROWS

    def answers(rows):
        return {
            (row.task.item_id, row.condition.id, row.perturbation.id): row.generation.text for row in rows
        }

    assert answers(resumed) == answers(rows_of(finished[0]))
    assert len(table(tmp_path, "robustness_worst_case")) == 8


def test_the_block_attacks_what_is_selected(tmp_path, capsys):
    """Whatever the block's own defaults are; the specification's tasks are not taken where others are selected."""
    plain = write_profile(tmp_path, tasks=("agnews_json",), conditions=("C0", "C3", "C6"), items=2)
    plan, _ = plan_promptbench(load_suite(plain))
    assert (list(plan.tasks), plan.scope.conditions) == (["agnews_json"], ("C3", "C6"))
    own = write_profile(tmp_path, tasks=("agnews_json",), conditions=("C0", "C1"), items=2)
    assert plan_promptbench(load_suite(own))[0].scope.conditions == ("C0", "C1")
    path = str(profile_in(tmp_path, tasks=["csqa_json", "conll03_ner_json"], variants=1, max_items=1))
    narrowed = ["--set", "selection.tasks=[csqa_json]", "--no-tables", "--quiet"]
    assert main(["promptbench", "--config", path, *narrowed]) == 0
    assert (
        "conll03_ner_json: named in integrations.promptbench.tasks, but not selected"
        in capsys.readouterr().out
    )
    assert {row.task.id for row in rows_of(tmp_path)} == {"csqa_json"}
    assert main(["promptbench", "--config", path, "--set", "selection.tasks=[gsm8k]"]) == 2
    assert "none of csqa_json, conll03_ner_json is selected" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (
            {"attack_types": ["reordr"]},
            "attack_types: unknown kind of perturbation 'reordr' .did you mean 'reorder'",
        ),
        ({"tasks": ["csqa"]}, "tasks: unknown task 'csqa' .did you mean 'csqa_json'"),
        ({"conditions_subset": ["C99"]}, "conditions_subset: unknown condition 'C99'"),
        (
            {"attack_types": ["promptbench:textfooler"]},
            "unknown kind of perturbation 'promptbench:textfooler'",
        ),
    ],
)
def test_wrong_names_are_one_line(tmp_path, block, message):
    with pytest.raises(ConfigError, match=message) as caught:
        plan_promptbench(load_suite(profile_in(tmp_path, **block)))
    assert "\n" not in str(caught.value)
    assert "integrations.promptbench." in str(caught.value)


def test_flags_stand_for_the_block(tmp_path, capsys):
    path = profile_in(tmp_path)
    flags = ["--tasks", "agnews_json", "--conditions", "C0,C1", "--attacks", "reorder", "--limit", "12"]
    flags += ["--set", "integrations.promptbench.variants=1", "--regimes", "D0,D1", "--no-tables", "--quiet"]
    assert main(["promptbench", "--config", str(path), *flags]) == 0
    assert "96 rows" in capsys.readouterr().out
    rows = rows_of(tmp_path)
    assert {(row.task.id, row.perturbation.id) for row in rows} == {
        ("agnews_json", None),
        ("agnews_json", "reorder-1"),
    }


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
