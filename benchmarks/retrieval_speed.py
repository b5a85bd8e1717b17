"""BM25 over FEVER's pages: time to build and to answer, and recall of gold pages.

    pcsuite export-datasets --from DIR --only fever --cache-dir .cache
    python benchmarks/retrieval_speed.py --cache-dir .cache

A claim counts where at least one of its evidence sets lies wholly on pages of the corpus. The query is the
claim as it stands. "any" asks for one gold page among the pages of the k best sentences, "whole set" for all
pages of one evidence set.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from pcsuite.data.items import load_items
from pcsuite.retrieval.bm25_local import Bm25Index, ensure_index, find_pages, read_pages


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache-dir", type=Path, default=Path(".cache"))
    parser.add_argument("--claims", type=int, default=None, help="only the first N claims")
    args = parser.parse_args()
    source = find_pages("fever", args.cache_dir)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        built = ensure_index(source.path, Path(folder))
        print(f"built in {time.perf_counter() - started:.2f} s from {source.path.name} ({source.describe()})")
        started = time.perf_counter()
        index = Bm25Index(built)
        print(f"opened in {(time.perf_counter() - started) * 1000:.0f} ms: {len(index):,} sentences")
        report(index, source.path, args)


def report(index: Bm25Index, pages: Path, args: argparse.Namespace) -> None:
    present = {page for page, _ in read_pages(pages)}
    times: list[float] = []
    hits = {(k, kind): 0 for k in (1, 5, 10) for kind in ("any", "whole set")}
    claims = 0
    for item in load_items("fever", "dev", args.cache_dir).items[: args.claims]:
        sets = [{row["page"] for row in rows} for rows in item.truth["evidence_sets"]]
        usable = [pages for pages in sets if pages and pages <= present]
        if not usable:
            continue
        claims += 1
        started = time.perf_counter()
        found = [passage.page for passage in index.search(item.input_text, 10)]
        times.append(time.perf_counter() - started)
        for k in (1, 5, 10):
            shown = set(found[:k])
            hits[k, "any"] += any(pages & shown for pages in usable)
            hits[k, "whole set"] += any(pages <= shown for pages in usable)
    milliseconds = [seconds * 1000 for seconds in times]
    print(
        f"search: median {statistics.median(milliseconds):.2f} ms, "
        f"95th percentile {statistics.quantiles(milliseconds, n=20)[-1]:.2f} ms"
    )
    print(f"gold pages over {claims:,} verifiable claims whose pages are present:")
    for (k, kind), count in hits.items():
        print(f"  recall@{k:<2} ({kind}): {count / claims:.3f}")


if __name__ == "__main__":
    main()
