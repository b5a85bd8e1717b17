"""``manifest.json``: what was exported from what. It has no times and no machine paths, so that two exports
of the same sources are the same bytes."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pcsuite import __version__
from pcsuite.data.export.base import Asset, Output
from pcsuite.data.export.files import sha256_file
from pcsuite.data.jsonl import dump_line
from pcsuite.errors import DataError

MANIFEST = "manifest.json"


def write_output(folder: Path, output: Output) -> dict[str, Any]:
    """Write one file whole or not at all; returns its record count and hash. Repeated ids are refused."""
    path = folder / f"{output.stem}.jsonl"
    partial = path.with_suffix(".jsonl.partial")
    digest = hashlib.sha256()
    seen: set[str] = set()
    count = 0
    try:
        with partial.open("wb") as stream:
            for row in output.rows:
                item_id = str(row.get("item_id", row.get("page", count)))
                if item_id in seen:
                    raise DataError(
                        f"{output.stem}: two records have the id '{item_id}'",
                        hint="is the source file doubled?",
                    )
                seen.add(item_id)
                line = dump_line(row).encode("utf-8")
                digest.update(line)
                stream.write(line)
                count += 1
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return {"records": count, "sha256": digest.hexdigest()}


def copy_assets(folder: Path, assets: Iterable[Asset]) -> dict[str, dict[str, str]]:
    """Copy files that items refer to; returns their hashes."""
    hashes: dict[str, dict[str, str]] = {}
    for asset in assets:
        target = folder / asset.target
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(target.name + ".partial")
        shutil.copyfile(asset.source, partial)
        partial.replace(target)
        hashes[asset.target] = {"sha256": sha256_file(target)}
    return hashes


def read_manifest(folder: Path) -> dict[str, Any]:
    """Entries of earlier exports, by dataset."""
    path = folder / MANIFEST
    if not path.is_file():
        return {}
    try:
        datasets = json.loads(path.read_text(encoding="utf-8"))["datasets"]
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is damaged ({error})", hint="delete it and export again") from error
    if not isinstance(datasets, dict):
        raise DataError(f"{path} is damaged", hint="delete it and export again")
    return datasets


def write_manifest(folder: Path, datasets: dict[str, Any]) -> None:
    """Write the entries, sorted."""
    content = {"format": 1, "datasets": datasets}
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    partial = folder / f"{MANIFEST}.partial"
    partial.write_text(text, encoding="utf-8")
    partial.replace(folder / MANIFEST)


def remove_stale(folder: Path, earlier: dict[str, Any], entry: dict[str, Any]) -> None:
    """Remove files an earlier export of the dataset wrote and this one did not, if nobody changed them."""
    for name, facts in earlier.get("outputs", {}).items():
        path = folder / name
        if name not in entry["outputs"] and path.is_file() and sha256_file(path) == facts["sha256"]:
            path.unlink()


def dataset_entry(
    road: str,
    sources: list[dict[str, Any]],
    counts: dict[str, dict[str, int]],
    outputs: dict[str, Any],
    assets: dict[str, Any],
    options: dict[str, Any],
    notes: list[str],
) -> dict[str, Any]:
    """The manifest's entry of one dataset."""
    return {
        "pcsuite_version": __version__,
        "road": road,
        "sources": sources,
        "counts": counts,
        "outputs": outputs,
        "assets": assets,
        "options": options,
        "notes": notes,
    }
