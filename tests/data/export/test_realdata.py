"""The published files themselves, where they lie beside the checkout."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from pcsuite.data.export.base import ExportOptions
from pcsuite.data.export.pipeline import export_datasets
from pcsuite.data.items import Item, read_items

DATA = Path(os.environ.get("PCS_SHARED_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))

pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"the published files are not at {DATA} (PCS_SHARED_DATA)"),
]

RECORDS = {
    "conll2003_train": 14041,
    "conll2003_dev": 3250,
    "conll2003_test": 3453,
    "ag_news_test": 7600,
    "ag_news_train": 7000,
    "ag_news_dev": 5000,
    "gsm8k_test": 1319,
    "gsm8k_train": 6473,
    "gsm8k_dev": 1000,
    "commonsense_qa_validation": 1221,
    "commonsense_qa_train": 8741,
    "commonsense_qa_dev": 1000,
    "truthful_qa_validation": 817,
    "truthful_qa_mc_validation": 817,
    "fever_dev": 9499,
    "fever_opt": 500,
    "fever_pages": 4099,
    "spider_dev": 972,
    "svamp_test": 1000,
    "strategyqa_dev": 229,
    "boolq_dev": 3270,
    "trec_test": 500,
    "trec_train": 4952,
    "trec_dev": 500,
    "nq_open_dev": 3610,
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All datasets exported once."""
    folder = tmp_path_factory.mktemp("cache")
    results = export_datasets(folder, from_dir=DATA, options=ExportOptions(allow_partial=True))
    assert [(r.dataset, r.error) for r in results if r.error] == []
    # The relation sets are not among the files beside the checkout.
    assert [r.dataset for r in results if r.skipped] == ["conll04", "scierc"]
    return folder


def items(cache: Path, stem: str) -> list[Item]:
    return read_items(cache / "datasets" / f"{stem}.jsonl")


def test_counts_are_the_published_ones(cache: Path):
    manifest = json.loads((cache / "datasets" / "manifest.json").read_text(encoding="utf-8"))
    written = {
        name.removesuffix(".jsonl"): facts["records"]
        for entry in manifest["datasets"].values()
        for name, facts in entry["outputs"].items()
    }
    assert written == RECORDS
    differing = {
        (name, split): count["found"]
        for name, entry in manifest["datasets"].items()
        for split, count in entry["counts"].items()
        if count["found"] != count["official"]
    }
    assert differing == {("ag_news", "train"): 12000}
    notes = [note for entry in manifest["datasets"].values() for note in entry["notes"]]
    assert notes == [
        "partial: ag_news/train_part_12000.csv: expected 120000 records, found 12000",
        "partial: spider/database/wta_1/wta_1.sqlite is missing: 62 dev questions cannot run",
    ]


def test_a_second_export_is_the_same_bytes(cache: Path, tmp_path: Path):
    export_datasets(tmp_path, from_dir=DATA, options=ExportOptions(allow_partial=True))
    first = {p.relative_to(cache): p.read_bytes() for p in cache.rglob("*") if p.is_file()}
    second = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert first == second


def test_short_files_are_errors_unless_allowed(tmp_path: Path):
    results = {r.dataset: r for r in export_datasets(tmp_path, from_dir=DATA, only=["ag_news", "spider"])}
    assert "ag_news/train_part_12000.csv: expected 120000 records, found 12000" in str(
        results["ag_news"].error
    )
    assert "wta_1" in str(results["spider"].error)


@pytest.mark.parametrize(("split", "entities"), [("train", 23499), ("dev", 5942), ("test", 5648)])
def test_conll_entities_are_all_there_and_in_place(cache: Path, split: str, entities: int):
    found = 0
    for item in items(cache, f"conll2003_{split}"):
        for entity in item.truth["entities"]:
            found += 1
            assert item.input_text[entity["start"] : entity["end"]] == entity["text"]
    assert found == entities


def test_ag_news_is_balanced_and_clean(cache: Path):
    test = items(cache, "ag_news_test")
    assert Counter(item.truth["label"] for item in test) == dict.fromkeys(
        ("World", "Sports", "Business", "Sci/Tech"), 1900
    )
    assert not [
        item.item_id for item in test if any(m in item.input_text for m in ("\\", "#39;", "&lt;", " quot;"))
    ]


@pytest.mark.parametrize(
    ("scored", "held_out"),
    [
        ("ag_news_train", "ag_news_dev"),
        ("gsm8k_train", "gsm8k_dev"),
        ("commonsense_qa_train", "commonsense_qa_dev"),
        ("fever_dev", "fever_opt"),
        ("trec_train", "trec_dev"),
    ],
)
def test_splits_share_no_question(cache: Path, scored: str, held_out: str):
    texts = [
        {" ".join(i.input_text.casefold().split()) for i in items(cache, stem)} for stem in (scored, held_out)
    ]
    assert not texts[0] & texts[1]


def test_fever_pages_hold_a_full_evidence_set_for_6177_claims(cache: Path):
    with (cache / "datasets" / "fever_pages.jsonl").open(encoding="utf-8") as stream:
        pages = {row["page"]: row["sentences"] for row in map(json.loads, stream)}
    assert sum(len(sentences) for sentences in pages.values()) == 44232
    claims = items(cache, "fever_dev") + items(cache, "fever_opt")
    assert Counter(item.truth["label"] for item in claims) == dict.fromkeys(
        ("SUPPORTS", "REFUTES", "NOT_ENOUGH_INFO"), 3333
    )
    sets = [item.truth["evidence_sets"] for item in claims if item.truth["label"] != "NOT_ENOUGH_INFO"]
    assert all(sets)
    assert sum(any(all(part["page"] in pages for part in one) for one in every) for every in sets) == 6177
    for part in (part for every in sets for one in every for part in one):
        assert part["text"] is None or part["text"] in pages[part["page"]]


def test_every_spider_gold_query_runs_on_its_copied_database(cache: Path):
    rows = items(cache, "spider_dev")
    assert len({item.truth["db_id"] for item in rows}) == 19
    connections: dict[str, sqlite3.Connection] = {}
    try:
        for item in rows:
            path = item.truth["database"]
            if path not in connections:
                connections[path] = sqlite3.connect(f"file:{cache / path}?mode=ro", uri=True)
                connections[path].text_factory = bytes
            connections[path].execute(item.truth["query"]).fetchall()
    finally:
        for connection in connections.values():
            connection.close()


def test_truthful_qa_versions(cache: Path, tmp_path: Path):
    # 111 questions say "I have no comment", one more with two blanks
    assert sum(item.truth["unanswerable"] for item in items(cache, "truthful_qa_validation")) == 112
    letters = Counter(item.truth["choice"] for item in items(cache, "truthful_qa_mc_validation"))
    assert letters["A"] < 817 / 3
    revised = ExportOptions(truthfulqa_version="v2025")
    results = export_datasets(
        tmp_path, from_dir=DATA, only=["truthful_qa", "truthful_qa_mc"], options=revised
    )
    assert [(r.error, list(r.outputs.values())) for r in results] == [(None, [790]), (None, [790])]


def test_gsm8k_answers_are_plain_numbers(cache: Path):
    answers = [item.truth["answer"] for item in items(cache, "gsm8k_test")]
    assert all(answer.lstrip("-").replace(".", "", 1).isdigit() for answer in answers)


def test_fever_in_the_hub_layout_gives_the_same_claims(cache: Path, tmp_path: Path):
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    rows = []
    with (DATA / "fever" / "paper_dev.jsonl").open(encoding="utf-8") as stream:
        for claim in map(json.loads, stream):
            for annotation, evidence, page, number in (part for one in claim["evidence"] for part in one):
                rows.append(
                    {
                        "id": claim["id"],
                        "label": claim["label"],
                        "claim": claim["claim"],
                        "evidence_annotation_id": annotation,
                        "evidence_id": -1 if evidence is None else evidence,
                        "evidence_wiki_url": page or "",
                        "evidence_sentence_id": -1 if number is None else number,
                    }
                )
    table = datasets.DatasetDict({"paper_dev": datasets.Dataset.from_list(rows)})
    table.save_to_disk(str(tmp_path / "hub" / "fever" / "v1.0"))
    [result] = export_datasets(tmp_path / "c", hub_dir=tmp_path / "hub", only=["fever"])
    assert result.error is None
    for split in ("dev", "opt"):
        ours, theirs = items(cache, f"fever_{split}"), items(tmp_path / "c", f"fever_{split}")
        assert [item.item_id for item in ours] == [item.item_id for item in theirs]
        for a, b in zip(ours, theirs, strict=True):
            strip = [
                [[(part["page"], part["sentence"]) for part in one] for one in item.truth["evidence_sets"]]
                for item in (a, b)
            ]
            assert strip[0] == strip[1]
            assert a.input_text == b.input_text
