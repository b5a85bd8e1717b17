"""Storing answers in the response cache, against the layout clustered by the key's hash that it had.

    python benchmarks/cache_layout.py --answers 200000

Both sides write the same answers in batches of 512 into a file of their own, in turns; printed are microseconds an
answer of each, over all and over the last tenth (when the files are large), and their ratio.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
import time
from hashlib import sha256
from pathlib import Path

from pcsuite.engines.response_cache import FLUSH_EVERY, ResponseCache

CLUSTERED = """
PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 8192;
CREATE TABLE responses (
    key TEXT PRIMARY KEY, value BLOB NOT NULL, bytes INTEGER NOT NULL, used REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX responses_by_use ON responses (used);
"""


def main() -> None:
    """Measure and print one JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--answers", type=int, default=100_000)
    parser.add_argument("--characters", type=int, default=600, help="of an answer")
    args = parser.parse_args()
    text = "An answer of a model that says what it was asked. " * (args.characters // 50)
    usage = {"prompt_tokens": 300, "completion_tokens": 120, "total_tokens": 420}
    generation = {"text": text, "finish_reason": "stop", "latency_ms": 12.5, "usage": usage}
    value = json.dumps(generation).encode()
    seconds: dict[str, list[float]] = {"clustered": [], "in order": []}
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(Path(folder) / "clustered", isolation_level=None)
        database.executescript(CLUSTERED)
        with ResponseCache(Path(folder) / "ordered", clock=lambda: 0.0) as cache:
            for start in range(0, args.answers, FLUSH_EVERY):
                keys = [
                    sha256(str(number).encode()).hexdigest() for number in range(start, start + FLUSH_EVERY)
                ]
                began = time.perf_counter()
                database.execute("BEGIN IMMEDIATE")
                for key in keys:
                    stored = (key, json.dumps(generation).encode(), len(value) + 96, time.time())
                    database.execute("INSERT OR IGNORE INTO responses VALUES (?, ?, ?, ?)", stored)
                database.execute("COMMIT")
                between = time.perf_counter()
                for key in keys:
                    cache.put(key, generation)
                seconds["clustered"].append(between - began)
                seconds["in order"].append(time.perf_counter() - between)
        database.close()
    tenth = max(1, len(seconds["clustered"]) // 10)
    micros = {name: (sum(each) / len(each), sum(each[-tenth:]) / tenth) for name, each in seconds.items()}
    result = {
        "answers": args.answers,
        "microseconds": {
            name: [round(1e6 * mean / FLUSH_EVERY, 1) for mean in each] for name, each in micros.items()
        },
        "ratio": [round(a / b, 2) for a, b in zip(micros["clustered"], micros["in order"], strict=True)],
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
