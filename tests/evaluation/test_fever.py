"""FEVER labels, evidence and the FEVER score."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.fever import FeverEvaluator, FeverOptions, canonical_label, normalise_page
from pcsuite.retrieval.base import KnownPages

TWO_SETS = [
    [{"page": "Soup_-LRB-film-RRB-", "sentence": 0, "text": None}],
    [
        {"page": "Soup_-LRB-film-RRB-", "sentence": 3, "text": "It was shot in Rome."},
        {"page": "Rome", "sentence": 1, "text": None},
    ],
]
CLAIM = Item("f", "Soup was shot in Italy.", {"label": "SUPPORTS", "evidence_sets": TWO_SETS})
OPEN = Item(
    "o",
    "Soup is good.",
    {"label": "NOT ENOUGH INFO", "evidence_sets": [[{"page": None, "sentence": None, "text": None}]]},
)
FEVER = FeverEvaluator()


def score(label: str, evidence: Any, item: Item = CLAIM, **kwargs: Any) -> dict[str, Any]:
    text = json.dumps(
        {"label": label, "evidence": [{"page": page, "sentence": number} for page, number in evidence]}
    )
    return FEVER.evaluate(item, Answer(text, **kwargs)).metrics


@pytest.mark.parametrize(
    ("text", "label"),
    [("not enough info", "NOT_ENOUGH_INFO"), ("NOT_ENOUGH_INFO", "NOT_ENOUGH_INFO"),
     (" Supports. ", "SUPPORTS"), ("REFUTES", "REFUTES"), ("maybe", None), (None, None), (1, None)],
)  # fmt: skip
def test_labels(text: object, label: str | None) -> None:
    assert canonical_label(text) == label


def test_pages_have_one_spelling() -> None:
    assert normalise_page("Soup_-LRB-film-RRB-") == normalise_page("soup  (film)") == "Soup (film)"
    assert normalise_page("Alien-COLON-_Covenant") == "Alien: Covenant"
    assert normalise_page("Match_Point") != normalise_page("Match_point")


def test_another_page_of_nearly_the_same_name_is_no_evidence() -> None:
    sets = [[{"page": "Match_Point", "sentence": 0, "text": None}]]
    film = Item("m", "Match Point is a film.", {"label": "SUPPORTS", "evidence_sets": sets})
    assert score("SUPPORTS", [("Match_Point", 0)], film)["fever_score"] == 1.0
    assert score("SUPPORTS", [("Match_point", 0)], film)["fever_score"] == 0.0


def test_one_whole_set_covered() -> None:
    metrics = score("SUPPORTS", [("Soup (film)", 0)])
    assert (metrics["task_score"], metrics["fever_score"]) == (1.0, 1.0)
    assert [metrics[f"evidence_{m}_sentence"] for m in ("p", "r", "f1")] == [1.0, 1.0, 1.0]
    assert [metrics[f"evidence_{m}_page"] for m in ("p", "r", "f1")] == [1.0, 1.0, 1.0]


def test_half_a_set_is_not_covered() -> None:
    metrics = score("SUPPORTS", [("Rome", 1), ("Rome", 2)])
    assert (metrics["task_score"], metrics["fever_score"]) == (1.0, 0.0)
    assert [metrics[f"evidence_{m}_sentence"] for m in ("p", "r", "f1")] == [0.5, 0.0, 0.0]
    assert [metrics[f"evidence_{m}_page"] for m in ("p", "r", "f1")] == [1.0, 0.0, 0.0]


def test_pages_right_sentence_wrong() -> None:
    metrics = score("SUPPORTS", [("Soup (film)", 9), ("Milan", 1)])
    assert [metrics[f"evidence_{m}_page"] for m in ("p", "r")] == [0.5, 1.0]
    assert metrics["evidence_f1_page"] == pytest.approx(2 / 3)
    assert [metrics[f"evidence_{m}_sentence"] for m in ("p", "r", "f1")] == [0.0, 0.0, 0.0]


def test_only_the_first_five_citations_cover() -> None:
    padding = [("Milan", number) for number in range(5)]
    late = score("SUPPORTS", [*padding, ("Soup (film)", 0)])
    assert (late["fever_score"], late["evidence_r_sentence"]) == (0.0, 0.0)
    assert late["evidence_p_sentence"] == pytest.approx(1 / 6)
    assert score("SUPPORTS", [*padding[:4], ("Soup (film)", 0)])["fever_score"] == 1.0


def test_repeated_citations_count_once() -> None:
    assert score("SUPPORTS", [("Milan", 1)] * 9 + [("Soup (film)", 0)])["fever_score"] == 1.0


def test_wrong_label_with_right_evidence() -> None:
    metrics = score("REFUTES", [("Soup (film)", 0)])
    assert (metrics["task_score"], metrics["fever_score"], metrics["evidence_f1_sentence"]) == (0.0, 0.0, 1.0)


def test_nothing_cited_has_precision_1_and_recall_0_as_in_the_shared_task() -> None:
    metrics = score("SUPPORTS", [])
    assert [metrics[f"evidence_{m}_sentence"] for m in ("p", "r", "f1")] == [1.0, 0.0, 0.0]
    assert metrics["fever_score"] == 0.0


def test_not_enough_info_needs_the_label_only() -> None:
    metrics = score("NOT ENOUGH INFO", [], OPEN)
    assert (metrics["task_score"], metrics["fever_score"], metrics["abstain_correct"]) == (1.0, 1.0, True)
    assert metrics["answered"] is True
    assert metrics["evidence_p_sentence"] is None
    wrong = score("SUPPORTS", [], OPEN)
    assert (wrong["task_score"], wrong["fever_score"], wrong["abstain_correct"]) == (0.0, 0.0, False)
    assert score("NOT_ENOUGH_INFO", [])["abstain_misuse"] is True


def test_sentences_match_by_text_where_numbers_differ() -> None:
    shown = [("Soup_-LRB-film-RRB-", 2, "It was  shot in Rome."), ("Rome", 1, "Rome lies in Italy.")]
    cited = [("Soup (film)", 2), ("Rome", 1)]
    assert score("SUPPORTS", cited, retrieved=shown)["fever_score"] == 1.0
    assert score("SUPPORTS", cited)["fever_score"] == 0.0
    # Sentence 3 as shown is another sentence than gold's number 3.
    misnumbered = [("Soup (film)", 3, "It cost little."), ("Rome", 1, "Rome lies in Italy.")]
    assert score("SUPPORTS", [("Soup (film)", 3), ("Rome", 1)], retrieved=misnumbered)["fever_score"] == 0.0
    assert score("SUPPORTS", [("Soup (film)", "It was shot in Rome."), ("Rome", "1")])["fever_score"] == 1.0


class Corpus(KnownPages):
    """Two pages; the second sentence of Rome is blank."""

    pages: ClassVar = {
        "Rome": {0: "Rome is a city.", 2: "Rome lies in Italy."},
        "Soup_-LRB-film-RRB-": {0: "Soup is a film."},
    }

    def __iter__(self) -> Iterator[str]:
        return iter(self.pages)

    def sentences(self, title: str) -> Mapping[int, str]:
        return self.pages.get(title, {})


@pytest.mark.parametrize(
    ("evidence", "rate"),
    [
        ([("Rome", 0), ("Soup (film)", 0)], 0.0),
        ([("Rome", 2), ("Rome", 1), ("Milan", 0)], 2 / 3),  # a blank sentence, a page that is not there
        ([("Rome", "Rome lies in Italy."), ("Rome", "Rome lies in Spain.")], 0.5),
        ([("Rome", None)], 1.0),  # no sentence is named
        ([], None),
    ],
)
@pytest.mark.parametrize("retrieved", [None, [], [("Rome", 2, "Rome lies in Italy.")]])
def test_a_citation_is_supported_where_page_and_sentence_exist_whatever_was_searched(
    evidence: Any, rate: float | None, retrieved: Any
) -> None:
    evaluator = FeverEvaluator()
    evaluator.know_pages(Corpus())
    rows = [{"page": page, "sentence": number} for page, number in evidence]
    answer = Answer(json.dumps({"label": "SUPPORTS", "evidence": rows}), retrieved=retrieved)
    assert evaluator.evaluate(CLAIM, answer).metrics["unsupported_rate"] == pytest.approx(rate)


def test_what_a_loop_was_not_shown_is_a_metric_of_its_own() -> None:
    shown = [("Rome", 1, "Rome lies in Italy.")]
    metrics = score("SUPPORTS", [("Rome", 1), ("Rome", 2), ("Milan", 0)], retrieved=shown)
    assert metrics["unretrieved_rate"] == pytest.approx(2 / 3)
    assert (metrics["unsupported"], metrics["unsupported_rate"]) == (None, None)  # nobody knows the pages
    assert score("SUPPORTS", [("Rome", 1)])["unretrieved_rate"] is None
    assert score("SUPPORTS", [], retrieved=shown)["unretrieved_rate"] is None


def test_a_verdict_without_citation_has_no_rate_and_is_counted() -> None:
    uncited = score("SUPPORTS", [], retrieved=[])
    assert (uncited["unsupported_rate"], uncited["uncited_verdict"]) == (None, True)
    assert score("SUPPORTS", [("Rome", 1)], retrieved=[])["uncited_verdict"] is False
    unsure = score("NOT ENOUGH INFO", [], retrieved=[])
    assert (unsure["unsupported_rate"], unsure["uncited_verdict"]) == (None, None)


def test_known_pages(tmp_path: Path) -> None:
    titles = tmp_path / "titles.txt"
    titles.write_text("Rome\nSoup_-LRB-film-RRB-\n", encoding="utf-8")
    text = json.dumps(
        {"label": "SUPPORTS", "evidence": [{"page": "Rome", "sentence": 1}, {"page": "Oz", "sentence": 1}]}
    )
    for options in (FeverOptions(known_pages=("Rome",)), FeverOptions(known_pages_file=str(titles))):
        assert FeverEvaluator(options).evaluate(CLAIM, Answer(text)).metrics["unsupported_rate"] == 0.5
    with pytest.raises(DataError, match="known_pages_file"):
        FeverEvaluator(FeverOptions(known_pages_file=str(tmp_path / "none"))).evaluate(CLAIM, Answer(text))


@pytest.mark.parametrize("text", ["", "SUPPORTS", "{}", '{"label": 1}', '{"evidence": []}'])
def test_without_a_verdict_everything_is_0(text: str) -> None:
    evaluation = FEVER.evaluate(CLAIM, Answer(text))
    assert evaluation.parsed.answer is None
    assert evaluation.metrics["task_score"] == evaluation.metrics["fever_score"] == 0.0
    assert evaluation.metrics["evidence_p_sentence"] == 0.0


def test_truncated_scores_0() -> None:
    metrics = score("SUPPORTS", [("Soup (film)", 0)], finish_reason="length")
    assert (metrics["task_score"], metrics["fever_score"], metrics["evidence_f1_page"]) == (0.0, 0.0, 0.0)


def test_gold_cites_the_smallest_set() -> None:
    assert json.loads(FEVER.gold_answer(CLAIM)) == {
        "label": "SUPPORTS",
        "evidence": [{"page": "Soup_-LRB-film-RRB-", "sentence": 0}],
    }
    assert json.loads(FEVER.gold_answer(OPEN)) == {"label": "NOT_ENOUGH_INFO", "evidence": []}
