import csv
import json
from importlib.resources import files
from pathlib import Path

import pytest

from pcsuite.ablation.arms import DESIGNS
from pcsuite.cli import main
from pcsuite.commands.ablate import DESIGN_NAMES
from pcsuite.errors import ConfigError
from support.ablating import request_in, words_of
from support.own_task import SCORER, write_own_table


@pytest.mark.slow
def test_it_runs_prints_and_says_where_the_files_are(tmp_path, capsys):
    request = request_in(tmp_path)
    assert main(words_of(request, "--effect", "rules=2", "--effect", "noise=-1.6", "--name", "mine")) == 0
    out = capsys.readouterr().out
    folder = tmp_path / "outputs" / "ablations" / "mine"
    assert str(folder / "ablation.html") in out
    assert (folder / "trimmed.md").is_file()
    assert "helps" in out


def test_show_stops_before_anything_is_asked(tmp_path, capsys):
    assert main(words_of(request_in(tmp_path), "--show")) == 0
    assert "rows:" in capsys.readouterr().out
    assert not list(tmp_path.rglob("*.jsonl.lock"))


@pytest.mark.slow
def test_a_price_can_be_given_and_a_wrong_option_is_told(tmp_path, capsys):
    request = request_in(tmp_path, model="openai/some-model", effects={})
    words = ["--show", "--base-url", "https://models.example/v1"]

    def said(*more):
        assert main(words_of(request, *words, *more)) == 0
        return " ".join(capsys.readouterr().out.split())

    assert "an unknown cost (price unknown: set price_in and price_out)" in said()
    assert "an unknown cost" not in said("--model-option", "price_in=2.5", "--model-option", "price_out=10")
    for wrong, told in (
        ("price_in", "--model-option price_in: expected KEY=VALUE, for example price_in=2.5"),
        ("price_in=1", "give both price_in and price_out, or neither"),
    ):
        assert main(words_of(request, *words, "--model-option", wrong)) == 2
        assert told in capsys.readouterr().err


def test_blocks_are_kept_renamed_and_split(tmp_path, capsys):
    request = request_in(tmp_path)
    more = ["--show", "--keep", "1", "--rename", "tone=manner", "--design", "leave-one-out", "--no-controls"]
    assert main(words_of(request, *more)) == 0
    out = capsys.readouterr().out
    assert "kept on request" in out
    assert "arms: full, -rules, -manner, -noise" in out


@pytest.mark.slow
def test_a_budget_that_ran_out_is_told_and_ends_with_status_3(tmp_path, capsys):
    assert main(words_of(request_in(tmp_path), "--budget-tokens", "30000")) == 3
    assert "The budget ended the calls" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--effect", "rules"], "--effect rules: expected"),
        (["--effect", "rules=much"], "the effect is no number"),
        (["--rename", "=x"], "--rename =x: expected"),
        (["--answer", "nothing"], "no column 'nothing'"),
        (["--keep", "nothing"], "no block 'nothing'"),
        (["--executor", "abacus"], "unknown 'abacus'"),
    ],
)
def test_wrong_flags_are_told_in_one_line(tmp_path, capsys, more, problem):
    assert main(words_of(request_in(tmp_path), *more)) == 2
    told = capsys.readouterr().err.strip()
    assert problem in told
    assert told.count("\n") == 0


def test_a_file_that_is_missing(tmp_path, capsys):
    assert main(["ablate", str(tmp_path / "no.md"), "--data", "agnews_json"]) == 2
    assert "no such file" in capsys.readouterr().err


def test_debug_raises(tmp_path):
    with pytest.raises(ConfigError):
        main(["--debug", *words_of(request_in(tmp_path), "--effect", "x")])


WALK = (
    "ablate",
    "prompt.md",
    "--data",
    "tickets.csv",
    "--scorer",
    "my_scorer.py:score",
    "--model",
    "simulated",
    "-q",
)


@pytest.mark.slow
def test_own_prompt_own_table_of_40_rows_own_scorer_to_a_verdict_per_block_in_one_command(
    tmp_path, capsys, monkeypatch
):
    """The walk of issue 23: three files of the user's, nothing else, one command, an answer."""
    monkeypatch.chdir(tmp_path)
    write_own_table(tmp_path)
    assert main([*WALK, "--effect", "rules=4", "--margin", "0.1"]) == 0
    out = capsys.readouterr().out
    assert "rules helps" in out
    folder = tmp_path / "outputs" / "ablations" / "prompt"
    verdicts = {
        row["block"]: row["verdict"]
        for row in csv.DictReader((folder / "blocks.csv").read_text().splitlines())
    }
    assert set(verdicts) == {"role", "rules", "tone"}
    assert verdicts["rules"] == "helps"
    rows = [json.loads(line) for line in (folder / "runs" / "prompt.jsonl").read_text().splitlines()]
    assert {row["metrics"]["words"] for row in rows} >= {1}  # the scorer's own metric is in every row
    assert all(row["metrics"]["task_score"] in (0, 1) for row in rows)
    # The profile that was written finds the scorer from another folder, and every row is there already.
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["config", "check", str(folder / "profile.yaml")]) == 0


@pytest.mark.slow
def test_a_changed_scorer_is_another_ablation(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_own_table(tmp_path)
    assert main([*WALK, "--no-trim"]) == 0
    (tmp_path / "my_scorer.py").write_text(SCORER + "\n# changed\n")
    assert main([*WALK, "--no-trim"]) == 2
    assert "holds an ablation of another scorer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("scorer", "words"),
    [
        ("def score(answer, item):\n    return item['que']\n", "my_scorer.py:score (line 2) fails on item"),
        ("def score(answer, item):\n    return 3\n", "a score is a number from 0 to 1"),
        ("def grade(answer, item):\n    return 1\n", "no function 'score' (it has grade)"),
        ("def score(answer, item)\n", "my_scorer.py:1:"),
    ],
)
def test_a_scorer_that_cannot_work_is_one_line_before_any_call(tmp_path, capsys, monkeypatch, scorer, words):
    monkeypatch.chdir(tmp_path)
    write_own_table(tmp_path)
    (tmp_path / "my_scorer.py").write_text(scorer)
    assert main(list(WALK)) == 2
    said = capsys.readouterr().err.strip()
    assert words in said
    assert "\n" not in said
    assert not list(tmp_path.rglob("*.jsonl.lock"))


@pytest.mark.slow
def test_assertions_in_columns_as_promptfoo_names_them(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_own_table(tmp_path)
    rows = list(csv.DictReader((tmp_path / "tickets.csv").read_text().splitlines()))
    lines = ["text,__expected1,__expected2"]
    lines += [f"{row['text']},icontains: {row['queue']},not-contains: sorry" for row in rows]
    (tmp_path / "tickets.csv").write_text("\n".join(lines) + "\n")
    words = [
        "ablate",
        "prompt.md",
        "--data",
        "tickets.csv",
        "--model",
        "simulated",
        "--effect",
        "rules=4",
        "-q",
    ]
    assert main([*words, "--no-trim"]) == 0
    assert "rules helps" in capsys.readouterr().out
    assert main([*words, "--show", "--name", "other"]) == 0
    assert "assertions: __expected1, __expected2, scored as assert" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.slow
def test_the_bundled_example_is_a_prompt_of_six_blocks_for_its_own_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["ablate", "example", "--show"]) == 0
    shown = capsys.readouterr().out
    assert "model: qwen2.5-coder-0.5b (llamacpp)" in shown
    assert "reviews.csv: 24 items" in shown
    assert "arms: full, -role, -task, -standards, -values, -format, again; then shams" in shown
    assert main(["ablate", "example", "--show", "--model", "simulated", "--margin", "0.1"]) == 0
    shown = capsys.readouterr().out
    assert "model: simulated (simulated)" in shown
    assert "(margin 0.1)" in shown
    assert main(["ablate", "example", "-q", "--no-trim", "--model", "simulated"]) == 0
    assert "an illustration, not evidence" in capsys.readouterr().out


def test_the_reviews_that_confirm_the_example_are_others():
    folder = Path(str(files("pcsuite.ablation"))) / "example"
    tables = [
        [
            (row["review"], row["mood"])
            for row in csv.DictReader((folder / name).read_text(encoding="utf-8").splitlines())
        ]
        for name in ("reviews.csv", "more_reviews.csv")
    ]
    assert [len(table) for table in tables] == [24, 48]
    assert not {text for text, _ in tables[0]} & {text for text, _ in tables[1]}
    assert {mood for table in tables for _, mood in table} == {"positive", "negative"}


def test_the_help_names_every_design():
    assert DESIGN_NAMES == DESIGNS
