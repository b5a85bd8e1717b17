"""Write the JSON schemas of BuildingSpec: the record's into the package, the extraction's beside the other tasks'.

Run after changing the model or the mapping.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pcsuite.verifier.tree import buildingspec_schema, extraction_schema

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Write both files."""
    for path, schema in (
        (ROOT / "src/pcsuite/verifier/schemas/buildingspec.schema.json", buildingspec_schema()),
        (ROOT / "configs/schemas/buildingspec_json.json", extraction_schema()),
    ):
        path.write_text(json.dumps(schema, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
