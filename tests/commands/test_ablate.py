import pytest

from pcsuite.cli import main
from pcsuite.errors import ConfigError
from support.ablating import request_in


def words_of(request, *more):
    words = [
        "ablate",
        str(request.prompt),
        "--data",
        request.data,
        "--answer",
        "queue",
        "--model",
        "simulated",
    ]
    words += ["--config", request.config, "--output-dir", request.output_dir, "--margin", "0.1", "--quiet"]
    return [*words, *more]


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


def test_blocks_are_kept_renamed_and_split(tmp_path, capsys):
    request = request_in(tmp_path)
    more = ["--show", "--keep", "1", "--rename", "tone=manner", "--design", "leave-one-out", "--no-controls"]
    assert main(words_of(request, *more)) == 0
    out = capsys.readouterr().out
    assert "kept on request" in out
    assert "arms: full, -rules, -manner, -noise" in out


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
