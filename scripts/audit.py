"""Published vulnerabilities of the locked versions, by pip-audit; where no database can be reached it says so.

    python scripts/audit.py [--require]

pip-audit is used where it is installed, and else from an environment of its own (``.venv-audit``). Exit status: 0 where
none is known or nobody could be asked, 1 where one is known; with ``--require`` 2 where nobody could be asked.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
OWN = ROOT / ".venv-audit"
SERVICES = ("pypi", "osv")


def auditor() -> list[str] | None:
    """The words that start pip-audit, ``None`` where it cannot be had."""
    here = [sys.executable, "-m", "pip_audit"]
    if subprocess.run([*here, "--version"], check=False, capture_output=True).returncode == 0:
        return here
    own = OWN / "bin" / "python"
    if not own.exists():
        subprocess.run([sys.executable, "-m", "venv", str(OWN)], check=True)
    got = subprocess.run(
        [str(own), "-m", "pip", "install", "--quiet", "pip-audit"], check=False, capture_output=True
    )
    return [str(own), "-m", "pip_audit"] if got.returncode == 0 else None


def ask(words: list[str], service: str) -> list[tuple[str, str, str]] | None:
    """Package, version and id of each vulnerability that a service knows; ``None`` where it did not answer."""
    given = [
        "--requirement",
        str(LOCK),
        "--no-deps",
        "--disable-pip",
        "--format",
        "json",
        "--progress-spinner",
        "off",
    ]
    asked = subprocess.run(
        [*words, *given, "--vulnerability-service", service], check=False, capture_output=True, text=True
    )
    try:
        packages = json.loads(asked.stdout)["dependencies"]
    except (ValueError, KeyError):
        return None
    return [(one["name"], one["version"], known["id"]) for one in packages for known in one.get("vulns", ())]


def main(argv: list[str] | None = None) -> int:
    """Audit, and say what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--require", action="store_true", help="fail where no database can be reached")
    args = parser.parse_args(argv)
    words = auditor()
    for service in SERVICES if words is not None else ():
        known = ask(words or [], service)
        if known is None:
            continue
        for name, version, vulnerability in known:
            print(f"{name} {version}: {vulnerability}")
        print(f"audited by {service}: {len(known)} known vulnerabilities in the versions of {LOCK.name}")
        return 1 if known else 0
    why = "pip-audit cannot be had" if words is None else "no database of vulnerabilities can be reached"
    print(f"not audited: {why}", file=sys.stderr)
    return 2 if args.require else 0


if __name__ == "__main__":
    sys.exit(main())
