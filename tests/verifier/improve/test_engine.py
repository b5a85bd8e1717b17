"""The improvement loop on the suite's engine, with simulated models whose rules have known effects."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import pcsuite.data
from pcsuite.cli import main
from support.loopback import LoopbackServer
from support.profiles import SIMULATED, write_profile

SAMPLES = Path(pcsuite.data.__file__).parent / "samples" / "buildingspec"
TRAIN = ("fig-lane-flat", "thistle-adu", "wren-cabin")
HELD_OUT = ("brass-kettle-studio", "pebble-house")
RULES = {"HURTS": "Guess a lot.", "USELESS": "Be nice.", "HELPS": "Read it all."}
# Right with even odds at first; -30 or +30 on the logit scale is never or always.
MODEL = SIMULATED | {
    "json_validity": 0.999999,
    "item_difficulty_sd": 0.0,
    "operator_effects": {"HURTS": -30.0, "HELPS": 30.0},
}


@pytest.fixture
def place(tmp_path):
    """Five evals, a catalogue whose rules all meet the same failures, and a profile."""
    for name in (*TRAIN, *HELD_OUT):
        (tmp_path / "evals" / name).mkdir(parents=True)
        for file in ("ground_truth.csv", "document.txt"):
            shutil.copy(SAMPLES / name / file, tmp_path / "evals" / name / file)
    rules = [
        {
            "id": name,
            "error_types": ["omission", "wrong_value", "hallucination", "format_error"],
            "text": text,
        }
        for name, text in RULES.items()
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"version": "1.0", "rules": rules}))
    write_profile(
        tmp_path,
        {"sim": MODEL, "slow": MODEL | {"base_accuracy": 0.2, "latency_ms": 400}},
        repro={"max_inflight": 2},
    )
    return tmp_path


def arguments(place, *more, model="sim"):
    return [
        "improve", str(place / "evals"), "--config", str(place / "profile.yaml"), "--model", model,
        "--rules", str(place / "rules.yaml"), "--held-out", ",".join(HELD_OUT), *more,
    ]  # fmt: skip


def steps_of(folder):
    return json.loads((folder / "state.json").read_text())["steps"]


@pytest.mark.slow
def test_three_iterations_keep_only_what_does_not_hurt(place, capsys):
    assert main(arguments(place, "--iterations", "3")) == 0
    steps = steps_of(place / "evals" / "improve")
    assert [step["decision"] for step in steps] == ["baseline", "rolled back", "rolled back", "kept"]
    baseline, hurts, useless, helps = steps
    assert 0 < baseline["train_f1"] < 1
    assert hurts["train_f1"] < baseline["train_f1"]
    assert useless["scores"] == baseline["scores"]
    assert set(helps["scores"].values()) == {1.0}
    assert helps["held_out_change"] == pytest.approx(1 - baseline["held_out_f1"])
    for number, step in enumerate(steps):
        assert (step["iteration"], step["prompt_version"]) == (number, number)
        assert step["rules_hash"] == baseline["rules_hash"]
        assert step["config_hash"] == baseline["config_hash"]
    best = (place / "evals" / "improve" / "best_prompt.txt").read_text()
    assert best.endswith("\n- Read it all.")
    assert "Guess" not in best
    printed = capsys.readouterr().out
    assert "gap +0.000" in printed
    assert "held out: brass-kettle-studio, pebble-house" in printed


@pytest.mark.slow
def test_the_gap_between_the_sets_is_stored(place, capsys):
    assert main(arguments(place, "--iterations", "1", "--json")) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary == json.loads((place / "evals" / "improve" / "summary.json").read_text())
    first, second = summary["iterations"]
    assert first["gap"] == pytest.approx(first["train_f1"] - first["held_out_f1"])
    assert summary["gap"] == first["gap"]  # the first change hurts, so the start is still the best
    assert (summary["best_iteration"], second["decision"]) == (0, "rolled back")
    scores = [first["scores"][name] for name in TRAIN]
    assert summary["train_f1"] == pytest.approx(sum(scores) / 3)


def test_a_killed_loop_goes_on_and_asks_nothing_twice(place):
    whole = place / "whole"
    assert main(arguments(place, "--iterations", "3", "--out", str(whole), model="slow")) == 0
    cut = place / "cut"
    command = arguments(place, "--iterations", "3", "--out", str(cut), model="slow")
    process = subprocess.Popen([sys.executable, "-m", "pcsuite.cli", *command], start_new_session=True)
    deadline = time.monotonic() + 120
    # Wait for the middle of the first change: some of its extractions are there, the step is not.
    while len(list(cut.glob("extractions/*/*.json"))) <= 6:
        assert process.poll() is None, "the loop ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(steps_of(cut)) == 1
    before = {path: path.stat().st_mtime_ns for path in cut.glob("extractions/*/*.json")}
    assert 6 < len(before) < 10
    assert main(command) == 0
    for path, written in before.items():
        assert path.stat().st_mtime_ns == written
    untimed = [[{**step, "timestamp": ""} for step in steps_of(folder)] for folder in (whole, cut)]
    assert untimed[0] == untimed[1]
    assert (cut / "best_prompt.txt").read_text() == (whole / "best_prompt.txt").read_text()


@pytest.mark.slow
def test_a_draft_waits_for_a_hand_edit(place, capsys):
    assert main(arguments(place, "--propose-only")) == 0
    draft = place / "evals" / "improve" / "prompts" / "v001.txt"
    assert str(draft) in capsys.readouterr().out
    assert draft.read_text().endswith("\n- Guess a lot.")
    draft.write_text("By hand. Read it all.")
    assert main(arguments(place, "--iterations", "1")) == 0
    assert (place / "evals" / "improve" / "best_prompt.txt").read_text() == "By hand. Read it all."


@pytest.mark.slow
def test_a_loop_is_not_mixed_with_another_engine(place, capsys):
    assert main(arguments(place, "--iterations", "1")) == 0
    for other in (["--condition", "C3"], ["--seed", "4"]):
        assert main(arguments(place, *other)) == 2
        assert "run under another configuration" in capsys.readouterr().err
    assert main(arguments(place, model="slow")) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--model", "simm"], "did you mean 'sim'?"),
        (["--condition", "C44"], "did you mean"),
        (["--held-out", "peble-house"], "did you mean 'pebble-house'?"),
        (["--task", "agnews_json"], "not field by field"),
        (["--condition", "C7"], "does not apply"),
        (["--iterations", "0"], "at least 1"),
    ],
)
def test_mistakes_are_one_line(place, capsys, change, words):
    assert main(arguments(place, *change)) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (place / "evals" / "improve" / "state.json").exists()


@pytest.mark.slow
def test_a_constrained_condition_is_always_well_formed(place):
    sloppy = MODEL | {"json_validity": 0.000001, "operator_effects": {}}
    write_profile(place, {"sim": sloppy}, repro={"max_inflight": 2})
    scores = {}
    for condition in ("C4", "C6"):
        folder = place / condition
        assert (
            main(arguments(place, "--condition", condition, "--iterations", "1", "--out", str(folder))) == 0
        )
        scores[condition] = set(steps_of(folder)[0]["scores"].values())
    assert scores["C4"] == {0.0}
    assert min(scores["C6"]) > 0.2


@pytest.mark.slow
def test_evals_that_serve_as_exemplars_are_not_shown(place, capsys):
    # Three of the four training documents that ship with the task are evals here: one is left, C5 needs two.
    assert main(arguments(place, "--condition", "C5")) == 2
    assert "offers 1 exemplars, 2 are needed" in capsys.readouterr().err
    shutil.rmtree(place / "evals" / "wren-cabin")
    assert main(arguments(place, "--condition", "C5", "--iterations", "1")) == 0


@pytest.mark.slow
def test_a_model_redrafts_its_own_instruction(place, capsys):
    records = {
        (SAMPLES / name / "document.txt").read_text(encoding="utf-8").strip(): json.loads(
            (SAMPLES / name / "extracted_perfect.json").read_text(encoding="utf-8")
        )
        for name in (*TRAIN, *HELD_OUT)
    }
    asked = []

    def answer(body):
        prompt = body["messages"][-1]["content"]
        if prompt.startswith("The instruction below"):
            asked.append(prompt)
            return "```\nTranscribe everything.\n```" if len(asked) == 2 else ""
        record = next(record for document, record in records.items() if document in prompt)
        if "Transcribe everything." not in prompt:
            record = {"project": record["project"]}
        return f"Here you are: {json.dumps(record)}"

    with LoopbackServer(answer=answer, delay_s=0.2) as server:
        model = {
            "provider": "openai",
            "family": "x",
            "size": "1B",
            "params_b": 1,
            "base_url": server.base_url,
        }
        write_profile(place, {"scripted": model}, repro={"max_inflight": 2})
        command = arguments(place, "--method", "model", "--iterations", "2", model="scripted")
        assert main(command) == 0
        calls = len(server.bodies)
        assert main(command) == 0
        assert len(server.bodies) == calls
        assert server.peak_in_flight == 2
    steps = steps_of(place / "evals" / "improve")
    assert [step["decision"] for step in steps] == ["baseline", "rolled back", "kept"]
    assert steps[1]["reason"] == "the prompt did not change"
    assert set(steps[2]["scores"].values()) == {1.0}
    assert "times omission at windows[].area" in asked[0]
    assert asked[0].count("Extract the building") == 1
    assert (place / "evals" / "improve" / "best_prompt.txt").read_text() == "Transcribe everything."
