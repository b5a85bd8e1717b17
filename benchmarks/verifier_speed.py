"""How long the verifier takes: 1,000 records of 300 fields, and lists of 100 windows.

Run from the repository root: ``python benchmarks/verifier_speed.py [RECORDS]``. One core; the windows are
shuffled, and in the hard case share names and content, so that the assignment has work to do.
"""

from __future__ import annotations

import copy
import os
import random
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

from pcsuite.verifier.compare import compare_records
from pcsuite.verifier.mapping import load_mapping

WINDOW_FIELDS = 9


def building(windows: int, rng: random.Random, alike: bool = False) -> dict:
    """A record with so many windows and 30 further fields."""
    return {
        "project": {"address": "1 Nowhere", "city": "X", "climate_zone": 3, "stories": 1, "bedrooms": 3},
        "envelope": {"conditioned_floor_area": 1500.0, "window_area": 200.0, "exterior_wall_area": 1400.0},
        "zones": [
            {"name": f"Zone {n}", "floor_area": 700.0, "volume": 6300.0, "status": "New"} for n in range(3)
        ],
        "walls": [{"name": f"W{n}", "area": 300.0, "tilt": 90.0, "orientation": 90.0 * n} for n in range(3)],
        "windows": [
            {
                "name": "Window" if alike else f"W{n}",
                "wall": f"W{n % 4}",
                "status": "New",
                "azimuth": float(90 * (n % 4)),
                "multiplier": 1,
                "area": 20.0 if alike and n % 3 else round(rng.uniform(4, 40), 2),
                "u_factor": 0.3,
                "shgc": 0.23,
                "exterior_shade": "Insect Screen (default)",
            }
            for n in range(windows)
        ],
    }


def damaged(record: dict, rng: random.Random) -> dict:
    """The record as a model might extract it: shuffled, some values wrong, one window gone, one invented."""
    result = copy.deepcopy(record)
    rng.shuffle(result["windows"])
    for window in rng.sample(result["windows"], k=len(result["windows"]) // 5):
        window["area"] *= 1.2
    result["windows"][0] = {"name": "Invented", "area": 1.0}
    return result


def measure(title: str, windows: int, records: int, alike: bool = False) -> float:
    """Compare so many different records; print and return the seconds for 1,000."""
    rng = random.Random(1337)
    mapping = load_mapping()
    pairs = []
    for _ in range(records):
        truth = building(windows, rng, alike)
        pairs.append((truth, damaged(truth, rng)))
    fields = compare_records(*pairs[0], mapping).counts.as_dict()["total_fields_gt"]
    start = time.process_time()
    for truth, extracted in pairs:
        compare_records(truth, extracted, mapping)
    seconds = (time.process_time() - start) * 1000 / records
    print(f"{title:<44} {fields:>4} fields  {seconds:6.2f} s of CPU per 1,000 records")
    return seconds


def main() -> int:
    """Run the three cases."""
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    measure("30 windows", 30, records)
    measure("100 windows", 100, records)
    measure("100 windows of one name, much alike (hard)", 100, max(10, records // 20), alike=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
