import pytest

from pcsuite.cli import main
from support.synthetic_log import make_row, write_log


@pytest.fixture
def log(tmp_path):
    rows = [
        make_row(item=f"i{k}", condition=c, score=float(c == "C1")) for k in range(4) for c in ("C0", "C1")
    ]
    return write_log(tmp_path / "outputs" / "runs" / "mine.jsonl", rows)


def test_the_report_is_written_beside_the_run(log, capsys):
    assert main(["report", str(log), "--no-plots"]) == 0
    index = log.parent.parent / "reports" / "index.html"
    assert index.is_file()
    assert f"report  {index}" in capsys.readouterr().out


def test_another_folder(log, tmp_path):
    assert main(["report", str(log), "--out", str(tmp_path / "paper"), "--no-plots"]) == 0
    assert (tmp_path / "paper" / "reports" / "index.html").is_file()


def test_nothing_to_report_on(capsys):
    assert main(["report"]) == 2
    assert "give --config PROFILE, a RUN.jsonl or the name of a run" in capsys.readouterr().err


def test_a_missing_log_is_one_line(tmp_path, capsys):
    assert main(["report", str(tmp_path / "runs" / "no.jsonl")]) == 2
    assert "no such log" in capsys.readouterr().err
