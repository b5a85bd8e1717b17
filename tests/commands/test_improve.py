"""``pcsuite improve`` refuses what it cannot start from before anything is asked."""

from __future__ import annotations

import pytest

from pcsuite.cli import main


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--accept", "patience=0"], "--accept patience=0: it must be at least 1"),
        (["--accept", "margin=-0.1"], "--accept margin=-0.1: it must be at least 0"),
        (["--accept", "margins=1"], "--accept: unknown 'margins' (did you mean 'margin'?)"),
        (["--accept", "patience=2.5"], "--accept patience=2.5: a whole number is wanted"),
        (["--iterations", "0"], "--iterations 0: it must be at least 1"),
        (["--accept", "min_gain=-1"], "--accept min_gain=-1: it must be at least 0"),
    ],
)
def test_numbers_below_their_least_are_refused_by_name(tmp_path, capsys, flags, why):
    assert main(["improve", str(tmp_path), *flags]) == 2
    assert why in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_empty_instruction_is_no_start(tmp_path, capsys):
    start = tmp_path / "start.txt"
    start.write_text(" \n")
    assert main(["improve", str(tmp_path / "evals"), "--start", str(start)]) == 2
    assert f"{start}: the instruction to start from is empty" in capsys.readouterr().err
