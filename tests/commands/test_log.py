"""``pcsuite log check``: what it prints, and how it ends."""

import json
import re

import pytest

from pcsuite.cli import main
from pcsuite.errors import Exit
from support.profiles import SIMULATED, write_profile


@pytest.mark.slow
def test_a_check_against_the_plan(tmp_path, capsys):
    profile = write_profile(tmp_path, {"sim": SIMULATED}, conditions=("C0", "C3"), regimes=("D0",), items=3)
    assert main(["run", "--quiet", "--config", str(profile), "--conditions", "C0"]) == Exit.DONE
    log = tmp_path / "outputs" / "runs" / "t.jsonl"
    capsys.readouterr()
    assert main(["log", "check", str(log), "--config", str(profile)]) == Exit.DONE
    shown = capsys.readouterr().out
    assert "3 lines, 3 rows of 3 run ids" in shown
    assert "3 rows of the plan are not there" in shown
    lines = log.read_text().splitlines()
    changed = json.loads(lines[1])
    changed["metrics"]["task_score"] = 0.777
    log.write_text("\n".join([lines[0], json.dumps(changed, separators=(",", ":")), lines[2]]) + "\n")
    assert main(["log", "check", str(log)]) == Exit.BELOW_GATE
    assert "1 altered (not as it was written: the checksum differs): t.jsonl:2" in capsys.readouterr().out
    assert main(["log", "check", str(log), "--repair"]) == Exit.DONE
    shown = capsys.readouterr().out
    assert "found: 1 altered" in shown
    assert "t.old-1.jsonl" in shown
    assert main(["run", "--quiet", "--config", str(profile), "--conditions", "C0"]) == Exit.DONE
    assert "1 rows in" in capsys.readouterr().out


def test_status_says_how_far_a_run_is_and_what_it_has_spent(tmp_path, capsys):
    profile = write_profile(
        tmp_path,
        {"sim": SIMULATED},
        conditions=("C0",),
        regimes=("D0",),
        items=3,
        limits={"max_tokens_overall": 900_000},
    )
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    capsys.readouterr()
    assert main(["status", str(tmp_path / "outputs" / "runs" / "t.jsonl")]) == Exit.DONE
    first, spent, start, limit = capsys.readouterr().out.splitlines()
    assert first == "t: 3 of 3 rows done"
    tokens = re.fullmatch(r"spent: ([\d,]+) tokens, 3 calls in 1 start", spent)[1]
    assert start.startswith("  start 1, until 20")
    assert f": {tokens} tokens, 3 calls in" in start
    left = 900_000 - int(tokens.replace(",", ""))
    assert limit == f"limits.max_tokens_overall: 900,000 tokens, {left:,} left"
    assert main(["status", "no-such-run"]) == Exit.BAD_INPUT
