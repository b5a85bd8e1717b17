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


def test_errors_speak_of_what_was_given_not_of_the_files_it_was_written_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"t{n}", "queue": "a" if n % 2 else "b"} for n in range(20)]
    rows[4]["text"] = ""
    prompt = "Name it.\n\nOne word.\n\n{{ text }}"
    with pytest.raises(pcs.PcsuiteError) as error:
        pcs.prompt(prompt, rows, name="t", answer="queue", model="simulated")
    assert str(error.value).startswith("data row 5: column 'text' is empty")
    with pytest.raises(pcs.PcsuiteError) as error:
        pcs.ablate(
            "Name it.\n\n{{ txt }}", rows[:4] * 5, name="t", answer="queue", model="simulated", quiet=True
        )
    assert "given" not in str(error.value)
    assert str(error.value).startswith("the prompt: ")


def test_effect_is_spelt_as_the_flag_too(folder):
    asked = {
        "model": "simulated",
        "answer": "queue",
        "name": "spelt",
        "quiet": True,
        "limit": 24,
        "trim": False,
    }
    prompt, table = (
        "Role: a clerk.\n\nRules: one word.\n\n{{ text }}",
        [{"text": f"t{n}", "queue": "a" if n % 2 else "b"} for n in range(30)],
    )
    found = [
        pcs.ablate(prompt, table, output_dir=str(folder / word), **{word: {"rules": 3.0}}, **asked)
        for word in ("effect", "effects")
    ]
    assert found[0].effects().head() == found[1].effects().head()


def test_a_table_s_answers_are_kept_in_the_user_s_cache_and_a_profile_s_in_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PCS_ANSWERS_DIR", str(tmp_path / "mine"))
    rows = "\n".join(["text,queue", *(f"t{n},{'ab'[n % 2]}" for n in range(20))])
    (tmp_path / "tickets.csv").write_text(rows)
    (tmp_path / "p.md").write_text("Name it.\n\nOne word.\n\n{{ text }}\n")
    pcs.run(pcs.prompt("p.md", "tickets.csv", model="simulated"), quiet=True)
    assert not (tmp_path / ".cache").exists()
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["datasets", "responses.sqlite"]
    pcs.run(pcs.prompt("p.md", "tickets.csv", model="simulated", config="quickstart", name="b"), quiet=True)
    assert (tmp_path / ".cache" / "responses.sqlite").is_file()


@pytest.mark.slow
def test_the_split_is_shown_before_anything_is_asked_and_several_models_make_one_profile(tmp_path, capsys):
    request = request_in(tmp_path, items=60)
    settings = {"config": request.config, "output_dir": request.output_dir, "answer": "queue"}
    pcs.ablate(
        request.prompt, request.data, model="simulated", trim=False, design="leave-one-out", **settings
    )
    assert "prompt.md:splitatitsheadings" in "".join(capsys.readouterr().out.split())
    suite = pcs.prompt(request.prompt, request.data, models=["simulated/a", "simulated/b"], **settings)
    assert suite.profile.selection.models == ("simulated/a", "simulated/b")
