"""Write the synthetic evals and the items of ``buildingspec_json`` into the package.

Run from the repository root: ``python -m scripts.make_buildingspec_samples [FOLDER]``. The output depends on
nothing but these files; a test holds the committed samples to it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.tree import compared_record
from scripts.buildingspec import damage
from scripts.buildingspec.assemble import Building, assemble
from scripts.buildingspec.buildings import BUILDINGS
from scripts.buildingspec.csv_export import DetailedReportWriter
from scripts.buildingspec.form import form
from scripts.buildingspec.narrative import narrative
from scripts.buildingspec.schedules import schedules

SAMPLES = Path(__file__).resolve().parents[1] / "src" / "pcsuite" / "data" / "samples"
STYLES = {"narrative": narrative, "form": form, "schedules": schedules}
EXTRACTIONS = {
    "extracted.json": damage.good,
    "extracted_perfect.json": damage.perfect,
    "extracted_poor.json": damage.poor,
}
SPLITS = ("test", "dev", "train")


def truth_bytes(building: Building, record: dict[str, Any]) -> bytes:
    """The truth file in the building's dialect; between them the samples have every encoding and line end."""
    text = DetailedReportWriter(building.dialect).write(record)
    if building.dialect == "raw":
        return text.replace("\n", "\r\n").encode("ascii")
    if not text.isascii():
        return text.replace("\n", "\r\n").encode("latin-1")
    return text.encode("utf-8-sig" if building.split == "test" else "utf-8")


def to_json(value: Any) -> str:
    """Readable JSON."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def write_eval(folder: Path, building: Building) -> dict[str, Any]:
    """Write one eval; return its item."""
    record = assemble(building)
    compared = compared_record(record, load_mapping())
    document = STYLES[building.style](building, record)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ground_truth.csv").write_bytes(truth_bytes(building, record))
    (folder / "document.txt").write_bytes(document.encode("utf-8"))
    quality: dict[str, Any] = {}
    for name, make in EXTRACTIONS.items():
        extraction, errors = make(compared)
        (folder / name).write_bytes(to_json(extraction).encode("utf-8"))
        quality[name] = errors
    (folder / "quality.json").write_bytes(to_json(quality).encode("utf-8"))
    return {"item_id": building.id, "input_text": document, "truth": {"record": compared}}


def main(arguments: list[str]) -> int:
    """Write everything below a folder, by default the package's samples."""
    root = Path(arguments[0]) if arguments else SAMPLES
    items: dict[str, list[str]] = {split: [] for split in SPLITS}
    for building in BUILDINGS:
        item = write_eval(root / "buildingspec" / building.id, building)
        items[building.split].append(json.dumps(item, ensure_ascii=False))
    for split, lines in items.items():
        (root / f"buildingspec_{split}.jsonl").write_bytes(("\n".join(lines) + "\n").encode("utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
