"""How long a fresh copy of a folder takes, against ``shutil.copytree`` and ``cp -a --reflink=auto`` in the same run.

    python benchmarks/folder_copies.py [--files 5000] [--large-mb 200] [--repeats 3]

Two templates: many small files in a hundred folders, and one large file. Each way copies each of them in turn; printed
is the median, as seconds and as a ratio to ``copytree``, with what looking for changes and removing the copy take.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pcsuite._util.folder_template import Template
from pcsuite.engines.targets.workspaces import Workspaces, remove_tree


def many_files(folder: Path, count: int) -> None:
    for number in range(count):
        below = folder / f"package_{number % 100}"
        below.mkdir(parents=True, exist_ok=True)
        (below / f"module_{number}.py").write_text(f"value = {number}\n" * 40)


def one_file(folder: Path, megabytes: int) -> None:
    folder.mkdir()
    with (folder / "data.bin").open("wb") as stream:
        for number in range(megabytes):
            stream.write(number.to_bytes(2, "big") * (1 << 19))


def seconds(job: Callable[[], object]) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def measure(template: Path, where: Path, repeats: int) -> None:
    copies = Workspaces(Template.read(template), where / "copies")
    target = where / "target"
    ways: dict[str, list[float]] = {
        "copytree": [],
        "cp -a": [],
        "a call's copy": [],
        "changes": [],
        "removing": [],
    }
    for _ in range(repeats):
        ways["copytree"].append(seconds(lambda: shutil.copytree(template, target, symlinks=True)))
        remove_tree(target)
        if sys.platform == "linux":
            words = ["cp", "-a", "--reflink=auto", str(template), str(target)]
            ways["cp -a"].append(seconds(partial(subprocess.run, words, check=True)))
            remove_tree(target)
        started = time.perf_counter()
        copy = copies.take()
        ways["a call's copy"].append(time.perf_counter() - started)
        ways["changes"].append(seconds(copy.changes))
        ways["removing"].append(seconds(copy.drop))
    copies.close()
    usual = statistics.median(ways["copytree"])
    for name, times in ways.items():
        if times:
            middle = statistics.median(times)
            print(f"  {name:<14} {middle:8.3f} s  {middle / usual:5.2f} × copytree")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--large-mb", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pcsuite-copies-") as scratch:
        where = Path(scratch)
        many_files(where / "many", args.files)
        one_file(where / "large", args.large_mb)
        for name, words in (("many", f"{args.files:,} files"), ("large", f"one file of {args.large_mb} MB")):
            print(f"{words}:")
            measure(where / name, where, args.repeats)


if __name__ == "__main__":
    main()
