"""How long the pages of ``pcsuite view`` take over a large run: the server's time for each, and its memory.

OMP_NUM_THREADS=1 python benchmarks/view_scale.py                   # 100,000 rows, written as report_scale.py does
OMP_NUM_THREADS=1 python benchmarks/view_scale.py --rows 1000000
OMP_NUM_THREADS=1 python benchmarks/view_scale.py --rows 10000000 --rotate-mb 512 --dir DISK
OMP_NUM_THREADS=1 python benchmarks/view_scale.py --folder outputs  # the newest run of a folder, as it is
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import shutil
import tempfile
import time
from pathlib import Path

from report_scale import write_log

from pcsuite.view.bundle import HOST, _get
from pcsuite.view.figures import prepare_drawing
from pcsuite.view.filters import address
from pcsuite.view.runs import list_runs
from pcsuite.view.server import make_app
from pcsuite.view.serving import MAX_WAIT_S
from pcsuite.view.viewer import Viewer

TIMES = 3
"""Each page is asked for so often: the first time, when what it needs is read, and the shortest are printed."""


def pages_of(viewer: Viewer, name: str) -> dict[str, str]:
    """Addresses of the pages that are measured, of the run's first task."""
    run = viewer.run(name)
    task, values = next(iter(run.values.items()))
    first, last = values["condition"][0], values["condition"][-1]
    item = run.query("SELECT min(item_id) FROM cells WHERE task_id = ?", [task])[0][0]
    page = f"/run/{name}"
    sampled = {"decoding": values["decoding"][-1]}
    return {
        "overview": "/",
        "matrix, first page": page,
        f"filter: fixed by {last}": address(page, {"only": f"fixed:{last}"}),
        "filter: where they differ": address(page, {"only": "differ", **sampled}),
        f"sort by gain of {last}": address(page, {"sort": f"-gain:{last}"}),
        "last page of items": address(page, {"page": 999_999_999}),
        "a range of lengths": address(page, {"tokens_from": 1, "tokens_to": 100_000}),
        "search in answers": address(page, {"q": "Sports"}),
        "operators and effects": f"{page}/operators",
        "figures": f"{page}/figures",
        "further figures": f"{page}/figures?part=further",
        "head to head": address(f"{page}/scatter", {"x": first, "y": last}),
        "one item": f"{page}/item/{task}/{item}",
    }


def first_items(folder: Path, name: str) -> None:
    """How soon a server shows items of a run, and all of it, as a browser asks that comes back every second."""
    viewer = Viewer(folder, max_wait=MAX_WAIT_S)
    app = make_app(viewer, token=None, hosts=frozenset({HOST}))
    started = time.perf_counter()
    shown = None
    while True:
        status, text = asyncio.run(_get(app, f"/run/{name}"))
        seconds = time.perf_counter() - started
        if status == 200 and shown is None:
            shown = seconds
        if status == 200 and "data-reading" not in text:
            break
        time.sleep(1)
    viewer.close()
    print(f"items on a page after {shown:.1f} s, all of the log after {seconds:.1f} s", flush=True)


def measure(folder: Path) -> None:
    """Open the newest run of a folder twice, from its log and from its Parquet, and ask for every page."""
    prepare_drawing()  # as the server does while a reader looks around
    name = list_runs(folder)[0].name
    started = time.perf_counter(), time.process_time()
    viewer = Viewer(folder)
    rows = viewer.run(name).summary().rows
    taken = time.perf_counter() - started[0], time.process_time() - started[1]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{rows:,} rows: opened in {taken[0]:.1f} s, {taken[1]:.1f} s CPU, {memory:.0f} MiB"
        " (log to Parquet, where it is new)",
        flush=True,
    )
    viewer.close()
    viewer = Viewer(folder)
    app = make_app(viewer, token=None, hosts=frozenset({HOST}))

    def asked(place: str) -> tuple[float, float, int]:
        begun = time.perf_counter(), time.process_time()
        status, text = asyncio.run(_get(app, place))
        assert status == 200, text[-300:]
        return (time.perf_counter() - begun[0]) * 1000, (time.process_time() - begun[1]) * 1000, len(text)

    wall, cpu, _ = asked(f"/run/{name}")
    print(f"{'first page of a new server':28s} {wall:7.0f} ms  {cpu:7.0f} ms CPU")
    print(f"{'':28s} {'first time':>24s}  {'again':>24s}")
    for about, place in pages_of(viewer, name).items():
        tries = [asked(place) for _ in range(TIMES)]
        times = "  ".join(f"{wall:7.0f} ms {cpu:7.0f} ms CPU" for wall, cpu, _ in (tries[0], min(tries)))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{about:28s} {times}  {tries[0][2] / 1000:7.0f} kB  {memory:7.0f} MiB so far", flush=True)
    viewer.close()


def main() -> None:
    """Write a run, or take one that is there, and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rotate-mb", type=float, help="close and compress the log at this size")
    parser.add_argument("--dir", type=Path, help="where the run is written (default: a temporary folder)")
    parser.add_argument("--folder", type=Path, help="output folder whose newest run is opened")
    parser.add_argument("--first", action="store_true", help="measure only how soon items are shown")
    args = parser.parse_args()
    if args.folder is not None:
        measure(args.folder)
        return
    with tempfile.TemporaryDirectory(dir=args.dir) as name:
        (Path(name) / "runs").mkdir()
        write_log(Path(name) / "runs" / "big.jsonl", args.rows, args.rotate_mb)
        first_items(Path(name), "big")
        if not args.first:
            shutil.rmtree(Path(name) / "view")
            measure(Path(name))


if __name__ == "__main__":
    main()
