"""Install the newest version of every direct dependency, upper bounds aside, for the job that looks ahead.

    python -m venv .venv-newest && .venv-newest/bin/python scripts/newest.py

Requirements that are pinned because a library reaches into another's insides (``==``, or a bound below the next minor
version) keep their bounds: breaking those is no news.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = (
    "local",
    "eval",
    "stats",
    "view",
    "retrieval",
    "hub",
    "patterns",
    "frames",
    "verify",
    "import",
    "dev",
)
_MAJOR = re.compile(r",<\d+(?=[\"; ]|$)")


def requirements(text: str, extras: tuple[str, ...] = EXTRAS) -> list[str]:
    """The core's and some extras' requirements of a ``pyproject.toml`` without bounds at a next major version."""
    blocks = [re.search(r"^dependencies = \[(.*?)^\]", text, re.MULTILINE | re.DOTALL)]
    for extra in extras:
        blocks.append(re.search(rf"^{extra} = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL))
    listed = [entry for block in blocks if block is not None for entry in re.findall(r'"([^"]+)"', block[1])]
    return sorted({_MAJOR.sub("", entry) for entry in listed if not entry.startswith("prompt-control-suite")})


def main() -> int:
    """Install them, then the project without its dependencies."""
    wanted = requirements((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--upgrade", "--upgrade-strategy", "eager", *wanted], check=True)
    subprocess.run([*pip, "--no-deps", "--editable", str(ROOT)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
