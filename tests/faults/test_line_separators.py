"""A text may hold every character that some program takes for the end of a line: each file gives it back as it was.

``str.splitlines`` parts a text at eleven characters, and YAML and text files at some of them too; our files have one
end of a line, ``\\n``, and no text in them may be lost to another.
"""

import ast
import csv
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pcsuite
from pcsuite.ablation.study import as_yaml as study_yaml
from pcsuite.analysis.load.runs import RunTables
from pcsuite.config.yaml_source import as_yaml, load_yaml
from pcsuite.data.items import dump_line, read_jsonl
from pcsuite.data.table_files import read_table
from pcsuite.importers.shapes import FileShape
from pcsuite.logging.audit import audit_log, repair_log
from pcsuite.logging.labels import (
    JudgeSample,
    Labels,
    LabelUnit,
    read_sample,
    read_sheet,
    sheet_csv,
    write_sample,
)
from pcsuite.logging.log import ResumeIndex, RunLog, RunPaths, iter_rows, read_prompts
from pcsuite.logging.looks import Look, LooksFile, read_looks
from pcsuite.logging.manifest import RunManifest, TaskNote, read_manifest, write_manifest
from pcsuite.logging.scored_rows import LoggedScores
from pcsuite.optimization.journal import Journal
from pcsuite.verifier.cells import parse_rows
from pcsuite.verifier.extraction import parse_record_set
from pcsuite.verifier.json_truth import json_records
from pcsuite.view.marks import Marks
from pcsuite.view.runs import list_runs, sum_log
from support.rows import make_row

SEPARATORS = ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
TEXTS = [*(f"before{mark}after" for mark in SEPARATORS), "".join(SEPARATORS)]
ANY_TEXT = st.lists(st.sampled_from([*SEPARATORS, "a", '"', "\\", "é", "{", "}", ",", "𝔘"]), max_size=12).map(
    "".join
)
ONE_FOLDER = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def test_nothing_parts_a_files_text_at_characters_inside_it():
    """No module of ours calls ``splitlines`` on what it read from a file."""
    for path in Path(pcsuite.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                inner = {part.attr for part in ast.walk(node.func.value) if isinstance(part, ast.Attribute)}
                reads = inner & {"read_text", "read_bytes", "read"}
                assert not (node.func.attr == "splitlines" and reads), f"{path.name}:{node.lineno}"


def test_rooms_that_read_files_of_lines_part_no_text_at_all_but_newlines():
    """A text that was read may have gone through a variable: in these rooms only what an error says is parted."""
    for room in ("analysis", "data", "importers", "logging", "retrieval", "runners", "verifier"):
        for path in (Path(pcsuite.__file__).parent / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and node.attr == "splitlines":
                    said = ast.unparse(node.value)
                    assert "error" in said, f"{path.name}:{node.lineno}: {said}.splitlines()"


@pytest.mark.parametrize("text", TEXTS)
def test_a_mark_and_a_label_are_read_back_and_the_newest_counts(tmp_path, text):
    marks, labels, unit = (
        Marks(tmp_path / "r.jsonl"),
        Labels(tmp_path / "r.jsonl"),
        LabelUnit("u", "t", "i", "a"),
    )
    marks.add("t", text, "right", "")
    marks.add("t", text, "wrong", text)
    assert {key: (mark.label, mark.note) for key, mark in marks.read().items()} == {
        ("t", text): ("wrong", text)
    }
    labels.add(unit, "pass_fail", "pass")
    labels.add(unit, "pass_fail", "fail", text)
    assert [(label.label, label.note) for label in labels.read().values()] == [("fail", text)]


@given(text=ANY_TEXT)
@ONE_FOLDER
def test_any_note_is_read_back(tmp_path, text):
    marks = Marks(tmp_path / "any.jsonl")
    marks.add("t", "i", "wrong", text)
    assert [mark.note for mark in marks.read().values()] == [text]


def test_bytes_that_are_no_utf8_cost_a_character_and_a_lone_surrogate_is_replaced(tmp_path):
    marks = Marks(tmp_path / "r.jsonl")
    marks.add("t", "a", "right", "")
    line = b'{"task": "t", "item": "b", "label": "wrong", "note": "caf\xe9", "made_utc": ""}\n'
    escaped = b'{"task": "t", "item": "c", "label": "wrong", "note": "\\ud800", "made_utc": ""}\n'
    typed = b'{"task": "t", "item": ["d"], "label": 5, "note": "", "made_utc": ""}\n'
    marks.path.write_bytes(marks.path.read_bytes() + line + b"\xff\xfe\n" + escaped + typed)
    marks.add("t", "d", "wrong", "half \ud83d pair")
    assert {item: mark.note for (_, item), mark in marks.read().items()} == {
        "a": "",
        "b": "caf\ufffd",
        "c": "\ufffd",
        "d": "half \ufffd pair",
    }
    marks.as_csv().encode("utf-8")


@given(texts=st.lists(ANY_TEXT, min_size=1, max_size=4))
@ONE_FOLDER
def test_a_log_with_its_prompts_gives_back_every_text(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("log")
    paths = RunPaths.of(folder, "run")
    rows = [
        make_row(item=f"i{number}", text=text, metrics={"task_score": 0.5, "note": text})
        for number, text in enumerate(texts)
    ]
    with RunLog(paths, scores=LoggedScores()) as log:
        for row, text in zip(rows, texts, strict=True):
            log.append(row, text)
    assert [row.generation.text for row in iter_rows(paths.log)] == texts
    assert len(ResumeIndex.read(paths.log)) == len(texts)
    hashes = [row.prompt.prompt_hash for row in rows]
    assert read_prompts(paths.prompts, hashes) == dict(zip(hashes, texts, strict=True))
    assert audit_log(paths).rows == len(texts)
    repair_log(paths)
    assert [row.generation.text for row in iter_rows(paths.log)] == texts


def test_tables_and_the_view_have_every_text_of_a_log(tmp_path):
    pytest.importorskip("duckdb")
    paths = RunPaths.of(tmp_path, "run")
    with RunLog(paths) as log:
        for number, text in enumerate(TEXTS):
            log.append(make_row(item=f"i{number:02d} {text}", text=text))
    with RunTables([paths.log], tmp_path / "tables") as tables:
        assert tables.loaded.malformed_count == 0
        assert [text for (text,) in tables.query("SELECT text FROM runs ORDER BY item_id")] == TEXTS
        with tables.write_csv().open(encoding="utf-8", newline="") as stream:
            assert sorted(row["item_id"] for row in csv.DictReader(stream)) == sorted(
                f"i{number:02d} {text}" for number, text in enumerate(TEXTS)
            )
    (entry,) = list_runs(tmp_path)
    assert sum_log(entry).rows == len(TEXTS)


@pytest.mark.parametrize("text", TEXTS)
def test_files_beside_a_log_give_back_a_text(tmp_path, text):
    log = tmp_path / "r.jsonl"
    write_manifest(log, RunManifest(profile=text, tasks={text: TaskNote(title=text)}))
    assert read_manifest(log).tasks[text].title == text
    unit = LabelUnit("u", "t", "i", text)
    sample = JudgeSample("seed", "now", {"t": ["i"]}, {}, {"t": "pass_fail"}, {"t": text}, [unit])
    write_sample(log, sample)
    assert read_sample(log).units == [unit]
    sheet = tmp_path / "sheet.csv"
    table = sheet_csv(sample, {("t", "i"): text}, {}).replace(",,pass |", ",pass,pass |")
    sheet.write_text(table, encoding="utf-8", newline="")
    assert read_sheet(sheet, sample) == {"u": "pass"}
    look = Look(
        "t", "m", "D0", text, "C0", "score", 1, 1, 0.0, -1.0, 1.0, 0.95, 1.0, None, "undecided", False
    )
    looks = LooksFile(log, fresh=False)
    looks.append(look)
    looks.close()
    assert read_looks(log) == [look]


@pytest.mark.parametrize("text", TEXTS)
def test_items_journals_and_written_profiles_give_back_a_text(tmp_path, text):
    (tmp_path / "items.jsonl").write_text(dump_line({"input": text}) * 2, encoding="utf-8", newline="")
    assert [row.get("input") for row in read_jsonl(tmp_path / "items.jsonl")] == [text, text]
    journal = Journal(tmp_path / "candidates.jsonl")
    journal.add_answer("key", text, {"role": "proposer"})
    journal.close()
    with (tmp_path / "candidates.jsonl").open("ab") as stream:
        stream.write(b'[1]\n{"kind": "ask"}\n\xff\n')
    again = Journal(tmp_path / "candidates.jsonl")
    assert again.answer("key") == text
    again.close()
    for written in (study_yaml, as_yaml):
        assert load_yaml(written({"template": text}), "a file")["template"] == text


@given(texts=st.lists(ANY_TEXT, min_size=2, max_size=4))
@ONE_FOLDER
def test_tables_of_a_user_give_back_every_text(tmp_path, texts):
    rows = [{"id": f"i{number}", "text": text} for number, text in enumerate(texts)]
    jsonl, table = tmp_path / "t.jsonl", tmp_path / "t.csv"
    # As other programs write them: what is no ASCII as it is.
    jsonl.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8", newline="")
    with table.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ["id", "text"], quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    for path in (jsonl, table):
        assert [row.values for row in read_table(path)] == rows


@given(texts=st.lists(ANY_TEXT, min_size=2, max_size=4))
@ONE_FOLDER
def test_truths_and_extractions_give_back_every_text(texts):
    rows = [{"id": f"i{number}", "text": text} for number, text in enumerate(texts)]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    assert [value for _, value in json_records(lines, "t.jsonl")] == rows
    extracted = parse_record_set(lines, "e.jsonl", "id", [row["id"] for row in rows])
    assert [extracted.records[row["id"]][1]["text"] for row in rows] == texts
    assert extracted.notes == []


@pytest.mark.parametrize("text", TEXTS)
def test_a_csv_truth_and_the_columns_of_an_import_give_back_a_text(tmp_path, text):
    # The text has semicolons at what other programs take for lines: they must not outvote the commas.
    data = f'field,value\nname,"{text};a{text};b{text};c"\n'.encode()
    assert parse_rows(data, "t.csv")[1].cells == ("name", f"{text};a{text};b{text};c".strip())
    if "\n" not in text and "\r" not in text:
        path = tmp_path / "log.csv"
        path.write_text(f"input,{text},output\n1,2,3\n", encoding="utf-8", newline="")
        assert FileShape.of(path).columns == ["input", text.strip(), "output"]
