"""``verify`` and ``verify-all`` outside building energy, as a user calls them."""

import json
from xml.etree import ElementTree

import pytest

from pcsuite.cli import main

MAPPING = """\
record_key: number
tolerances: {default: {absolute: 0.005}}
fields:
  - {path: number, type: identifier}
  - {path: issued, type: date}
tables:
  - path: items
    columns:
      - {path: item, type: text}
      - {path: qty, type: integer}
      - {path: price, type: number}
"""
TRUTH = """\
number,issued,items[].item,items[].qty,items[].price
INV-1,2026-03-01,Apple juice,1,5
INV-1,2026-03-01,Zinc tablets,1,5
INV-2,2026-03-02,Tea,2,6
"""
EXTRACTED = [
    {
        "number": "INV-1",
        "issued": "01.03.2026",
        "items": [{"item": "Zinc tablets 30 pcs", "qty": 1, "price": 5}],
    },
    {"number": "INV-2", "issued": "02.03.2026", "items": [{"item": "Tea", "qty": 2, "price": 6}]},
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(MAPPING)
    (tmp_path / "truth.csv").write_text(TRUTH)
    (tmp_path / "extracted.jsonl").write_text("\n".join(map(json.dumps, EXTRACTED)))
    return tmp_path


def test_values_are_printed_in_their_own_letters(folder, capsys):
    (folder / "truth.jsonl").write_text('{"number": "1", "items": [{"item": "Käsespätzle", "qty": 1}]}\n')
    (folder / "wrong.jsonl").write_text('{"number": "1", "items": [{"item": "寿司", "qty": 1}]}\n')
    assert main(["verify", "truth.jsonl", "wrong.jsonl", "--mapping", "mine.yaml", "--no-save"]) == 0
    printed = capsys.readouterr().out
    assert '"Käsespätzle"' in printed
    assert '"寿司"' in printed


def test_many_records_in_two_files(folder, capsys):
    assert main(["verify", "truth.csv", "extracted.jsonl", "--mapping", "mine.yaml", "--eval-id", "set"]) == 0
    output = capsys.readouterr()
    # INV-1: 4 of 8 right, 3 omitted, 1 wrong, F1 8 of 13; INV-2: 5 of 5. Together 9 right, 1 FP, 4 FN: 18 of 23.
    assert output.out.startswith("set: F1 0.783  precision 0.900  recall 0.692")
    assert "macro-F1 0.808" in output.out
    assert "over 2 records" in output.out
    assert "worst records: INV-1 (0.615)" in output.out
    assert "list 'items' is paired by item, which tells its 3 items apart" in output.err
    assert "mine.yaml: now has it (concluded)" in output.err
    assert 'concluded: {"items": ["item"]}' in (folder / "mine.yaml").read_text()
    # The second time nothing is concluded, and the rules are the same.
    assert main(["verify", "truth.csv", "extracted.jsonl", "--mapping", "mine.yaml", "--eval-id", "set"]) == 0
    assert "is paired by" not in capsys.readouterr().err
    hashes = {
        json.loads((folder / "results" / f"iteration-00{n}" / "eval-results.json").read_text())["rules_hash"]
        for n in (1, 2)
    }
    assert len(hashes) == 1
    assert main(["verify-diff", "results/iteration-001", "results/iteration-002"]) == 0
    assert "unchanged errors: 4" in capsys.readouterr().out


def test_without_saving_nothing_is_written(folder, capsys):
    assert main(["verify", "truth.csv", "extracted.jsonl", "--mapping", "mine.yaml", "--no-save"]) == 0
    assert (folder / "mine.yaml").read_text() == MAPPING
    assert 'add to the mapping: concluded: {"items": ["item"]}' in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["extracted.jsonl", "mine.yaml", "truth.csv"]


def test_the_gate_looks_at_the_mean_over_records(folder, capsys):
    command = [
        "verify",
        "truth.csv",
        "extracted.jsonl",
        "--mapping",
        "mine.yaml",
        "--no-save",
        "--fail-under",
    ]
    assert main([*command, "0.80"]) == 0
    assert main([*command, "0.81"]) == 1
    assert "macro-F1 0.8077 is below 0.81" in capsys.readouterr().err


def test_the_record_key_on_the_command_line(folder, capsys):
    (folder / "mine.yaml").write_text(MAPPING.replace("record_key: number\n", ""))
    command = ["verify", "truth.csv", "extracted.jsonl", "--mapping", "mine.yaml", "--no-save"]
    assert main(command) == 2
    assert "no column that tells records apart (name it: --record-key COLUMN" in capsys.readouterr().err
    assert main([*command, "--record-key", "number"]) == 0


def test_sarif_points_at_the_line_of_a_record(folder, capsys):
    assert (
        main(
            [
                "verify",
                "truth.csv",
                "extracted.jsonl",
                "--mapping",
                "mine.yaml",
                "--no-save",
                "--sarif",
                "v.sarif",
            ]
        )
        == 0
    )
    results = json.loads((folder / "v.sarif").read_text())["runs"][0]["results"]
    lines = {one["locations"][0]["physicalLocation"]["region"]["startLine"] for one in results}
    assert lines == {1}


def test_junit_has_a_case_for_each_record(folder):
    assert (
        main(
            [
                "verify",
                "truth.csv",
                "extracted.jsonl",
                "--mapping",
                "mine.yaml",
                "--no-save",
                "--junit",
                "v.xml",
            ]
        )
        == 0
    )
    cases = ElementTree.parse(folder / "v.xml").iter("testcase")
    failed = {case.get("name"): case.find("failure") is not None for case in cases}
    assert failed == {"records[number=INV-1]": True, "records[number=INV-2]": False}


def test_a_draft_is_printed_or_written_once(folder, capsys):
    assert main(["verify", "--init-mapping", "extracted.jsonl", "--truth", "truth.csv"]) == 0
    output = capsys.readouterr()
    assert "key: [item]  # tells the items of every list apart" in output.out
    assert (
        main(["verify", "--init-mapping", "extracted.jsonl", "--truth", "truth.csv", "--out", "draft.yaml"])
        == 0
    )
    assert (folder / "draft.yaml").read_text() == output.out
    assert main(["verify", "--init-mapping", "extracted.jsonl", "--out", "draft.yaml"]) == 2
    assert "draft.yaml: exists already" in capsys.readouterr().err
    assert main(["verify", "truth.csv", "extracted.jsonl", "--mapping", "draft.yaml", "--no-save"]) == 0
    assert "F1 0.783" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--init-mapping"], "--init-mapping: nothing to draft from"),
        (["--init-mapping", "gone.json"], "gone.json: no such file"),
        (["truth.csv", "extracted.jsonl", "--truth", "truth.csv"], "--truth belongs to --init-mapping"),
        (["extracted.jsonl", "truth.csv"], "the truth comes first, the extraction second"),
        (["truth.csv"], "a truth and an extraction are needed"),
        ([], "a truth and an extraction are needed"),
    ],
)
def test_words_that_make_no_sense(folder, capsys, words, message):
    assert main(["verify", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("domain", "figure"), [("invoices", "0.968"), ("cvs", "0.977"), ("labs", "0.968")])
def test_the_bundled_domains(tmp_path, capsys, domain, figure):
    root = tmp_path / domain
    assert main(["verify-all", str(root), "--copy-samples", "--samples", domain]) == 0
    output = capsys.readouterr().out
    assert f"micro-F1 {figure}  95 % interval" in output
    assert "over 20 records in 1 eval" in output
    assert "20 records in 1 eval" in (root / "verify-all.html").read_text()
    page = (root / "batch" / "results" / "iteration-001" / "eval-report.html").read_text()
    assert "Records, worst first" in page
    assert "What repairing a field would gain" in page
