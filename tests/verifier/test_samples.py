"""The synthetic evals: complete, consistent with their script, and of the quality they claim."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pcsuite.data
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.results import Rules, score_file
from pcsuite.verifier.tree import compared_record
from pcsuite.verifier.truth import parse_truth, read_truth

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = Path(pcsuite.data.__file__).parent / "samples"
EVALS = sorted((SAMPLES / "buildingspec").iterdir())
MAPPING = load_mapping()
each = pytest.mark.parametrize("folder", EVALS, ids=lambda folder: folder.name)


def test_the_committed_samples_are_what_the_script_writes(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "scripts.make_buildingspec_samples", str(tmp_path)],
        cwd=ROOT,
        check=True,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    kept = {
        path.relative_to(SAMPLES): path.read_bytes()
        for path in (*SAMPLES.glob("buildingspec_*.jsonl"), *(SAMPLES / "buildingspec").rglob("*"))
        if path.is_file()
    }
    assert made == kept


def test_six_buildings_and_both_dialects():
    quoted = [b'"' in (folder / "ground_truth.csv").read_bytes() for folder in EVALS]
    assert len(EVALS) >= 6
    assert quoted.count(True) >= 3
    assert quoted.count(False) >= 3


@each
def test_extractions_are_of_the_quality_they_claim(folder):
    rules = Rules(read_truth(folder / "ground_truth.csv", MAPPING), MAPPING)
    quality = json.loads((folder / "quality.json").read_text(encoding="utf-8"))
    assert rules.truth.warnings == ()
    for name, errors in quality.items():
        counts = score_file(folder / name, rules).comparison.counts
        assert counts.errors_by_type() == errors, name
    assert score_file(folder / "extracted_perfect.json", rules).comparison.counts.f1 == 1.0


def leaves(value):
    if isinstance(value, dict):
        for child in value.values():
            yield from leaves(child)
    elif isinstance(value, list):
        for child in value:
            yield from leaves(child)
    else:
        yield value


@each
def test_documents_have_two_to_six_pages_and_contain_the_facts(folder):
    text = (folder / "document.txt").read_text(encoding="utf-8")
    pages = {int(number) for number in re.findall(r"page \d+ of (\d+)", text)}
    assert len(pages) == 1
    assert 2 <= pages.pop() <= 6
    body = re.sub(r"\n\n[^\n]*, page \d+ of \d+\n", "", text)  # sentences run on over a page break
    words = " ".join(body.split())
    numbers = {float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*(?:\.\d+)?", words)}
    record = compared_record(read_truth(folder / "ground_truth.csv", MAPPING).record, MAPPING)
    for value in leaves(record):
        if isinstance(value, str):
            assert value in words
        elif not isinstance(value, bool):
            assert value in numbers, value


@pytest.mark.parametrize("split", ["test", "dev", "train"])
def test_items_carry_document_and_compared_truth(split):
    lines = (SAMPLES / f"buildingspec_{split}.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines
    for line in lines:
        item = json.loads(line)
        folder = SAMPLES / "buildingspec" / item["item_id"]
        truth = read_truth(folder / "ground_truth.csv", MAPPING).record
        assert item["input_text"] == (folder / "document.txt").read_text(encoding="utf-8")
        assert item["truth"] == {"record": compared_record(truth, MAPPING)}


def test_splits_do_not_overlap():
    ids = [
        json.loads(line)["item_id"]
        for split in ("test", "dev", "train")
        for line in (SAMPLES / f"buildingspec_{split}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert len(ids) == len(set(ids)) == len(EVALS)


@each
def test_every_form_of_one_truth_reads_the_same(folder):
    data = (folder / "ground_truth.csv").read_bytes()
    truth = parse_truth(data, MAPPING)
    text = data.decode("utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "latin-1")
    unix = text.replace("\r\n", "\n")
    ragged = "\n".join(line.rstrip(",") + "," for line in unix.split("\n"))
    padded = "\n".join(line + "," * 20 for line in unix.split("\n"))
    for variant in (unix, unix.replace("\n", "\r\n"), ragged, padded):
        for encoding in ("latin-1", "utf-8", "utf-8-sig"):
            other = parse_truth(variant.encode(encoding), MAPPING)
            assert other.content_hash == truth.content_hash
            assert other.record == truth.record


def test_the_dialects_of_one_building_read_the_same(tmp_path):
    code = (
        "import json, sys\n"
        "from scripts.buildingspec.assemble import assemble\n"
        "from scripts.buildingspec.buildings import BUILDINGS\n"
        "from scripts.buildingspec.csv_export import DetailedReportWriter\n"
        "print(json.dumps([[DetailedReportWriter(d).write(assemble(b)) for d in ('raw', 'resaved')]"
        " + [assemble(b)] for b in BUILDINGS]))"
    )
    made = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    for raw, resaved, record in json.loads(made.stdout):
        assert raw != resaved
        first, second = (parse_truth(text.encode("utf-8"), MAPPING) for text in (raw, resaved))
        assert first.content_hash == second.content_hash
        assert first.record == record
