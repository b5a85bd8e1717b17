from __future__ import annotations

import json
from pathlib import Path

import pytest

from pcsuite.cli import main
from pcsuite.config.profile import RetrievalSection
from pcsuite.errors import DataError
from pcsuite.retrieval import RETRIEVERS
from pcsuite.retrieval.bm25_index import Bm25Settings, _build, ensure_index, index_folder

LOCAL = RetrievalSection()


def export_pages(cache: Path, pages: dict[str, list[str]]) -> Path:
    path = cache / "datasets" / "mine_pages.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"page": p, "sentences": s}) + "\n" for p, s in pages.items()))
    return path


def test_exported_pages_are_searched_and_their_content_is_the_version(tmp_path):
    backend = RETRIEVERS.get("bm25_local")
    export_pages(tmp_path, {"Oak": ["a tall tree"], "Elm": ["a small tree"]})
    version = backend.version(LOCAL, "mine", tmp_path)
    assert not (tmp_path / "indexes").exists()
    retriever = backend.open(LOCAL, "mine", tmp_path)
    assert [passage.page for passage in retriever.search("tall", 5)] == ["Oak"]
    assert index_folder(tmp_path, version["index"]).is_dir()
    assert list(backend.page_titles(LOCAL, "mine", tmp_path)) == ["Oak", "Elm"]
    export_pages(tmp_path, {"Oak": ["a tall tree indeed"]})
    assert backend.version(LOCAL, "mine", tmp_path) != version


def test_an_index_folder_serves_any_dataset(tmp_path):
    backend = RETRIEVERS.get("bm25_local")
    folder = ensure_index(
        export_pages(tmp_path, {"Oak": ["a tall tree", "a leaf"], "Elm": ["a leaf"]}), tmp_path
    )
    settings = RetrievalSection(wiki_index_path=str(folder))
    assert backend.version(settings, "other", tmp_path) == {"backend": "bm25_local", "index": folder.name}
    assert backend.open(settings, "other", tmp_path).search("tall", 1)[0].page == "Oak"
    assert list(backend.page_titles(settings, "other", tmp_path)) == ["Oak", "Elm"]


def test_a_dataset_without_pages_says_what_to_do(tmp_path):
    backend = RETRIEVERS.get("bm25_local")
    with pytest.raises(DataError, match="no pages to search for dataset 'mine'"):
        backend.version(LOCAL, "mine", tmp_path)
    assert backend.page_titles(LOCAL, "mine", tmp_path) is None


def test_who_comes_second_keeps_the_first_ones_index(tmp_path):
    pages = export_pages(tmp_path, {"Oak": ["a tall tree"]})
    folder = ensure_index(pages, tmp_path)
    stamp = (folder / "meta.json").stat().st_mtime_ns
    _build(pages, folder, folder.name, Bm25Settings())
    assert (folder / "meta.json").stat().st_mtime_ns == stamp
    assert [entry.name for entry in folder.parent.iterdir()] == [folder.name]


def test_the_command_builds_and_searches(tmp_path, capsys):
    assert main(["index", "build", "--cache-dir", str(tmp_path)]) == 0
    built = capsys.readouterr().out
    assert "230 sentences of 57 pages (fever_pages.jsonl)" in built
    assert main(["index", "search", "capital of Karvenia", "-k", "2", "--cache-dir", str(tmp_path)]) == 0
    found = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in found] == ["Karvenia", "Lorvik"]
    assert main(["index", "search", "zebra", "--cache-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "nothing found\n"
    assert main(["index", "search", "x", "--index", str(tmp_path)]) == 2
    assert "is not a search index" in capsys.readouterr().err
