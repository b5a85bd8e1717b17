"""Write ``field_mapping_classes.yaml`` from ``field_mapping.yaml``: same fields, a tolerance class for each.

Run from the repository root after changing the default mapping; a test holds the two files together.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SCHEMAS = Path(__file__).resolve().parents[1] / "src" / "pcsuite" / "verifier" / "schemas"
AREA = re.compile(r"(^|_)area$")
RATIO = re.compile(
    r"ratio$|u_factor$|u_value$|^shgc$|fraction$|r_value$|^framing_factor$|pitch$|reflectance$|emittance$"
)
EFFICIENCY = re.compile(r"^(hspf|seer2|eer2|energy_factor|recovery_efficiency)$")
HEADING = """# As field_mapping.yaml, with a tolerance class for each kind of quantity instead of one for all.
# Written by scripts/make_field_mapping_classes.py: change field_mapping.yaml and run it again.
"""


def class_of(path: str, line: str) -> str | None:
    """Tolerance class of a field, by the last part of its path and its declared type."""
    leaf = path.rpartition(".")[2]
    if "type: number" not in line:
        return None
    if "modulo:" in line:
        return "angle"
    for name, pattern in (("area", AREA), ("ratio", RATIO), ("efficiency", EFFICIENCY)):
        if pattern.search(leaf):
            return name
    return None


def with_classes(text: str) -> str:
    """The default mapping with ``tolerance:`` added to the fields that have a class."""
    lines = []
    for line in text.splitlines():
        path = re.search(r'path: "?([\w.\[\]]+)', line)
        name = class_of(path.group(1), line) if path else None
        if name:
            line = line.replace("type: number", f"type: number, tolerance: {name}")
        lines.append(line)
    body = "\n".join(line for line in lines if not line.startswith("#"))
    return HEADING + body.lstrip("\n") + "\n"


def main() -> int:
    """Write the file."""
    source = (SCHEMAS / "field_mapping.yaml").read_text(encoding="utf-8")
    (SCHEMAS / "field_mapping_classes.yaml").write_text(with_classes(source), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
