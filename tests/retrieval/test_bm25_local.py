from __future__ import annotations

import json
import math
import os
import pickle
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pcsuite.cli import main
from pcsuite.config.profile import RetrievalSection
from pcsuite.data.items import SAMPLES, load_items
from pcsuite.errors import DataError
from pcsuite.retrieval import RETRIEVERS
from pcsuite.retrieval.bm25_local import (
    META,
    Bm25Index,
    Bm25Settings,
    ensure_index,
    find_pages,
    index_root,
    query_words,
    read_pages,
    words,
)

SHARED = Path(os.environ.get("PCS_SHARED_DATA", Path(__file__).resolve().parents[3] / "shared/data"))


class BruteForce:
    """BM25 by the formula alone, sentence by sentence."""

    def __init__(self, pages: Path, settings: Bm25Settings) -> None:
        self.settings = settings
        self.documents = [
            (page, number, Counter(words(page) + words(text)))
            for page, sentences in read_pages(pages)
            for number, text in enumerate(sentences)
            if text.strip()
        ]
        self.holding = Counter(word for *_, counts in self.documents for word in counts)
        self.lengths = [sum(counts.values()) for *_, counts in self.documents]
        self.mean_length = sum(self.lengths) / len(self.documents)

    def ranking(self, query: str) -> list[tuple[float, str, int]]:
        total = len(self.documents)
        k1, b = self.settings.k1, self.settings.b
        scored = []
        asked = query_words(query)
        for place, (page, number, counts) in enumerate(self.documents):
            norm = k1 * (1 - b + b * self.lengths[place] / self.mean_length)
            score = 0.0
            for word in asked:
                frequency = counts[word]
                if frequency:
                    holding = self.holding[word]
                    idf = math.log(1 + (total - holding + 0.5) / (holding + 0.5))
                    score += idf * (frequency / (norm + frequency))
            if score > 0:
                scored.append((-score, place, page, number))
        return [(-score, page, number) for score, _, page, number in sorted(scored)]


def random_queries(pages: Path, count: int, rng: random.Random) -> list[str]:
    vocabulary = sorted(
        {word for page, sentences in read_pages(pages) for word in words(page + " ".join(sentences))}
    )
    return [" ".join(rng.choices(vocabulary, k=rng.randint(1, 9))) for _ in range(count)]


def assert_same(index: Bm25Index, brute: BruteForce, query: str, k: int) -> None:
    """Same scores, and the same sentences except where the last figure of a float decides between two."""
    found = index.search(query, k)
    ranking = brute.ranking(query)
    wanted = ranking[:k]
    assert [passage.score for passage in found] == pytest.approx([score for score, *_ in wanted], rel=1e-12)
    exact = {(page, number): score for score, page, number in ranking}
    for passage in found:
        assert passage.score == pytest.approx(exact[passage.page, passage.sentence], rel=1e-12)
    clear = [w for w in wanted if w[0] > wanted[-1][0] * (1 + 1e-12)]
    assert {(page, number) for _, page, number in clear} <= {(p.page, p.sentence) for p in found}


def write_pages(path: Path, pages: dict[str, list[str]]) -> Path:
    path.write_text("".join(json.dumps({"page": p, "sentences": s}) + "\n" for p, s in pages.items()))
    return path


@pytest.mark.slow
def test_scores_are_the_formula_worked_out_by_hand(tmp_path):
    pages = write_pages(tmp_path / "p.jsonl", {"Oak": ["tall tree", "", "tall tall"], "Elm": ["small tree"]})
    index = Bm25Index(ensure_index(pages, tmp_path))
    # Three documents of three words each (title and two words): the length norm is k1 = 1.2 for all.
    # "tall" is in two: idf = ln(1 + 1.5/2.5) = ln 1.6; tf 1 gives 1/2.2, tf 2 gives 2/3.2.
    found = index.search("Tall", 5)
    assert [(p.page, p.sentence, p.text) for p in found] == [("Oak", 2, "tall tall"), ("Oak", 0, "tall tree")]
    assert [p.score for p in found] == pytest.approx(
        [math.log(1.6) * 2 / 3.2, math.log(1.6) / 2.2], rel=1e-14
    )
    assert index.meta.passages == 3
    assert index.meta.pages == 2


def test_equals_brute_force_on_the_bundled_pages(tmp_path):
    pages = SAMPLES / "fever_pages.jsonl"
    index, brute = Bm25Index(ensure_index(pages, tmp_path)), BruteForce(pages, Bm25Settings())
    for query in random_queries(pages, 200, random.Random("bundled")):
        assert_same(index, brute, query, 7)


@pytest.mark.realdata
def test_equals_brute_force_on_fever_pages(tmp_path):
    pages = SHARED / "fever" / "wiki_pages.jsonl"
    if not pages.is_file():
        pytest.skip("the published FEVER pages are not beside the checkout (PCS_SHARED_DATA)")
    index, brute = Bm25Index(ensure_index(pages, tmp_path)), BruteForce(pages, Bm25Settings())
    assert len(index) == 44_232
    for query in random_queries(pages, 12, random.Random("fever")):
        assert_same(index, brute, query, 10)


def test_ties_go_by_place_in_the_corpus(tmp_path):
    pages = write_pages(tmp_path / "p.jsonl", {f"Page_{i}": ["the same words"] for i in range(50)})
    index = Bm25Index(ensure_index(pages, tmp_path))
    assert [p.page for p in index.search("same words", 4)] == ["Page_0", "Page_1", "Page_2", "Page_3"]


def test_titles_are_searched_with_their_escapes_undone(tmp_path):
    pages = write_pages(
        tmp_path / "p.jsonl",
        {
            "Soul_Food_-LRB-film-RRB-": ["It was released in 1997."],
            "Star_Trek-COLON-_Beyond": ["It is later."],
        },
    )
    index = Bm25Index(ensure_index(pages, tmp_path))
    assert [p.page for p in index.search("soul food", 1)] == ["Soul_Food_-LRB-film-RRB-"]
    assert [p.page for p in index.search("Star Trek: Beyond", 1)] == ["Star_Trek-COLON-_Beyond"]
    assert index.search("lrb colon", 5) == []


def test_function_words_are_dropped_unless_there_is_nothing_else(tmp_path):
    assert query_words("Who is the mayor of Lorvik?") == ["mayor", "lorvik"]
    assert query_words("The Who") == ["the", "who"]
    assert words("Café_Ünïcode -LRB-x-RRB-") == ["cafe", "unicode", "x"]
    pages = write_pages(tmp_path / "p.jsonl", {"A": ["one two"]})
    index = Bm25Index(ensure_index(pages, tmp_path))
    assert index.search("", 3) == index.search("?!", 3) == index.search("zebra", 3) == []
    assert index.search("two", 0) == []


def test_an_index_is_built_once_per_content_and_settings(tmp_path):
    pages = write_pages(tmp_path / "p.jsonl", {"A": ["one two"]})
    first = ensure_index(pages, tmp_path / "cache")
    stamp = (first / META).stat().st_mtime_ns
    assert ensure_index(pages, tmp_path / "cache") == first
    assert (first / META).stat().st_mtime_ns == stamp
    assert ensure_index(pages, tmp_path / "cache", Bm25Settings(k1=0.9)) != first
    write_pages(pages, {"A": ["one three"]})
    second = ensure_index(pages, tmp_path / "cache")
    assert second != first
    assert Bm25Index(second).search("three", 1)[0].text == "one three"
    assert len(list((tmp_path / "cache" / "wiki_bm25").iterdir())) == 3


def test_nothing_half_built_is_left_behind(tmp_path):
    pages = write_pages(tmp_path / "p.jsonl", {"A": ["", "  "]})
    with pytest.raises(DataError, match="no sentences"):
        ensure_index(pages, tmp_path / "cache")
    pages.write_text('{"page": "A", "sentences": ["one"]}\n{"page": 3}\n')
    with pytest.raises(DataError, match="line 2"):
        ensure_index(pages, tmp_path / "cache")
    assert list((tmp_path / "cache" / "wiki_bm25").iterdir()) == []


def test_a_folder_that_is_no_index_is_refused(tmp_path):
    with pytest.raises(DataError, match="not a search index"):
        Bm25Index(tmp_path)
    folder = ensure_index(write_pages(tmp_path / "p.jsonl", {"A": ["one"]}), tmp_path)
    meta = json.loads((folder / META).read_text())
    (folder / META).write_text(json.dumps(meta | {"format": 99}))
    with pytest.raises(DataError, match="format 99"):
        Bm25Index(folder)


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
    assert not (tmp_path / "wiki_bm25").exists()
    retriever = backend.open(LOCAL, "mine", tmp_path)
    assert [passage.page for passage in retriever.search("tall", 5)] == ["Oak"]
    assert (index_root(tmp_path) / version["index"]).is_dir()
    assert list(backend.known_pages(LOCAL, "mine", tmp_path)) == ["Oak", "Elm"]
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
    pages = pickle.loads(pickle.dumps(backend.known_pages(settings, "other", tmp_path)))
    assert list(pages) == ["Oak", "Elm"]
    assert pages.sentences("Oak") == {0: "a tall tree", 1: "a leaf"}
    assert (pages.sentences("Elm"), pages.sentences("Ash")) == ({0: "a leaf"}, {})


def test_sentences_of_a_pages_file_keep_their_numbers(tmp_path):
    export_pages(tmp_path, {"Oak": ["a tall tree", " ", "a leaf"]})
    pages = RETRIEVERS.get("bm25_local").known_pages(LOCAL, "mine", tmp_path)
    assert pages.sentences("Oak") == {0: "a tall tree", 2: "a leaf"}


def test_a_dataset_without_pages_says_what_to_do(tmp_path):
    backend = RETRIEVERS.get("bm25_local")
    with pytest.raises(DataError, match="no pages to search for dataset 'mine'"):
        backend.version(LOCAL, "mine", tmp_path)
    assert backend.known_pages(LOCAL, "mine", tmp_path) is None


def test_who_comes_second_keeps_the_first_ones_index(tmp_path, monkeypatch):
    pages = export_pages(tmp_path, {"Oak": ["a tall tree"]})
    first = ensure_index(pages, tmp_path / "first")
    stamp = (first / "meta.json").stat().st_mtime_ns

    def while_another_process_is_faster(source):
        shutil.copytree(first, index_root(tmp_path) / first.name)
        yield from read_pages(source)

    monkeypatch.setattr("pcsuite.retrieval.bm25_local.read_pages", while_another_process_is_faster)
    folder = ensure_index(pages, tmp_path)
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


def test_pages_of_a_dataset_go_before_an_encyclopedia_and_that_before_the_sample(tmp_path):
    datasets = tmp_path / "datasets"
    datasets.mkdir()
    assert find_pages("nq_open", tmp_path).kind == "sample"
    for name in ("fever_pages.jsonl", "wiki_pages.jsonl", "nq_open_pages.jsonl"):
        write_pages(datasets / name, {"Oak": ["A tree."]})
        found = find_pages("nq_open", tmp_path)
        assert (found.kind, found.path.name) == ("cache", name)
    # FEVER's own pages stay FEVER's.
    assert find_pages("fever", tmp_path).path.name == "fever_pages.jsonl"


def test_the_bundled_pages_answer_questions_of_nq(tmp_path):
    """A question alone finds a sentence that has the answer in it, whatever it is called."""
    index = Bm25Index(ensure_index(SAMPLES / "nq_open_pages.jsonl", tmp_path))
    for item in load_items("nq_open", "dev", tmp_path).items:
        shown = " ".join(passage.text for passage in index.search(item.input_text, 5)).casefold()
        assert any(answer.casefold() in shown for answer in item.truth["answers"]), item.input_text


def test_the_bundled_pages_answer_questions_of_truthful_qa(tmp_path):
    """The n-th page is about the n-th question that can be answered, and the question finds it."""
    source = SAMPLES / "truthful_qa_pages.jsonl"
    index, pages = Bm25Index(ensure_index(source, tmp_path)), [page for page, _ in read_pages(source)]
    items = load_items("truthful_qa", "validation", tmp_path).items
    answerable = [item for item in items if not item.truth["unanswerable"]]
    assert len(pages) == len(answerable)
    for page, item in zip(pages, answerable, strict=True):
        assert page in {passage.page for passage in index.search(item.input_text, 5)}, item.input_text


def test_searching_does_not_start_jax(tmp_path):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("")
    (tmp_path / "jax" / "lax.py").write_text("raise SystemExit('JAX was started')")
    code = "from pcsuite.retrieval.bm25_local import _bm25s; _bm25s(); import jax; print('apart')"
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert (done.stdout.strip(), done.returncode) == ("apart", 0), done.stderr


def test_passages_with_ids_are_searched_where_there_are_no_pages(tmp_path):
    passages = [{"pid": "p1", "text": "Oaks are tall trees."}, {"pid": 2, "text": "Elms are trees too."}]
    (tmp_path / "wiki_passages.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in passages))
    backend = RETRIEVERS.get("bm25_local")
    (best,) = backend.open(LOCAL, "mine", tmp_path).search("tall", 5)
    assert (best.page, best.sentence, best.text) == ("p1", 0, "Oaks are tall trees.")
    pages = backend.known_pages(LOCAL, "mine", tmp_path)
    assert (list(pages), pages.sentences("2")) == (["p1", "2"], {0: "Elms are trees too."})
    export_pages(tmp_path, {"Oak": ["a tall tree"]})  # the dataset's own go first
    assert list(backend.known_pages(LOCAL, "mine", tmp_path)) == ["Oak"]


def test_a_passage_without_a_text_is_named_with_its_line(tmp_path):
    path = tmp_path / "wiki_passages.jsonl"
    path.write_text('{"pid": "p1"}\n')
    with pytest.raises(DataError, match=r"wiki_passages\.jsonl line 1: key 'text' is missing"):
        list(read_pages(path))
