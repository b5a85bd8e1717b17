"""Kills over all commands that write; ``benchmarks/kill_campaign.py`` has the campaign of a thousand."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "kill_campaign.py"


def test_kills_lose_and_double_nothing():
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--kills", "32", "--seed", "7"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "32 kills" in done.stdout
    for command in (
        "run", "promptbench", "optimize", "report", "rescore", "verify-all", "import", "ablate", "run --overwrite",
        "log check --repair", "judge check", "improve", "view marks", "run --batch",
        "ablate --target --in", "ablate --target --worker --in", "ablate --design order", "ablate --design repeat",
        "ablate --design groups", "ablate --noise-first", "ablate --until --looks", "check", "verifier-pass",
        "view --bundle", "init-task",
    ):  # fmt: skip
        assert f"`{command}`" in done.stdout
