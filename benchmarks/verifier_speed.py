"""How long the verifier takes: 1,000 records of 300 fields, lists of 100 windows, and of 1,000 to 50,000 items.

Run from the repository root: ``python benchmarks/verifier_speed.py [RECORDS]``. One core; the windows are
shuffled, and in the hard case share names and content, so that the assignment has work to do. For long lists the
figure to read is the growth: fifty times as many windows take fifty times as long where pairing is linear, and 2,500
times where each is compared with each.
"""

from __future__ import annotations

import copy
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from pcsuite.verifier.compare import compare_records
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.report import render_report
from pcsuite.verifier.results import Rules, results_document, score_bytes
from pcsuite.verifier.store import summarise, to_json
from pcsuite.verifier.truth import Truth

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


def renamed(windows: list[dict], rng: random.Random) -> list[dict]:
    """The same windows under other names, one value of every fifth wrong."""
    result = [{**window, "name": f"Unit {window['name'][1:]}x"} for window in windows]
    for window in rng.sample(result, k=len(result) // 5):
        window["shgc"] = 0.9
    return result


LONG_LISTS: dict[str, Callable[[list[dict], random.Random], list[dict]]] = {
    "distinct, shuffled": lambda windows, rng: [dict(window) for window in windows],
    "renamed, a fifth damaged": renamed,
    "all alike": lambda windows, rng: [dict(window) for window in windows],
}


def long_list(title: str, windows: int) -> float:
    """Compare one record with a long list; print and return the seconds of CPU."""
    rng = random.Random(7)
    truth = building(windows, rng)
    if title == "all alike":
        truth["windows"] = [dict(truth["windows"][0]) for _ in range(windows)]
    extracted = copy.deepcopy(truth) | {"windows": LONG_LISTS[title](truth["windows"], rng)}
    rng.shuffle(extracted["windows"])
    mapping = load_mapping()
    start = time.process_time()
    comparison = compare_records(truth, extracted, mapping)
    seconds = time.process_time() - start
    print(f"{windows:>6} windows, {title:<26} {seconds:6.2f} s of CPU, {comparison.counts.f1:.3f} F1")
    return seconds


KEYED = """
tolerances: {default: {absolute: 0.005}}
tables:
  - path: items
    key: [item]
    columns:
      - {path: item, type: text}
      - {path: issued, type: date}
      - {path: price, type: money, currency: EUR}
      - {path: qty, type: integer}
      - {path: note, type: fuzzy}
"""
WORDS = [first + last for first in ("bar", "cor", "del", "fen", "gal", "hol", "mor", "pen", "rus", "tal") for last in
         ("ak", "bin", "dor", "esk", "ford", "gate", "ham", "lin", "mer", "ton")]  # fmt: skip


def keyed_list(items: int, damage: str) -> float:
    """Compare one record with a long list whose mapping names a key; print and return the seconds of CPU."""
    rng = random.Random(11)
    truth = [
        {
            "item": f"{rng.choice(WORDS)} {rng.choice(WORDS)} {rng.choice(WORDS)}{rng.choice(WORDS)}",
            "issued": f"2026-{n % 12 + 1:02d}-{n % 28 + 1:02d}",
            "price": round(rng.uniform(1, 500), 2),
            "qty": rng.randint(1, 60),
            "note": f"{rng.choice(WORDS)} {rng.choice(WORDS)} to be sent on",
        }
        for n in range(items)
    ]
    extracted = [dict(one) for one in truth]
    for one in extracted:
        one["issued"] = "{2}.{1}.{0}".format(*one["issued"].split("-"))
        one["price"] = f"{one['price']:.2f} EUR"
    changed = rng.sample(extracted, items // 5) if damage == "a fifth misspelt" else extracted
    for one in changed if damage != "equal keys" else ():
        at = rng.randrange(1, len(one["item"]) - 1)
        one["item"] = one["item"][:at] + one["item"][at + 1 :]
    rng.shuffle(extracted)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keyed.yaml"
        path.write_text(KEYED, encoding="utf-8")
        mapping = load_mapping(path)
    compare_records(
        {"items": truth[:10]}, {"items": extracted[:10]}, mapping
    )  # what is loaded on first use is loaded
    start = time.process_time()
    comparison = compare_records({"items": truth}, {"items": extracted}, mapping)
    seconds = time.process_time() - start
    errors = comparison.counts.errors_by_type()
    print(
        f"{items:>6} keyed items, {damage:<23} {seconds:6.2f} s of CPU, {errors['omission']} omitted,"
        f" {errors['wrong_value']} wrong"
    )
    return seconds


def whole_verification(windows: int) -> None:
    """Everything that ``pcsuite verify`` does with a long list but reading the truth: parse, score, document, page."""
    rng = random.Random(7)
    truth, mapping = building(windows, rng), load_mapping()
    data = json.dumps(damaged(truth, rng)).encode()
    rules = Rules(Truth(truth, (), "benchmark"), mapping)
    start = time.process_time()
    scored = score_bytes(data, rules, "benchmark", strict=True)
    document = results_document(scored, rules, "benchmark", 1)
    entry = {"iteration": 1, "f1": document["metrics"]["f1"], "rules_hash": rules.rules_hash}
    page = render_report(document, summarise("benchmark", [entry], rules.rules_hash), scored.comparison)
    size = len(to_json(document)) / 1e6
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{windows:>6} windows, results and page: {seconds:.2f} s of CPU, {size:.1f} MB of results,"
        f" {len(page) / 1e6:.1f} MB of page, peak memory of this process {peak:.0f} MB"
    )


def main() -> int:
    """Run the cases."""
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    measure("30 windows", 30, records)
    measure("100 windows", 100, records)
    measure("100 windows of one name, much alike (hard)", 100, max(10, records // 20), alike=True)
    for title in LONG_LISTS:
        long_list(title, 1_000)  # what is loaded on first use is loaded
        short, long = long_list(title, 1_000), long_list(title, 50_000)
        print(f"       50 times as many take {long / short:.0f} times as long")
    for damage in ("equal keys", "a fifth misspelt", "all misspelt"):
        keyed_list(10_000, damage)
    whole_verification(50_000)
    return 0


if __name__ == "__main__":
    sys.exit(main())
