"""How long the pages of ``pcsuite view`` take over a large run: the server's time for each, and its memory.

Run: OMP_NUM_THREADS=1 python benchmarks/view_scale.py [rows]
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from pcsuite.view.bundle import HOST, _get
from pcsuite.view.data import Viewer
from pcsuite.view.server import make_app
from support.synthetic_log import Design, design_rows, write_log

CONDITIONS = ("C0", "C1", "C2", "C3", "C4", "C5", "C6")
PAGES = {
    "overview": "/",
    "matrix, first page": "/run/big",
    "filter: fixed by C4": "/run/big?only=fixed%3AC4",
    "filter: where they differ": "/run/big?only=differ&decoding=D1",
    "sort by gain of C6": "/run/big?sort=-gain%3AC6",
    "search in answers": "/run/big?q=Sports",
    "operators and effects": "/run/big/operators",
    "head to head": "/run/big/scatter?x=C0&y=C6",
    "one item": "/run/big/item/agnews_json/{item}",
}


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    per_item = len(CONDITIONS) * 4
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        design = Design(items=rows // per_item, conditions=CONDITIONS)
        write_log(folder / "runs" / "big.jsonl", design_rows(design))
        viewer = Viewer(folder)
        app = make_app(viewer, token=None, hosts=frozenset({HOST}))
        started = time.perf_counter()
        viewer.run("big")
        print(f"{rows:,} rows: opened in {time.perf_counter() - started:.1f} s (log to Parquet included)")
        viewer.close()
        viewer = Viewer(folder)
        app = make_app(viewer, token=None, hosts=frozenset({HOST}))
        started = time.perf_counter()
        asyncio.run(_get(app, "/run/big"))
        print(f"{'first page of a new server':28s} {(time.perf_counter() - started) * 1000:7.0f} ms")
        item = viewer.run("big").query("SELECT min(item_id) FROM cells")[0][0]
        for about, address in PAGES.items():
            times = []
            for _ in range(3):
                started = time.perf_counter()
                status, text = asyncio.run(_get(app, address.format(item=item)))
                times.append(time.perf_counter() - started)
                assert status == 200, text[-300:]
            print(f"{about:28s} {min(times) * 1000:7.0f} ms  {len(text) / 1000:7.0f} kB")
        print(f"memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
        viewer.close()


if __name__ == "__main__":
    main()
