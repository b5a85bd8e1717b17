import json

import pytest

from pcsuite.cli import main
from support.import_logs import FIXTURES
from support.synthetic_log import make_row, write_log


@pytest.fixture
def log(tmp_path):
    rows = [
        make_row(item=f"i{k}", condition=c, score=float(c == "C1")) for k in range(4) for c in ("C0", "C1")
    ]
    return write_log(tmp_path / "outputs" / "runs" / "mine.jsonl", rows)


@pytest.mark.slow
def test_the_report_is_written_beside_the_run(log, capsys):
    assert main(["report", str(log), "--no-plots"]) == 0
    index = log.parent.parent / "reports" / "mine" / "index.html"
    assert index.is_file()
    assert f"report  {index}" in capsys.readouterr().out


@pytest.mark.slow
def test_another_folder(log, tmp_path):
    assert main(["report", str(log), "--out", str(tmp_path / "paper"), "--no-plots"]) == 0
    assert (tmp_path / "paper" / "reports" / "index.html").is_file()


def test_nothing_to_report_on(capsys):
    assert main(["report"]) == 2
    assert "give --config PROFILE, a RUN.jsonl or the name of a run" in capsys.readouterr().err


def test_a_missing_log_is_one_line(tmp_path, capsys):
    assert main(["report", str(tmp_path / "runs" / "no.jsonl")]) == 2
    assert "no such log" in capsys.readouterr().err


@pytest.fixture
def runs(tmp_path):
    def write(name, scores):
        rows = [make_row(item=f"i{k}", score=float(score)) for k, score in enumerate(scores)]
        return str(write_log(tmp_path / f"{name}.jsonl", rows))

    return write("good", [1] * 20), write("bad", [0] * 12 + [1] * 8)


@pytest.mark.slow
def test_a_regression_fails_only_when_asked(runs, capsys):
    good, bad = runs
    assert main(["compare", good, bad]) == 0
    assert main(["compare", good, bad, "--fail-on-regression"]) == 1
    assert "bad against good: 1 regression, 0 improvements." in capsys.readouterr().out
    assert main(["compare", bad, good, "--fail-on-regression"]) == 0
    assert main(["compare", good, bad, "--fail-on-regression", "--margin", "0.8"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "md"])
def test_with_a_margin_it_is_said_how_the_second_run_stands(runs, form, capsys):
    good, bad = runs
    assert main(["compare", good, bad, "--margin", "0.05", "--format", form]) == 0
    assert "By its scores bad is worse than good (margin 0.05)." in capsys.readouterr().out
    assert main(["compare", good, good, "--margin", "0.05", "--format", form]) == 0
    assert "neither worse nor shown to be no worse" in capsys.readouterr().out
    assert main(["compare", good, bad, "--format", form]) == 0
    assert "By its scores" not in capsys.readouterr().out


@pytest.mark.slow
def test_costs_that_moved_are_told_apart_from_regressions(tmp_path, capsys):
    logs = [
        str(
            write_log(
                tmp_path / f"{name}.jsonl", [make_row(item=f"i{k}", prompt_tokens=cost) for k in range(20)]
            )
        )
        for name, cost in (("short", 100), ("long", 150))
    ]
    assert main(["compare", *logs]) == 0
    out = capsys.readouterr().out
    assert "long against short: 0 regressions, 0 improvements." in out
    assert "Costs went up in 1 and down in 0 cells: they are not counted as regressions." in out


@pytest.mark.slow
def test_machine_readable(runs, capsys, tmp_path):
    good, bad = runs
    assert main(["compare", good, bad, "--format", "json", "--csv", str(tmp_path / "c.csv")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["regressions"] == 1
    assert found["cells"][0]["delta"] == pytest.approx(-0.6)
    assert (tmp_path / "c.csv").read_text().startswith("task,model,decoding")


@pytest.mark.slow
def test_markdown_table(runs, capsys):
    assert main(["compare", *runs, "--format", "md"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("**bad against good: 1 regression, 0 improvements.**")
    assert "| agnews\\_json | m1 | D0 | C0 | score | 1.00 | 0.40 |" in out


def test_a_negative_margin_is_refused(runs, capsys):
    assert main(["compare", *runs, "--margin", "-1"]) == 2
    assert "not negative" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["report", "nowhere"], ["compare", "nowhere", "elsewhere"]])
def test_a_run_that_is_not_there_is_one_line(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    said = "nowhere: no file and no run in outputs/runs (pcsuite run --config PROFILE makes one)"
    assert capsys.readouterr().err == f"pcsuite: {said}\n"


@pytest.mark.slow
def test_a_comment_for_github_names_the_items_that_broke(runs, capsys):
    assert main(["compare", *runs, "--format", "github", "--margin", "0.05"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("<!-- pcsuite compare -->\n\n### :x: bad is worse than good (margin 0.05)\n")
    assert "\n\n12 items broke, 0 items fixed.\n\n<details open><summary>12 items broke</summary>" in out
    assert out.count("1 → 0") == 12
    assert "<details><summary>" in out
    assert len(out) < 65_536
    assert main(["compare", *reversed(runs), "--format", "github"]) == 0
    out = capsys.readouterr().out
    assert "\n\n0 items broke, 12 items fixed.\n\n<details><summary>12 items fixed</summary>" in out
    assert out.count("0 → 1") == 12


@pytest.mark.slow
def test_an_item_that_broke_under_two_conditions_is_one_item(tmp_path, capsys):
    def write(name, scores):
        rows = [
            make_row(item=f"i{k}", condition=condition, score=score)
            for condition in ("C0", "C1")
            for k, score in enumerate(scores)
        ]
        return str(write_log(tmp_path / f"{name}.jsonl", rows))

    logs = write("before", [1.0] * 9 + [0.0]), write("now", [0.0] * 4 + [1.0] * 6)
    assert main(["compare", *logs, "--format", "github"]) == 0
    assert "4 items (8 scores) broke, 1 item (2 scores) fixed." in capsys.readouterr().out
    assert main(["compare", *logs, "--conditions", "C1"]) == 0
    out = capsys.readouterr().out
    assert "broken: 4 items: i0 1 → 0, i1 1 → 0, i2 1 → 0, i3 1 → 0\nfixed: 1 item: i9 0 → 1\n" in out
    assert " C0 " not in out


@pytest.mark.slow
def test_json_says_how_the_second_run_stands_and_what_broke(runs, capsys):
    assert main(["compare", *runs, "--json", "--margin", "0.05"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["standing"], len(document["broke"])) == ("worse", 12)


@pytest.mark.slow
def test_a_baseline_takes_the_place_of_the_first_run(runs, tmp_path, capsys):
    import pcsuite as pcs

    good = pcs.read(runs[0])
    path = good.baseline().write(tmp_path / "good.json", good.metrics)
    assert main(["compare", str(path), runs[1], "--fail-on-regression"]) == 1
    assert "bad against good: 1 regression" in capsys.readouterr().out
    assert main(["compare", str(path), runs[0], "--margin", "0.3", "--format", "github"]) == 0
    assert ":white_check_mark: good is no worse than good" in capsys.readouterr().out
    path.write_text("{}")
    assert main(["compare", str(path), runs[0]]) == 2
    assert "of no format that is known here" in capsys.readouterr().err


@pytest.mark.slow
def test_report_json_is_all_that_is_printed(log, capsys):
    assert main(["report", str(log), "--no-plots", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    folder = log.parent.parent
    assert found["files"]["index"] == str(folder / "reports" / "mine" / "index.html")
    assert found["files"]["runs"] == str(folder / "reports" / "index.html")
    stored = json.loads((folder / "reports" / "mine" / "result.json").read_text(encoding="utf-8"))
    assert {key: found[key] for key in stored} == stored
    assert [alarm["kind"] for alarm in found["alarms"]] == ["simulated", "unreadable", "cannot decide"]


@pytest.mark.slow
def test_the_next_line_opens_the_run(log, monkeypatch, capsys):
    monkeypatch.chdir(log.parent.parent.parent)
    assert main(["report", "mine", "--no-plots"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "next: pcsuite view mine"
    assert main(["report", str(log), "--no-plots"]) == 0
    assert (
        capsys.readouterr().out.splitlines()[-1]
        == f"next: pcsuite view mine --output-dir {log.parent.parent}"
    )


@pytest.mark.slow
def test_compare_json(runs, capsys):
    assert main(["compare", *runs, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["first"], found["second"], found["regressions"]) == ("good", "bad", 1)


PROMPTFOO = FIXTURES / "promptfoo"


@pytest.mark.slow
def test_two_results_files_of_promptfoo_give_a_verdict_with_one_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files = [str(PROMPTFOO / name) for name in ("base.json", "new.json")]
    assert main(["compare", *files, "--margin", "0.05", "--fail-on-regression"]) == 0
    text = capsys.readouterr().out
    assert "The pass went from 0.71 to 1.00: +0.29 [0.04, 0.50] on 21 items (1 missing)" in text
    assert "By its scores new is no worse than base (margin 0.05); 1 score is missing." in text
    assert "What this gate can find (21 items, margin 0.05):" in text
    assert "fixed: 6 items" in text
    assert list(tmp_path.iterdir()) == []  # nothing is left behind
    # The other way round six items break: the exact test has p = 2 / 2 ** 6.
    assert main(["compare", *reversed(files), "--fail-on-regression", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (len(told["broke"]), len(told["fixed"]), told["correction"]) == (6, 0, "holm")
    assert told["reach"].startswith("What this gate can find")


@pytest.mark.slow
def test_two_prompts_of_one_file_are_compared_by_name(capsys):
    assert main(["compare", str(PROMPTFOO / "several.json"), "--arms", "plain", "listed"]) == 0
    assert "listed against plain" in capsys.readouterr().out


@pytest.mark.slow
def test_plain_tables_are_compared(tmp_path, capsys):
    for name, right in (("base", "1"), ("new", "0")):
        rows = "".join(f"q{number},{right if number < 8 else 1}\n" for number in range(20))
        (tmp_path / f"{name}.csv").write_text(f"question,correct\n{rows}")
    files = [str(tmp_path / f"{name}.csv") for name in ("base", "new")]
    table = ["--from", "table", "--item", "question", "--score", "correct"]
    assert main(["compare", *files, *table, "--fail-on-regression"]) == 1
    assert "Worse: correct of imported on table" in capsys.readouterr().out


def test_words_about_files_of_other_tools_are_not_swallowed_by_runs_of_ours(log, capsys):
    assert main(["compare", str(log), str(log), "--metric", "tone"]) == 2
    assert "metric: these are runs of ours" in capsys.readouterr().err


def test_one_file_alone_and_unknown_files_are_told_in_one_line(tmp_path, capsys):
    assert main(["compare", str(PROMPTFOO / "base.json")]) == 2
    assert "--arms A B" in capsys.readouterr().err
    (tmp_path / "odd.json").write_text('{"a": 1}')
    assert main(["compare", str(tmp_path / "odd.json"), str(PROMPTFOO / "base.json")]) == 2
    assert "of no format that is known here" in capsys.readouterr().err
