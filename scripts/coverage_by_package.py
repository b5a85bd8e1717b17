"""The share of lines that the last ``pytest --cov`` ran, by package and in all."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from pathlib import Path, PurePath

import coverage


def by_package(report: dict[str, dict[str, dict[str, int]]]) -> dict[str, tuple[int, int]]:
    """Lines run and lines in all of each package, from the files of coverage's JSON report.

    >>> summary = {"covered_lines": 3, "num_statements": 4}
    >>> by_package({"src/pcsuite/stats/f1.py": {"summary": summary}, "src/pcsuite/cli.py": {"summary": summary}})
    {'cli.py': (3, 4), 'stats': (3, 4)}
    """
    totals: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for name, entry in report.items():
        parts = PurePath(name).parts
        package = parts[parts.index("pcsuite") + 1]
        run, lines = totals[package]
        summary = entry["summary"]
        totals[package] = (run + summary["covered_lines"], lines + summary["num_statements"])
    return dict(sorted(totals.items()))


def main() -> None:
    """Print the table."""
    measured = coverage.Coverage()
    measured.load()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        measured.json_report(outfile=str(path))
        totals = by_package(json.loads(path.read_text(encoding="utf-8"))["files"])
    for package, (run, lines) in totals.items():
        print(f"{package:20} {lines:7,} lines {run / max(lines, 1):6.1%}")
    run, lines = (sum(counts) for counts in zip(*totals.values(), strict=True))
    print(f"{'in all':20} {lines:7,} lines {run / lines:6.1%}")


if __name__ == "__main__":
    main()
