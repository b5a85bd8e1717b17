"""Prompts from Python: ablations of files and of what a notebook has in memory, a prompt as a profile, verify."""

import asyncio
import json
from pathlib import Path

import pytest

import pcsuite as pcs
import pcsuite.data
from pcsuite.cli import main
from pcsuite.errors import ConfigError, DataError
from support.ablating import request_in
from support.own_task import PROMPT, tickets, write_own_table

ROWS = [{"text": text, "queue": queue} for text, queue in tickets()]


def names_the_queue(answer, item):
    return item["queue"] in answer


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_own_table(tmp_path)
    return tmp_path


SETTINGS = {"model": "simulated", "quiet": True, "margin": 0.1, "trim": False}


@pytest.mark.slow
def test_files_in_a_verdict_per_block_out(folder):
    found = pcs.ablate(
        "prompt.md", "tickets.csv", scorer="my_scorer.py:score", effects={"rules": 4}, **SETTINGS
    )
    verdicts = {record["block"]: record["verdict"] for record in found.effects().records()}
    assert verdicts["rules"] == "helps"
    assert "rules helps" in found.sentence
    assert found.trimmed == PROMPT
    assert len(found.items()) == sum(1 for _ in found.rows().records())
    assert "<iframe srcdoc=" in found._repr_html_()
    assert "helps" in repr(found)
    assert {path.name for path in found.write()} >= {"ablation.html", "blocks.csv"}


@pytest.mark.slow
def test_a_text_rows_and_a_function_in_memory_inside_a_running_loop(folder):
    async def notebook():
        return pcs.ablate(
            PROMPT,
            ROWS,
            scorer=names_the_queue,
            name="memory",
            answer="queue",
            effects={"rules": 4},
            **SETTINGS,
        )

    found = asyncio.run(notebook())
    assert found.effects().to_pandas().set_index("block")["verdict"]["rules"] == "helps"
    kept = folder / "outputs" / "given" / "memory"
    assert (kept / "prompt.md").read_text() == PROMPT
    assert "def names_the_queue(answer, item):" in (kept / "scorer.py").read_text()
    assert len((kept / "data.jsonl").read_text().splitlines()) == 40


@pytest.mark.slow
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_are_tables(folder, library):
    frame = pytest.importorskip(library).DataFrame(ROWS)
    suite = pcs.prompt(PROMPT, frame, name=library, model="simulated", answer="queue")
    made = pcs.run(suite, quiet=True)
    assert len(made.items()) == 40
    assert {record["condition"] for record in made.items().records()} == {"full"}


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"modle": "simulated"}, ConfigError, "no setting 'modle' (did you mean 'model'?)"),
        ({"data": []}, DataError, "holds no rows"),
        ({"data": [1, 2]}, DataError, "holds no rows"),
        ({"data": 5}, DataError, "holds no rows"),
        ({"data": [{"text": {1, 2}}]}, DataError, "data row 1, column 'text': a table cannot hold set"),
        (
            {"data": [{"text": "a"}, {"text": float("nan")}]},
            DataError,
            "data row 2, column 'text' is nan (fill in",
        ),
        ({"prompt": "Be brief. Ticket: {{ text }}"}, ConfigError, "a prompt in memory has no name"),
        ({"prompt": PROMPT}, ConfigError, "a prompt in memory has no name"),
        ({"scorer": lambda answer, item: 1}, ConfigError, "no function with a name"),
        ({"scorer": len}, ConfigError, "source cannot be read"),
        ({"prompt": "gone.md"}, pcs.PcsuiteError, "gone.md: no such file"),
    ],
)
def test_what_cannot_be_used_is_one_line(folder, changes, error, words):
    given = {"prompt": "prompt.md", "data": "tickets.csv", "model": "simulated"} | changes
    with pytest.raises(error) as caught:
        pcs.ablate(given.pop("prompt"), given.pop("data"), **given)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_verify_scores_a_record_in_memory_as_the_command_does(capsys):
    folder = Path(pcsuite.data.__file__).parent / "samples" / "buildingspec" / "heron-cottage"
    truth, record = folder / "ground_truth.csv", folder / "extracted.json"
    found = pcs.verify(truth, json.loads(record.read_text()))
    assert found["metrics"] == pcs.verify(truth.read_bytes(), record.read_bytes())["metrics"]
    named = pcs.verify(str(truth), str(record), mapping="field_mapping_classes.yaml")
    assert named["rules_hash"] != found["rules_hash"]
    assert main(["verify", str(truth), str(record), "--no-save", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == found["metrics"]
    assert found["metrics"]["f1"] == pytest.approx(0.968, abs=5e-4)


@pytest.mark.slow
def test_the_split_is_shown_before_anything_is_asked_and_several_models_make_one_profile(tmp_path, capsys):
    request = request_in(tmp_path, items=60)
    settings = {"config": request.config, "output_dir": request.output_dir, "answer": "queue"}
    pcs.ablate(
        request.prompt, request.data, model="simulated", trim=False, design="leave-one-out", **settings
    )
    assert "prompt.md: split at its headings" in " ".join(capsys.readouterr().out.split())
    suite = pcs.prompt(request.prompt, request.data, models=["simulated/a", "simulated/b"], **settings)
    assert suite.profile.selection.models == ("simulated/a", "simulated/b")
