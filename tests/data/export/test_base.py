from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pcsuite.data.export.base import ExportOptions, HubTable, HubTables
from pcsuite.data.export.pipeline import export_datasets
from pcsuite.errors import DataError


def test_converted_tables_are_loaded_from_their_parquet_branch(monkeypatch):
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def load_dataset(*args: Any, **kwargs: Any) -> dict[str, list[dict[str, int]]]:
        calls.append((args, kwargs))
        return {"dev": [{"n": 1}, {"n": 2}]}

    library = SimpleNamespace(load_dataset=load_dataset)
    monkeypatch.setattr("pcsuite.data.export.base.require", lambda module, extra: library)
    hub = HubTables()
    plain = HubTable("a", "org/a", "main")
    assert [row.values for row in hub.rows(plain, "dev")] == [{"n": 1}, {"n": 2}]
    assert [row.where for row in hub.rows(plain, "dev")] == ["hub a/main/dev row 1", "hub a/main/dev row 2"]
    list(hub.rows(HubTable("b", "org/b", "v1", ("dev",)), "dev"))
    assert calls == [
        (("org/a", "main"), {}),
        (("org/b",), {"data_files": {"dev": "v1/dev/*.parquet"}, "revision": "refs/convert/parquet"}),
    ]
    assert [(source["hub"], source["rows"]) for source in hub.sources()] == [("org/a", 2), ("org/b", 2)]


def test_a_hub_that_cannot_be_reached_names_the_other_roads(monkeypatch):
    def load_dataset(*args: Any, **kwargs: Any) -> None:
        raise ConnectionError("no route\nmore lines")

    monkeypatch.setattr(
        "pcsuite.data.export.base.require", lambda module, extra: SimpleNamespace(load_dataset=load_dataset)
    )
    with pytest.raises(DataError) as caught:
        next(HubTables().rows(HubTable("a", "org/a"), "dev"))
    assert "org/a cannot be loaded: no route (use --from DIR" in str(caught.value)
    assert "more lines" not in str(caught.value)


def test_a_table_without_hub_copy_names_the_road(monkeypatch):
    monkeypatch.setattr("pcsuite.data.export.base.require", lambda module, extra: SimpleNamespace())
    with pytest.raises(DataError, match="no table with the published split on the hub"):
        HubTables().has_split(HubTable("a", None), "dev")


@pytest.mark.slow
def test_mirrors_are_checked(mirror: Path):
    hub = HubTables(mirror)
    with pytest.raises(DataError, match="no table 'nope'"):
        hub.has_split(HubTable("nope", "org/nope"), "dev")
    with pytest.raises(DataError, match=r"hub table gsm8k/main/dev: no such split \(it has test, train\)"):
        next(hub.rows(HubTable("gsm8k", "openai/gsm8k", "main"), "dev"))
    assert hub.holds(HubTable("fever", "fever/fever", "wiki_pages"))
    assert not hub.holds(HubTable("fever", "fever/fever", "other"))


def test_one_table_instead_of_splits_is_refused(tmp_path: Path):
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    datasets.Dataset.from_list([{"n": 1}]).save_to_disk(str(tmp_path / "a"))
    with pytest.raises(DataError, match="no table 'a'"):
        HubTables(tmp_path).has_split(HubTable("a", "org/a"), "dev")


@pytest.mark.parametrize(
    ("only", "file", "content", "message"),
    [
        (
            "conll2003",
            "conll2003/dev.txt",
            "A NN O\n",
            "conll2003/dev.txt line 1: expected 4 columns, found 3",
        ),
        ("conll2003", "conll2003/dev.txt", "A NN O S-PER\n", "line 1: 'S-PER' is no CoNLL-2003 entity tag"),
        (
            "ag_news",
            "ag_news/test.csv",
            '"1","t","d"\n"2","t"\n',
            "ag_news/test.csv line 2: expected 3 columns",
        ),
        ("ag_news", "ag_news/test.csv", '"1","t","d"\n"5","t","d"\n', "line 2: class index should be 1 to 4"),
        ("ag_news", "ag_news/test.csv", '"1","t","d"\n"2","t","d', "ag_news/test.csv line 2: unexpected end"),
        ("gsm8k", "gsm8k/test.jsonl", '{"question": "q", "answer": "7"}\n', "line 1: 'answer' has no '####"),
        ("gsm8k", "gsm8k/test.jsonl", '{"question": "q"}\n', "test.jsonl line 1: key 'answer' is missing"),
        ("svamp", "svamp/SVAMP.json", '[\n{"ID": "chal-1"', "svamp/SVAMP.json line 2: not valid JSON"),
        (
            "fever",
            "fever/paper_dev.jsonl",
            '{"id": 1, "claim": "c", "label": "X", "evidence": []}',
            "label 'X' is",
        ),
        (
            "nq_open",
            "nq_open/NQ-open.dev.jsonl",
            '{"question": "q", "answer": "a"}',
            "should be a list, found str",
        ),
        (
            "boolq",
            "boolq/dev.jsonl",
            '{"question":"q","passage":"p","answer":"yes"}',
            "should be true or false",
        ),
        ("trec", "trec/qc.zip", "no archive", "trec/qc.zip: qc/train.txt cannot be read"),
        ("trec", "trec/test.txt", "WHAT is this\n", "trec/test.txt line 1: expected 'CLASS:detail question'"),
    ],
)
def test_damage_is_named_with_file_and_line(originals: Path, tmp_path: Path, only, file, content, message):
    (originals / file).write_text(content, encoding="utf-8")
    options = ExportOptions(allow_partial=True)
    [result] = export_datasets(tmp_path / "c", from_dir=originals, only=[only], options=options)
    assert message in str(result.error)


def test_bytes_that_are_not_utf8_are_named(originals: Path, tmp_path: Path):
    path = originals / "gsm8k" / "train.jsonl"
    path.write_bytes(path.read_bytes() + b'{"question": "\xff"}\n')
    [result] = export_datasets(tmp_path / "c", from_dir=originals, only=["gsm8k"])
    assert "gsm8k/train.jsonl line 2: byte 15 is not utf-8" in str(result.error)
