"""Spider text-to-SQL: questions with their schema, and the SQLite databases copied beside the items."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from pcsuite.data.export import base
from pcsuite.data.items import Item, Row
from pcsuite.errors import DataError

DATABASES = "spider_databases"


class SqlQuestion(NamedTuple):
    """A question on a database and the query that answers it."""

    db_id: str
    question: str
    query: str
    where: str


class SpiderRecords(NamedTuple):
    """Questions by split, schema text by database, and the SQLite files that are there."""

    questions: dict[str, list[SqlQuestion]]
    schemas: dict[str, str]
    databases: dict[str, Path]
    contents: dict[str, list[Path]]
    """Further contents of a database: the other files of its folder, as test suites have them."""


class SpiderExporter(base.Exporter[SpiderRecords]):
    """Dev, and train where its file is there. Questions on a database that is missing cannot be scored."""

    name = "spider"
    folders = ("spider",)
    hub = base.HubTable("spider", "xlangai/spider")
    splits = (
        base.Split("dev", 1034, ("dev.json",), hub=("validation",)),
        base.Split("train", 7000, ("train_spider.json",), required=False),
    )

    def counts(self, records: SpiderRecords) -> dict[str, int]:
        return {split: len(questions) for split, questions in records.questions.items()}

    def not_on_hub(self, options: base.ExportOptions) -> str | None:
        return None if options.spider_dir else "the hub does not carry its databases (--spider-dir DIR)"

    def read_files(self, files: base.OriginalFiles, options: base.ExportOptions) -> SpiderRecords:
        questions = {
            split.name: [_question(row) for row in files.json_list(path)]
            for split in self.splits
            if (path := files.of_split(split)) is not None
        }
        return _records(files, questions)

    def read_hub(self, hub: base.HubTables, options: base.ExportOptions) -> SpiderRecords:
        """Questions from the hub, schemas and databases from ``--spider-dir``.

        Raises :class:`DataError` without that folder: the hub carries no databases.
        """
        if options.spider_dir is None:
            hint = "give the folder that has tables.json and database/: --spider-dir DIR"
            raise DataError("the hub carries Spider's questions but not its databases", hint=hint)
        questions = {
            split.name: [_question(row) for row in hub.rows(self.hub, theirs)]
            for split in self.splits
            for theirs in (split.hub or (split.name,))
            if split.required or hub.has_split(self.hub, theirs)
        }
        return _records(base.OriginalFiles(options.spider_dir, options.spider_dir), questions)

    def build(self, records: SpiderRecords, options: base.ExportOptions) -> base.BuiltDataset:
        """Items of the questions whose database is there, and those databases.

        Questions whose database is missing cannot be scored; they are reported as missing and left out.
        """
        built = base.BuiltDataset([])
        used: set[str] = set()
        for split, questions in records.questions.items():
            items = []
            for position, (db_id, question, query, where) in enumerate(questions, start=1):
                if db_id not in records.databases:
                    continue
                if db_id not in records.schemas:
                    raise DataError(f"{where}: database '{db_id}' is not in tables.json")
                used.add(db_id)
                truth = {"query": query, "db_id": db_id, "database": f"datasets/{DATABASES}/{db_id}.sqlite"}
                text = f"{records.schemas[db_id]}\n\nQuestion: {question}"
                items.append(Item(base.numbered("spider", split, position), text, truth))
            built.outputs.append(base.items_output(self.name, split, items))
            lost = Counter(q.db_id for q in questions if q.db_id not in records.databases)
            for db_id, count in sorted(lost.items()):
                file = f"spider/database/{db_id}/{db_id}.sqlite"
                built.missing.append(f"{file} is missing: {count} {split} questions cannot run")
        files = {f"{DATABASES}/{db_id}.sqlite": records.databases[db_id] for db_id in sorted(used)}
        files |= {
            f"{DATABASES}/{db_id}/{path.name}": path
            for db_id in sorted(used)
            for path in records.contents.get(db_id, ())
        }
        built.assets = [base.Asset(*entry) for entry in files.items()]
        return built


def create_tables_text(row: Row) -> str:
    """A database's schema as one CREATE TABLE line a table, from an entry of tables.json.

    Raises :class:`DataError` where columns, types and keys of the entry do not fit together.
    """
    tables, columns = row.texts("table_names_original"), row.items("column_names_original")
    keyed = (keys if isinstance(keys, list) else [keys] for keys in row.items("primary_keys"))
    primary = {key for keys in keyed for key in keys}
    parts: dict[int, list[str]] = {number: [] for number in range(len(tables))}
    try:
        for number, ((table, column), kind) in enumerate(
            zip(columns, row.texts("column_types"), strict=True)
        ):
            if table >= 0:
                key = " PRIMARY KEY" if number in primary else ""
                parts[table].append(f"{_quoted(column)} {kind}{key}")
        for here, there in row.items("foreign_keys"):
            (table, column), (other, key) = columns[here], columns[there]
            target = f"{_quoted(tables[other])}({_quoted(key)})"
            parts[table].append(f"FOREIGN KEY ({_quoted(column)}) REFERENCES {target}")
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise row.error(f"columns, types and keys do not fit together ({error})") from error
    lines = (f"CREATE TABLE {_quoted(name)} ({', '.join(parts[n])});" for n, name in enumerate(tables))
    return "\n".join(lines)


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'


def _question(row: Row) -> SqlQuestion:
    text, query = base.collapse_spaces(row.text("question")), row.text("query").strip()
    return SqlQuestion(row.text("db_id"), text, query, row.where)


def _records(files: base.OriginalFiles, questions: dict[str, list[SqlQuestion]]) -> SpiderRecords:
    """Questions with the schemas of tables.json and the databases that are there."""
    schemas = {
        row.text("db_id"): create_tables_text(row) for row in files.json_list(files.need("tables.json"))
    }
    named = sorted({question.db_id for rows in questions.values() for question in rows})
    paths = {db_id: files.find(f"database/{db_id}/{db_id}.sqlite") for db_id in named}
    databases = {db_id: path for db_id, path in paths.items() if path is not None}
    contents = {
        db_id: [other for other in files.find_all(f"database/{db_id}/*.sqlite") if other != path]
        for db_id, path in databases.items()
    }
    return SpiderRecords(questions, schemas, databases, contents)
