"""Running exporters: choose the source, check counts, write files, keep the manifest.

``manifest.json`` says what was exported from what. It has no times and no machine paths, so that two exports of the
same sources are the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pcsuite import __version__
from pcsuite._util.files import replace_atomically, replacing, sha256_file
from pcsuite.config.bundled import bundled_tasks
from pcsuite.config.spellings import DATASETS, dataset_name
from pcsuite.data.export import EXPORTERS
from pcsuite.data.export.base import Exporter, ExportOptions, HubTables, OriginalFiles, OutputFile
from pcsuite.data.items import SAMPLES, datasets_dir, dump_line, find_items
from pcsuite.errors import DataError, MissingExtraError, PcsuiteError, did_you_mean

MANIFEST = "manifest.json"


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
    progress: Callable[[str], None] = lambda _line: None,
) -> list[ExportResult]:
    """Export datasets to ``<cache_dir>/datasets``; a dataset that fails does not keep the others.

    With ``from_dir`` the original files are read, otherwise the hub's tables (from the mirror ``hub_dir`` if given).
    Datasets that are not under the folder are skipped unless ``only`` names them; ``progress`` gets each name.
    Returns what became of each dataset. Raises :class:`DataError` on wrong arguments and where nothing is found.
    """
    if from_dir is not None and hub_dir is not None:
        raise DataError("--from and --hub-dir are two roads to the same files", hint="give one of them")
    for folder in (from_dir, hub_dir):
        if folder is not None and not folder.is_dir():
            raise DataError(f"{folder} is not a folder")
    chosen = list(EXPORTERS) if only is None else list(dict.fromkeys(exported_as(name) for name in only))
    settings = options if options is not None else ExportOptions()
    target = datasets_dir(cache_dir)
    target.mkdir(parents=True, exist_ok=True)
    entries = _read_manifest(target)
    results = []
    for name in chosen:
        progress(f"{name} …")
        result = ExportResult(name)
        results.append(result)
        try:
            exporter, origin = EXPORTERS.get(name)(), _Source(from_dir, hub_dir)
            absent = origin.absence(exporter, settings)
            if absent is not None and only is None:
                result.skipped = absent
            elif absent is not None and from_dir is not None:
                raise DataError(f"{name}: {absent}")
            else:
                entries[name] = _export(exporter, origin, target, entries.get(name, {}), settings, result)
                # After each dataset, so that an export that is interrupted knows what it has.
                manifest = {"format": 1, "datasets": entries}
                text = json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
                replace_atomically(target / MANIFEST, text)
        except MissingExtraError:
            raise
        except PcsuiteError as error:
            result.error = error
    if all(result.skipped for result in results):
        place = from_dir if from_dir is not None else hub_dir
        hint = f"expected folders such as {', '.join(EXPORTERS.get(name).folders[0] for name in list(EXPORTERS)[:4])}"
        raise DataError(f"no dataset found under {place}", hint=hint)
    return results


def exported_as(name: str) -> str:
    """The exporter that a user means: a dataset by any of its names, or the id of a bundled task.

    >>> exported_as("csqa"), exported_as("conll03_ner_json")
    ('commonsense_qa', 'conll2003')

    Raises :class:`DataError`, with the nearest name, for anything else.
    """
    tasks = bundled_tasks()
    dataset = tasks[name].dataset if name in tasks else dataset_name(name)
    if dataset not in EXPORTERS:
        known = [*EXPORTERS, *(spelling for spellings in DATASETS.values() for spelling in spellings), *tasks]
        raise DataError(f"unknown dataset '{name}'", hint=did_you_mean(name, known))
    return dataset


def exported_datasets(cache_dir: Path) -> set[str]:
    """Datasets whose scored split lies in the cache, whoever put it there, under any of its names.

    Of a plug-in's dataset, for which no task is bundled, any split counts.
    """
    exported = set()
    for task in bundled_tasks().values():
        source = find_items(task.dataset, task.split, cache_dir, SAMPLES)
        if source is not None and source.kind == "cache":
            exported.add(task.dataset)
    folder, bundled = datasets_dir(cache_dir), {task.dataset for task in bundled_tasks().values()}
    return exported | {
        name for name in EXPORTERS if name not in bundled and any(folder.glob(f"{name}_*.jsonl"))
    }


class _Source(NamedTuple):
    """Where the records come from: the original files, or the hub or a mirror of it."""

    from_dir: Path | None
    hub_dir: Path | None

    def folder(self, exporter: Exporter[Any]) -> Path | None:
        assert self.from_dir is not None
        folders = (self.from_dir / name for name in exporter.folders)
        return next((folder for folder in folders if folder.is_dir()), None)

    def absence(self, exporter: Exporter[Any], options: ExportOptions) -> str | None:
        """Why the source has nothing for this exporter, or ``None`` if it has."""
        if self.from_dir is not None:
            names = " or ".join(exporter.folders)
            return None if self.folder(exporter) else f"no folder {names} under {self.from_dir}"
        reason = exporter.not_on_hub(options)
        if reason is not None:
            return reason
        if self.hub_dir is None:
            return None if exporter.hub.repo else "no hub table with the published split"
        folder = exporter.hub.folder
        return None if (self.hub_dir / folder).is_dir() else f"no folder {folder} under {self.hub_dir}"


def _export(
    exporter: Exporter[Any],
    origin: _Source,
    target: Path,
    earlier: Mapping[str, Any],
    options: ExportOptions,
    result: ExportResult,
) -> dict[str, Any]:
    """Read, check and write one dataset; returns its manifest entry."""
    source: OriginalFiles | HubTables
    names: Mapping[str, str] = {}
    if origin.from_dir is not None:
        folder = origin.folder(exporter)
        assert folder is not None
        source = files = OriginalFiles(origin.from_dir, folder)
        records = exporter.read_files(files, options)
        names = files.split_files
    else:
        source = hub = HubTables(origin.hub_dir)
        records = exporter.read_hub(hub, options)
    official = exporter.official_counts(options)
    counts: dict[str, dict[str, int]] = {}
    partial = []
    for split, count in exporter.counts(records).items():
        name = names.get(split, f"hub table {exporter.name}, split {split}")
        if count == 0:
            raise DataError(f"{name}: no records")
        counts[split] = {"found": count, "official": official[split]}
        if count != official[split]:
            partial.append(f"{name}: expected {official[split]} records, found {count}")
    built = exporter.build(records, options)
    partial += built.missing
    if partial and not options.allow_partial:
        hint = "complete the files, or accept them as they are with --allow-partial"
        raise DataError("; ".join(partial), hint=hint)
    outputs = {f"{output.stem}.jsonl": _write_output(target, output) for output in built.outputs}
    assets = {}
    for asset in built.assets:
        copied = target / asset.target
        copied.parent.mkdir(parents=True, exist_ok=True)
        with replacing(copied) as unfinished:
            shutil.copyfile(asset.source, unfinished)
        assets[asset.target] = {"sha256": sha256_file(copied)}
    # Files that an earlier export wrote and this one did not are removed, if nobody changed them.
    for name, facts in earlier.get("outputs", {}).items():
        stale = target / name
        if name not in outputs and stale.is_file() and sha256_file(stale) == facts["sha256"]:
            stale.unlink()
    result.outputs = {name: facts["records"] for name, facts in outputs.items()}
    result.notes = [*(f"partial: {line}" for line in partial), *built.notes]
    return {
        "pcsuite_version": __version__,
        "road": "files" if origin.from_dir is not None else "hub",
        "sources": source.sources(),
        "counts": counts,
        "outputs": outputs,
        "assets": assets,
        "options": {name: getattr(options, name) for name in exporter.option_names},
        "notes": result.notes,
    }


def _write_output(folder: Path, output: OutputFile) -> dict[str, Any]:
    """Write one file whole or not at all; returns its record count and hash. Repeated ids are refused."""
    path = folder / f"{output.stem}.jsonl"
    hashed = hashlib.sha256()
    ids: set[str] = set()
    with replacing(path) as partial, partial.open("wb") as stream:
        for row in output.rows:
            item_id = str(row.get("item_id", row.get("page", len(ids))))
            if item_id in ids:
                twice = f"{output.stem}: two records have the id '{item_id}'"
                raise DataError(twice, hint="is the source file doubled?")
            ids.add(item_id)
            line = dump_line(row).encode("utf-8")
            hashed.update(line)
            stream.write(line)
    return {"records": len(ids), "sha256": hashed.hexdigest()}


def _read_manifest(folder: Path) -> dict[str, Any]:
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
