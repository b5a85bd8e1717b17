"""Spider: schema, question and database."""

from __future__ import annotations

import json
from pathlib import Path


def test_spider_item_has_schema_question_and_a_copied_database(exported, tmp_path: Path):
    [row] = exported("spider_dev", "spider")
    assert row["input_text"] == (
        'CREATE TABLE goat (id number PRIMARY KEY, "pen id" number, '
        'FOREIGN KEY ("pen id") REFERENCES pen(id));\n'
        "CREATE TABLE pen (id number PRIMARY KEY);\n\n"
        "Question: How many goats?"
    )
    assert row["truth"] == {
        "query": "SELECT count(*) FROM goat",
        "db_id": "barn",
        "database": "datasets/spider_databases/barn.sqlite",
    }
    assert (tmp_path / "c" / row["truth"]["database"]).read_bytes()[:15] == b"SQLite format 3"
    manifest = json.loads((tmp_path / "c" / "datasets" / "manifest.json").read_text(encoding="utf-8"))
    assert any(
        "database/lost/lost.sqlite is missing: 1 dev" in n for n in manifest["datasets"]["spider"]["notes"]
    )


def test_further_contents_of_a_database_are_copied_into_a_folder_of_its_name(
    exported, originals: Path, tmp_path: Path
):
    folder = originals / "spider" / "database" / "barn"
    (folder / "barn_suite_1.sqlite").write_bytes((folder / "barn.sqlite").read_bytes())
    exported("spider_dev", "spider")
    databases = tmp_path / "c" / "datasets" / "spider_databases"
    assert sorted(path.relative_to(databases).as_posix() for path in databases.rglob("*.sqlite")) == [
        "barn.sqlite",
        "barn/barn_suite_1.sqlite",
    ]
