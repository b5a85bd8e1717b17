"""Running exporters: choose the road, check counts, write files, keep the manifest."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcsuite import __version__
from pcsuite._util.files import replace_atomically, replacing, sha256_file
from pcsuite.data.export.ag_news import AgNewsExporter
from pcsuite.data.export.arithmetic import Gsm8kExporter, SvampExporter
from pcsuite.data.export.base import (
    Asset,
    Exporter,
    ExportOptions,
    HubTables,
    OriginalFiles,
    Output,
)
from pcsuite.data.export.conll import ConllExporter
from pcsuite.data.export.fever import FeverExporter
from pcsuite.data.export.questions import (
    BoolQExporter,
    CommonsenseQaExporter,
    NqOpenExporter,
    StrategyQaExporter,
    TrecExporter,
)
from pcsuite.data.export.spider import SpiderExporter
from pcsuite.data.export.truthful_qa import TruthfulQaExporter, TruthfulQaMcExporter
from pcsuite.data.items import datasets_dir, dump_line
from pcsuite.errors import DataError, MissingExtraError, PcsuiteError, did_you_mean

# ``manifest.json``: what was exported from what. It has no times and no machine paths, so that two exports
# of the same sources are the same bytes.


MANIFEST = "manifest.json"


def write_output(folder: Path, output: Output) -> dict[str, Any]:
    """Write one file whole or not at all; returns its record count and hash. Repeated ids are refused."""
    path = folder / f"{output.stem}.jsonl"
    digest = hashlib.sha256()
    seen: set[str] = set()
    count = 0
    with replacing(path) as partial, partial.open("wb") as stream:
        for row in output.rows:
            item_id = str(row.get("item_id", row.get("page", count)))
            if item_id in seen:
                raise DataError(
                    f"{output.stem}: two records have the id '{item_id}'", hint="is the source file doubled?"
                )
            seen.add(item_id)
            line = dump_line(row).encode("utf-8")
            digest.update(line)
            stream.write(line)
            count += 1
    return {"records": count, "sha256": digest.hexdigest()}


def copy_assets(folder: Path, assets: Iterable[Asset]) -> dict[str, dict[str, str]]:
    """Copy files that items refer to; returns their hashes."""
    hashes: dict[str, dict[str, str]] = {}
    for asset in assets:
        target = folder / asset.target
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as partial:
            shutil.copyfile(asset.source, partial)
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
    replace_atomically(folder / MANIFEST, text)


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


EXPORTERS: Mapping[str, Exporter[Any]] = {
    exporter.name: exporter
    for exporter in (
        ConllExporter(),
        AgNewsExporter(),
        Gsm8kExporter(),
        CommonsenseQaExporter(),
        TruthfulQaExporter(),
        TruthfulQaMcExporter(),
        FeverExporter(),
        SpiderExporter(),
        SvampExporter(),
        StrategyQaExporter(),
        BoolQExporter(),
        TrecExporter(),
        NqOpenExporter(),
    )
}

Progress = Callable[[str], None]


@dataclass(slots=True)
class ExportResult:
    """What happened to one dataset: exported, skipped (not there) or failed."""

    dataset: str
    outputs: dict[str, int] = field(default_factory=dict)
    """Records of each file written."""
    notes: list[str] = field(default_factory=list)
    skipped: str | None = None
    error: PcsuiteError | None = None


def export_datasets(
    cache_dir: Path,
    *,
    from_dir: Path | None = None,
    hub_dir: Path | None = None,
    only: Sequence[str] | None = None,
    options: ExportOptions | None = None,
    progress: Progress = lambda _line: None,
) -> list[ExportResult]:
    """Export datasets to ``<cache_dir>/datasets``; a dataset that fails does not keep the others.

    With ``from_dir`` the original files are read, otherwise the hub's tables (from ``hub_dir`` if given).
    Datasets that are not under the folder are skipped unless ``only`` names them.
    """
    if from_dir is not None and hub_dir is not None:
        raise DataError("--from and --hub-dir are two roads to the same files", hint="give one of them")
    for folder in (from_dir, hub_dir):
        if folder is not None and not folder.is_dir():
            raise DataError(f"{folder} is not a folder")
    settings = options if options is not None else ExportOptions()
    target = datasets_dir(cache_dir)
    target.mkdir(parents=True, exist_ok=True)
    entries = read_manifest(target)
    results = []
    for exporter in _chosen(only):
        progress(f"{exporter.name} …")
        result = _export_one(exporter, target, entries, from_dir, hub_dir, only is not None, settings)
        results.append(result)
        if result.error is None and result.skipped is None:
            write_manifest(target, entries)
    if all(result.skipped for result in results):
        place = from_dir if from_dir is not None else hub_dir
        raise DataError(
            f"no dataset found under {place}",
            hint=f"expected folders such as {', '.join(e.folders[0] for e in list(EXPORTERS.values())[:4])}",
        )
    return results


def _chosen(only: Sequence[str] | None) -> list[Exporter[Any]]:
    if only is None:
        return list(EXPORTERS.values())
    for name in only:
        if name not in EXPORTERS:
            raise DataError(f"unknown dataset '{name}'", hint=did_you_mean(name, EXPORTERS))
    return [EXPORTERS[name] for name in dict.fromkeys(only)]


def _export_one(
    exporter: Exporter[Any],
    target: Path,
    entries: dict[str, Any],
    from_dir: Path | None,
    hub_dir: Path | None,
    named: bool,
    options: ExportOptions,
) -> ExportResult:
    result = ExportResult(exporter.name)
    try:
        absent = _absence(exporter, from_dir, hub_dir, options)
        if absent is not None and not named:
            result.skipped = absent
        elif absent is not None and from_dir is not None:
            raise DataError(f"{exporter.name}: {absent}")
        else:
            _write(exporter, target, entries, from_dir, hub_dir, options, result)
    except MissingExtraError:
        raise
    except PcsuiteError as error:
        result.error = error
    return result


def _absence(
    exporter: Exporter[Any], from_dir: Path | None, hub_dir: Path | None, options: ExportOptions
) -> str | None:
    """Why the source has nothing for this exporter, or ``None`` if it has."""
    if from_dir is not None:
        if _folder(exporter, from_dir) is None:
            return f"no folder {' or '.join(exporter.folders)} under {from_dir}"
        return None
    if exporter.name == "spider" and options.spider_dir is None:
        return "the hub does not carry its databases (--spider-dir DIR)"
    if hub_dir is None:
        return "no hub table with the published split" if exporter.name == "strategyqa" else None
    shared = "truthful_qa" if exporter.name == "truthful_qa_mc" else exporter.name
    return None if (hub_dir / shared).is_dir() else f"no folder {shared} under {hub_dir}"


def _folder(exporter: Exporter[Any], root: Path) -> Path | None:
    return next((root / name for name in exporter.folders if (root / name).is_dir()), None)


def _write(
    exporter: Exporter[Any],
    target: Path,
    entries: dict[str, Any],
    from_dir: Path | None,
    hub_dir: Path | None,
    options: ExportOptions,
    result: ExportResult,
) -> None:
    source: OriginalFiles | HubTables
    if from_dir is not None:
        folder = _folder(exporter, from_dir)
        assert folder is not None
        source = files = OriginalFiles(from_dir, folder)
        records = exporter.read_files(files, options)
    else:
        source = hub = HubTables(hub_dir)
        records = exporter.read_hub(hub, options)
    names = source.split_files if isinstance(source, OriginalFiles) else {}
    counts, partial = _check_counts(exporter, records, names, options)
    built = exporter.build(records, options)
    partial += built.missing
    if partial and not options.allow_partial:
        raise DataError(
            "; ".join(partial), hint="complete the files, or accept them as they are with --allow-partial"
        )
    facts = {f"{output.stem}.jsonl": write_output(target, output) for output in built.outputs}
    assets = copy_assets(target, built.assets)
    notes = [*(f"partial: {line}" for line in partial), *built.notes]
    road = "files" if from_dir is not None else "hub"
    used_options: dict[str, Any] = {"allow_partial": options.allow_partial}
    if exporter.name.startswith("truthful_qa"):
        used_options["truthfulqa_version"] = options.truthfulqa_version
    entry = dataset_entry(road, source.sources(), counts, facts, assets, used_options, notes)
    remove_stale(target, entries.get(exporter.name, {}), entry)
    entries[exporter.name] = entry
    result.outputs = {name: fact["records"] for name, fact in facts.items()}
    result.notes = notes


def _check_counts(
    exporter: Exporter[Any], records: Any, names: Mapping[str, str], options: ExportOptions
) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Found beside published counts, and a line for each that differs."""
    official = exporter.official_counts(options)
    counts: dict[str, dict[str, int]] = {}
    partial = []
    for split, found in exporter.counts(records).items():
        name = names.get(split, f"hub table {exporter.name}, split {split}")
        if found == 0:
            raise DataError(f"{name}: no records")
        counts[split] = {"found": found, "official": official[split]}
        if found != official[split]:
            partial.append(f"{name}: expected {official[split]} records, found {found}")
    return counts, partial
