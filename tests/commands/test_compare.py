import json

import pytest

from pcsuite.cli import main
from support.synthetic_log import make_row, write_log


@pytest.fixture
def runs(tmp_path):
    def write(name, scores):
        rows = [make_row(item=f"i{k}", score=float(score)) for k, score in enumerate(scores)]
        return str(write_log(tmp_path / f"{name}.jsonl", rows))

    return write("good", [1] * 20), write("bad", [0] * 12 + [1] * 8)


def test_a_regression_fails_only_when_asked(runs, capsys):
    good, bad = runs
    assert main(["compare", good, bad]) == 0
    assert main(["compare", good, bad, "--fail-on-regression"]) == 1
    assert "bad against good: 1 regression, 0 improvements." in capsys.readouterr().out
    assert main(["compare", bad, good, "--fail-on-regression"]) == 0
    assert main(["compare", good, bad, "--fail-on-regression", "--margin", "0.8"]) == 0


def test_machine_readable(runs, capsys, tmp_path):
    good, bad = runs
    assert main(["compare", good, bad, "--format", "json", "--csv", str(tmp_path / "c.csv")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["regressions"] == 1
    assert found["cells"][0]["delta"] == pytest.approx(-0.6)
    assert (tmp_path / "c.csv").read_text().startswith("task,model,decoding")


def test_markdown_table(runs, capsys):
    assert main(["compare", *runs, "--format", "md"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("**bad against good: 1 regression, 0 improvements.**")
    assert "| agnews\\_json | m1 | d0\\_greedy | C0 | score | 1.00 | 0.40 |" in out


def test_a_negative_margin_is_refused(runs, capsys):
    assert main(["compare", *runs, "--margin", "-1"]) == 2
    assert "not negative" in capsys.readouterr().err
