"""Running exporters: choose the road, check counts, write files, keep the manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcsuite.data.export.ag_news import AgNewsExporter
from pcsuite.data.export.base import Exporter, ExportOptions
from pcsuite.data.export.commonsense_qa import CommonsenseQaExporter
from pcsuite.data.export.conll import ConllExporter
from pcsuite.data.export.fever import FeverExporter
from pcsuite.data.export.files import OriginalFiles
from pcsuite.data.export.gsm8k import Gsm8kExporter
from pcsuite.data.export.hub import HubTables
from pcsuite.data.export.manifest import (
    copy_assets,
    dataset_entry,
    read_manifest,
    remove_stale,
    write_manifest,
    write_output,
)
from pcsuite.data.export.questions import BoolQExporter, NqOpenExporter, StrategyQaExporter, TrecExporter
from pcsuite.data.export.spider import SpiderExporter
from pcsuite.data.export.svamp import SvampExporter
from pcsuite.data.export.truthful_qa import TruthfulQaExporter, TruthfulQaMcExporter
from pcsuite.data.loading import datasets_dir
from pcsuite.errors import DataError, MissingExtraError, PcsuiteError, did_you_mean

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
