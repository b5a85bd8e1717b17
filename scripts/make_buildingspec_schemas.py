"""Write the JSON schemas of BuildingSpec into the package. Run from the repository root after changing the model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pcsuite.verifier.schema import buildingspec_schema, extraction_schema

SCHEMAS = Path(__file__).resolve().parents[1] / "src" / "pcsuite" / "verifier" / "schemas"


def main() -> int:
    """Write both files."""
    for name, schema in (
        ("buildingspec.schema.json", buildingspec_schema()),
        ("buildingspec_extraction.schema.json", extraction_schema()),
    ):
        (SCHEMAS / name).write_text(json.dumps(schema, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
