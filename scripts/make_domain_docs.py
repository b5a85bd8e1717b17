"""Write ``docs/reference/verifier-domains.md``: what one change to a record costs, from the cases of the tests.

Run from the repository root: ``python -m scripts.make_domain_docs``. A test holds the page to it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "verifier-domains.md"
ABOUT = {
    "invoices": "An invoice with its lines, and discounts inside a line. The truth is a CSV with a row for each line.",
    "cvs": "A CV with jobs (paired by employer and start), duties and projects inside a job, education and languages. "
    "The truth is JSON Lines.",
    "labs": "A laboratory form with panels and results inside a panel, and quantities. The truth is a JSON list.",
}
TITLES = {"invoices": "Invoices", "cvs": "CVs", "labs": "Laboratory forms"}


def cases() -> Any:
    """The module with the cases."""
    sys.path.insert(0, str(ROOT / "tests"))
    spec = importlib.util.spec_from_file_location(
        "domain_cases", ROOT / "tests" / "verifier" / "test_domains.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page() -> str:
    """The text of the page."""
    module = cases()
    total = sum(map(len, module.DOMAINS.values()))
    lines = [
        "# Worked domains of the verifier",
        "",
        "Written by `scripts/make_domain_docs.py` from `tests/verifier/test_domains.py`, where every case is worked",
        f"out by hand and run: {total} changes to the first record of three invented sets of twenty.",
        "`pcsuite verify-all DIR --copy-samples --samples invoices` (`cvs`, `labs`) copies a set with its mapping.",
    ]
    for domain, rows in module.DOMAINS.items():
        mapping = (module.SAMPLES / domain / "mapping.yaml").read_text(encoding="utf-8").strip()
        lines += ["", f"## {TITLES[domain]}", "", ABOUT[domain], "", "```yaml", mapping, "```", ""]
        lines += [f"The first record has {module.FIELDS[domain]} compared values.", ""]
        lines += ["| one change | omitted | invented | mistyped | wrong |", "|---|---|---|---|---|"]
        for name, _, verdict in rows:
            lines.append(f"| {name} | {' | '.join(str(count) if count else '·' for count in verdict)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
