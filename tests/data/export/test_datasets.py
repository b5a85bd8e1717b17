"""What each exporter makes of the fixtures, worked out by hand."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.data.export import ExportOptions, export_datasets
from pcsuite.data.export.ag_news import clean_text
from pcsuite.data.export.arithmetic import plain_number
from pcsuite.data.export.conll import Sentence, entity_spans, sentence_item
from pcsuite.data.export.fever import sure_position
from pcsuite.data.export.truthful_qa import is_no_comment, split_answers


@pytest.fixture
def exported(originals: Path, tmp_path: Path):
    """Rows of an exported file, by its stem."""

    def rows(stem: str, only: str, **options: Any) -> list[dict[str, Any]]:
        settings = ExportOptions(allow_partial=True, **options)
        [result] = export_datasets(tmp_path / "c", from_dir=originals, only=[only], options=settings)
        if result.error is not None:
            raise result.error
        lines = (tmp_path / "c" / "datasets" / f"{stem}.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    return rows


def test_conll_item_has_character_offsets(exported):
    first, second = exported("conll2003_test", "conll2003")
    assert first["item_id"] == "conll2003-test-000001"
    assert first["input_text"] == "Tarn Brack Lines hired Mira ."
    assert first["truth"] == {
        "tokens": ["Tarn", "Brack", "Lines", "hired", "Mira", "."],
        "entities": [
            {"text": "Tarn", "type": "LOC", "start": 0, "end": 4},
            {"text": "Brack Lines", "type": "ORG", "start": 5, "end": 16},
            {"text": "Mira", "type": "PER", "start": 23, "end": 27},
        ],
    }
    assert second["truth"]["entities"] == [{"text": "Tarnish", "type": "MISC", "start": 4, "end": 11}]


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        (["I-PER", "I-PER", "O"], [("PER", 0, 2)]),  # IOB1
        (["I-PER", "B-PER", "I-PER"], [("PER", 0, 1), ("PER", 1, 3)]),  # IOB1: B- parts neighbours
        (["I-PER", "I-LOC"], [("PER", 0, 1), ("LOC", 1, 2)]),
        (["B-PER", "I-PER", "B-PER"], [("PER", 0, 2), ("PER", 2, 3)]),  # IOB2
        (["O", "O"], []),
        ([], []),
    ],
)
def test_one_rule_reads_iob1_and_iob2(tags, spans):
    assert entity_spans(tags) == spans


def test_offsets_count_code_points():
    item = sentence_item("x", Sentence(("Zoë", "😀", "Tarn"), ("O", "O", "I-LOC")))
    assert item.truth["entities"] == [{"text": "Tarn", "type": "LOC", "start": 6, "end": 10}]


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("The crew #39;s sprint", "The crew's sprint"),
        ("costs  #36;4 less", "costs $4 less"),
        ("a  quot;cold quot; camera", 'a "cold" camera'),
        ("Turner  amp; Sons", "Turner & Sons"),
        ("on\\Tuesday", "on Tuesday"),
        ("&lt;b&gt;...&lt;/b&gt; end", "... end"),
        ("&lt;A HREF=&quot;x&quot;&gt;link&lt;/A&gt; &lt;MSFT.O&gt;", "link <MSFT.O>"),
        ("dash #151; here &#39;ok&#39;", "dash— here 'ok'"),
        ("&amp;lt;b&amp;gt;", ""),
        ("item #1; stays, AT&T too", "item #1; stays, AT&T too"),
    ],
)
def test_ag_news_cleaning(raw, clean):
    assert clean_text(raw) == clean


@given(st.text())
def test_ag_news_cleaning_takes_any_text(raw):
    clean = clean_text(raw)
    assert "\\" not in clean
    assert clean == " ".join(clean.split())


@pytest.mark.parametrize("raw", ["<a " * 20_000, "&" * 100_000, " #39" * 50_000, "<b x=" + "y" * 200_000])
def test_ag_news_cleaning_does_not_run_away(raw):
    started = time.perf_counter()
    clean_text(raw)
    assert time.perf_counter() - started < 5


def test_ag_news_joins_title_and_description_and_reads_both_layouts(exported):
    rows = exported("ag_news_test", "ag_news")
    assert rows[0] == {
        "item_id": "ag_news-test-000001",
        "input_text": "Talks resume Envoys met on Tuesday, a spokesman said.",
        "truth": {"label": "World"},
    }
    assert rows[1]["input_text"] == 'New probe It carries a "cold" camera ... <PRB.N>'
    train = exported("ag_news_dev", "ag_news")  # two records: all go to dev
    assert [row["truth"]["label"] for row in train] == ["Sports", "Business"]
    assert train[1]["input_text"] == "Mill shares rise Flour costs $4 less & sales grew."


def test_gsm8k_answer_loses_commas_and_solution_its_annotations(exported):
    [row] = exported("gsm8k_test", "gsm8k")
    assert row["truth"] == {"answer": "1200", "solution": "600*2 = 1,200 sacks."}
    [train] = exported("gsm8k_dev", "gsm8k")
    assert train["item_id"] == "gsm8k-train-000001"


def test_commonsense_qa_lists_the_choices(exported):
    [row] = exported("commonsense_qa_validation", "commonsense_qa")
    assert row["item_id"] == "v1"
    assert row["input_text"] == "What floats?\nA. anvil\nB. cork\nC. brick\nD. key\nE. coin"
    assert row["truth"]["choice"] == "B"
    assert row["truth"]["choices"]["E"] == "coin"


def test_truthful_qa_splits_references_and_marks_the_unanswerable(exported):
    first, second = exported("truthful_qa_validation", "truthful_qa")
    assert first["input_text"] == "Do owls read?"
    assert first["truth"] == {
        "best_answer": "Owls cannot read",
        "correct_answers": ["Owls cannot read", "No"],
        "incorrect_answers": ["Owls read", "Yes"],
        "unanswerable": False,
        "category": "Myths",
    }
    assert second["truth"]["unanswerable"] is True


def test_truthful_qa_helpers():
    assert split_answers("a; b ;;c;") == ["a", "b", "c"]
    assert is_no_comment(" I  have no comment. ")
    assert not is_no_comment("I have no comments on owls")


def test_truthful_qa_mc_keeps_the_true_option_wherever_it_is_put(exported):
    rows = {
        row["input_text"].split("\n")[0]: row
        for row in exported("truthful_qa_mc_validation", "truthful_qa_mc")
    }
    owls = rows["Do owls read?"]["truth"]
    assert owls["choices"][owls["choice"]] == "Owls cannot read."
    assert sorted(owls["choices"]) == ["A", "B", "C"]
    open_rows = exported("truthful_qa_validation", "truthful_qa")
    assert rows["Do owls read?"]["item_id"] == open_rows[0]["item_id"]


def test_truthful_qa_revision_is_looked_for_in_its_own_folder(exported):
    with pytest.raises(Exception, match=r"none of v2025/TruthfulQA\.csv found"):
        exported("truthful_qa_validation", "truthful_qa", truthfulqa_version="v2025")
    with pytest.raises(Exception, match="did you mean 'v2025'"):
        exported("truthful_qa_validation", "truthful_qa", truthfulqa_version="v225")


def test_fever_has_one_item_a_claim_with_distinct_evidence_sets_and_texts(exported):
    rows = exported("fever_opt", "fever")
    assert [row["item_id"] for row in rows] == ["fever-11", "fever-12", "fever-13"]
    page = "Tarn_-LRB-town-RRB-"
    assert rows[0]["truth"] == {
        "label": "SUPPORTS",
        "evidence_sets": [
            [{"page": page, "sentence": 0, "text": "Tarn has a mill ."}],
            [
                {"page": page, "sentence": 3, "text": "The mill is old ."},
                {"page": "Bræ", "sentence": 1, "text": "It is near Tarn ."},
            ],
        ],
    }
    assert rows[1]["truth"] == {"label": "NOT_ENOUGH_INFO", "evidence_sets": []}
    assert rows[2]["truth"]["evidence_sets"] == [[{"page": "Elsewhere", "sentence": 0, "text": None}]]
    pages = exported("fever_pages", "fever")
    assert pages[0] == {
        "page": page,
        "sentences": ["Tarn has a mill .", "It lies north .", "", "The mill is old ."],
    }


@pytest.mark.parametrize(
    ("sentence_id", "known", "length", "place"),
    [
        (0, [0], 5, 0),
        (1, [1], 5, 1),  # line 0 is never blank
        (2, [2], 5, None),  # line 1 may have been blank
        (2, [1, 2], 5, 2),
        (4, [4], 2, 1),  # a page of two sentences: the last one
        (9, [9], 1, None),  # contradicts the page: nothing is guessed
        (2, [2, 7], 3, 1),
    ],
)
def test_place_of_a_sentence_where_blank_lines_were_dropped(sentence_id, known, length, place):
    assert sure_position(sentence_id, known, length) == place


def test_fever_repacked_pages_give_text_only_where_the_place_is_sure(originals: Path, exported):
    (originals / "fever" / "wiki_pages.jsonl").write_text(
        json.dumps({"page": "Tarn_-LRB-town-RRB-", "sentences": ["One .", "Two .", "Three .", "Four ."]})
        + "\n"
        + json.dumps({"page": "Bræ", "sentences": ["Hill .", "Near ."]})  # decomposed form
        + "\n",
        encoding="utf-8",
    )
    sets = exported("fever_opt", "fever")[0]["truth"]["evidence_sets"]
    assert [[part["text"] for part in one] for one in sets] == [["One ."], [None, "Near ."]]


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


def test_svamp_is_in_order_of_ids_with_plain_answers(exported):
    rows = exported("svamp_test", "svamp")
    assert [(row["item_id"], row["truth"]["answer"]) for row in rows] == [
        ("svamp-chal-1", "2.5"),
        ("svamp-chal-2", "5"),
        ("svamp-chal-10", "5"),
    ]
    assert rows[1]["input_text"] == "Ana had 9 nuts. If she ate 4, how many are left?"
    assert rows[2]["input_text"] == "Bo ran 2.5 km. How far is twice that?"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8.0, "8"),
        ("1,200.50", "1200.5"),
        (100, "100"),
        (0.0, "0"),
        ("x", None),
        (float("nan"), None),
        ("1e999999", None),
    ],
)
def test_plain_number(value, text):
    assert plain_number(value) == text


def test_yes_no_sets(exported):
    [row] = exported("strategyqa_dev", "strategyqa")
    assert row == {
        "item_id": "strategyqa-q1",
        "input_text": "Could a goat outlive a mill?",
        "truth": {"label": "no"},
    }
    [row] = exported("boolq_dev", "boolq")
    assert row["input_text"] == "Passage: Tarn is a town.\n\nQuestion: is tarn a town?"
    assert row["truth"] == {"label": "yes"}


def test_trec_reads_the_archive_as_latin_1_and_keeps_the_coarse_class(exported):
    [row] = exported("trec_test", "trec")
    assert row["truth"] == {"label": "NUM"}
    texts = [row["input_text"] for row in exported("trec_dev", "trec")]
    assert texts == ["Which is a sister town of Tarn ?", "Who owns the mill ?"]


def test_nq_open_keeps_every_accepted_answer(exported):
    [row] = exported("nq_open_dev", "nq_open")
    assert row["input_text"] == "who built the mill?"
    assert row["truth"] == {"answers": ["Mira Oak", "Oak"]}


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
