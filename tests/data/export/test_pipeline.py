from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from pcsuite.data.export import EXPORTERS
from pcsuite.data.export.base import ExportOptions
from pcsuite.data.export.pipeline import export_datasets
from pcsuite.data.items import read_items
from pcsuite.errors import DataError

PARTIAL = ExportOptions(allow_partial=True)
PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "export-datasets.md"


def test_every_exporter_is_registered_by_its_name_and_has_its_line_in_the_docs():
    page = PAGE.read_text(encoding="utf-8")
    for name in EXPORTERS:
        assert EXPORTERS.get(name).name == name
        assert f"\n| `{name}` | " in page


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def test_every_dataset_exports_from_original_files(originals: Path, tmp_path: Path):
    results = export_datasets(tmp_path / "c", from_dir=originals, options=PARTIAL)
    assert [result.dataset for result in results] == list(EXPORTERS)
    assert all(result.error is None and result.skipped is None for result in results)
    written = {name: n for result in results for name, n in result.outputs.items()}
    assert written == {
        "conll2003_train.jsonl": 1,
        "conll2003_dev.jsonl": 1,
        "conll2003_test.jsonl": 2,
        "ag_news_test.jsonl": 2,
        "ag_news_train.jsonl": 0,
        "ag_news_dev.jsonl": 2,
        "gsm8k_test.jsonl": 1,
        "gsm8k_train.jsonl": 0,
        "gsm8k_dev.jsonl": 1,
        "commonsense_qa_validation.jsonl": 1,
        "commonsense_qa_train.jsonl": 0,
        "commonsense_qa_dev.jsonl": 1,
        "truthful_qa_validation.jsonl": 2,
        "truthful_qa_mc_validation.jsonl": 2,
        "fever_dev.jsonl": 0,
        "fever_opt.jsonl": 3,
        "fever_pages.jsonl": 2,
        "spider_dev.jsonl": 1,
        "svamp_test.jsonl": 3,
        "strategyqa_dev.jsonl": 1,
        "strategyqa_train.jsonl": 0,
        "strategyqa_opt.jsonl": 1,
        "boolq_dev.jsonl": 1,
        "boolq_train.jsonl": 0,
        "boolq_opt.jsonl": 1,
        "trec_test.jsonl": 1,
        "trec_train.jsonl": 0,
        "trec_dev.jsonl": 2,
        "nq_open_dev.jsonl": 1,
        "nq_open_train.jsonl": 0,
        "nq_open_opt.jsonl": 1,
        **{
            f"{name}_{split}.jsonl": 1 for name in ("conll04", "scierc") for split in ("train", "dev", "test")
        },
    }


@pytest.mark.slow
def test_both_roads_give_the_same_bytes(originals: Path, mirror: Path, tmp_path: Path):
    export_datasets(tmp_path / "files", from_dir=originals, options=PARTIAL)
    by_hub = ExportOptions(allow_partial=True, spider_dir=originals / "spider")
    results = export_datasets(tmp_path / "hub", hub_dir=mirror, options=by_hub)
    assert [(r.dataset, r.error, r.skipped) for r in results] == [(name, None, None) for name in EXPORTERS]
    files, hub = folder_bytes(tmp_path / "files"), folder_bytes(tmp_path / "hub")
    manifests = [json.loads(road.pop("datasets/manifest.json")) for road in (files, hub)]
    assert files == hub
    assert len(files) == 38
    roads = [{entry["road"] for entry in manifest["datasets"].values()} for manifest in manifests]
    assert roads == [{"files"}, {"hub"}]
    gsm8k = manifests[1]["datasets"]["gsm8k"]["sources"]
    assert [(s["hub"], s["config"], s["split"], s["rows"]) for s in gsm8k] == [
        ("openai/gsm8k", "main", "test", 1),
        ("openai/gsm8k", "main", "train", 1),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("road", ["from_dir", "hub_dir"])
def test_two_exports_are_the_same_bytes(road: str, request: pytest.FixtureRequest, tmp_path: Path):
    source = request.getfixturevalue("originals" if road == "from_dir" else "mirror")
    for cache in ("one", "two"):
        export_datasets(tmp_path / cache, options=PARTIAL, **{road: source})
    assert folder_bytes(tmp_path / "one") == folder_bytes(tmp_path / "two")


def test_manifest_names_sources_counts_and_hashes_without_machine_paths(originals: Path, tmp_path: Path):
    export_datasets(tmp_path / "c", from_dir=originals, only=["gsm8k"], options=PARTIAL)
    folder = tmp_path / "c" / "datasets"
    text = (folder / "manifest.json").read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    entry = json.loads(text)["datasets"]["gsm8k"]
    source = hashlib.sha256((originals / "gsm8k" / "test.jsonl").read_bytes()).hexdigest()
    output = hashlib.sha256((folder / "gsm8k_test.jsonl").read_bytes()).hexdigest()
    assert {"file": "gsm8k/test.jsonl", "sha256": source} in entry["sources"]
    assert entry["outputs"]["gsm8k_test.jsonl"] == {"records": 1, "sha256": output}
    assert entry["counts"]["test"] == {"found": 1, "official": 1319}
    assert entry["notes"] == [
        "partial: gsm8k/train.jsonl: expected 7473 records, found 1",
        "partial: gsm8k/test.jsonl: expected 1319 records, found 1",
    ]


def test_a_later_export_keeps_the_other_datasets_entries(originals: Path, tmp_path: Path):
    for name in ("gsm8k", "trec"):
        export_datasets(tmp_path / "c", from_dir=originals, only=[name], options=PARTIAL)
    manifest = json.loads((tmp_path / "c" / "datasets" / "manifest.json").read_text(encoding="utf-8"))
    assert sorted(manifest["datasets"]) == ["gsm8k", "trec"]


def test_files_an_earlier_export_wrote_and_this_one_does_not_are_removed(originals: Path, tmp_path: Path):
    folder = tmp_path / "c" / "datasets"
    export_datasets(tmp_path / "c", from_dir=originals, only=["boolq"], options=PARTIAL)
    assert (folder / "boolq_opt.jsonl").exists()
    (originals / "boolq" / "train.jsonl").unlink()
    export_datasets(tmp_path / "c", from_dir=originals, only=["boolq"], options=PARTIAL)
    assert not (folder / "boolq_opt.jsonl").exists()
    assert (folder / "boolq_dev.jsonl").exists()


def test_a_short_file_is_an_error_that_names_file_expected_and_found(originals: Path, tmp_path: Path):
    [result] = export_datasets(tmp_path / "c", from_dir=originals, only=["svamp"])
    assert result.outputs == {}
    assert "svamp/SVAMP.json: expected 1000 records, found 3" in str(result.error)
    assert "--allow-partial" in str(result.error)
    assert list((tmp_path / "c" / "datasets").iterdir()) == []


def test_a_dataset_that_fails_does_not_keep_the_others(originals: Path, tmp_path: Path):
    (originals / "gsm8k" / "test.jsonl").write_text('{"question": "cut', encoding="utf-8")
    results = {r.dataset: r for r in export_datasets(tmp_path / "c", from_dir=originals, options=PARTIAL)}
    assert str(results["gsm8k"].error).startswith("gsm8k/test.jsonl line 1: not valid JSON")
    assert [name for name, result in results.items() if result.error] == ["gsm8k"]
    assert (tmp_path / "c" / "datasets" / "trec_test.jsonl").exists()
    assert not (tmp_path / "c" / "datasets" / "gsm8k_test.jsonl").exists()


def test_absent_datasets_are_skipped_unless_named(originals: Path, tmp_path: Path):
    few = tmp_path / "few"
    few.mkdir()
    (originals / "trec").rename(few / "trec")
    results = export_datasets(tmp_path / "c", from_dir=few, options=PARTIAL)
    assert [r.dataset for r in results if r.skipped is None] == ["trec"]
    [named] = export_datasets(tmp_path / "c", from_dir=few, only=["gsm8k"], options=PARTIAL)
    assert "no folder gsm8k or grade_school_math" in str(named.error)


def test_wrong_arguments_are_explained(originals: Path, tmp_path: Path):
    with pytest.raises(DataError, match=r"unknown dataset 'gsm8' \(did you mean 'gsm8k'\?\)"):
        export_datasets(tmp_path / "c", from_dir=originals, only=["gsm8"])
    with pytest.raises(DataError, match="is not a folder"):
        export_datasets(tmp_path / "c", from_dir=tmp_path / "nowhere")
    with pytest.raises(DataError, match="two roads"):
        export_datasets(tmp_path / "c", from_dir=originals, hub_dir=originals)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no dataset found under"):
        export_datasets(tmp_path / "c", from_dir=tmp_path / "empty")


def test_doubled_records_are_refused(originals: Path, tmp_path: Path):
    path = originals / "strategyqa" / "dev.json"
    rows = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(rows * 2), encoding="utf-8")
    [result] = export_datasets(tmp_path / "c", from_dir=originals, only=["strategyqa"], options=PARTIAL)
    assert "two records have the id 'strategyqa-q1'" in str(result.error)
    assert not (tmp_path / "c" / "datasets" / "strategyqa_dev.jsonl").exists()


def test_exported_files_load_as_items(originals: Path, tmp_path: Path):
    export_datasets(tmp_path / "c", from_dir=originals, options=PARTIAL)
    for path in (tmp_path / "c" / "datasets").glob("*.jsonl"):
        if path.stat().st_size and path.stem != "fever_pages":
            assert read_items(path)
