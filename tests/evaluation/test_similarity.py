"""ROUGE-L and BLEU equal the libraries' own values, and worked examples."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcsuite.errors import ConfigError
from pcsuite.evaluation.similarity import bleu, bleurt_similarity, rouge_l

WORDS = st.lists(
    st.sampled_from(["the", "cat", "sat", "on", "a", "mat", ",", "not", ".", "dogs", "Café", "42"]),
    min_size=1,
    max_size=12,
)


def test_worked_examples() -> None:
    # Longest common subsequence "the cat on mat" has 4 words; 5 given, 6 wanted: F = 2·4/(5+6).
    assert rouge_l("the cat on a mat", "the cat sat on the mat") == pytest.approx(8 / 11)
    assert rouge_l("Dogs!", "dogs") == 1.0
    assert rouge_l("x", "y") == 0.0
    assert bleu("the cat sat on the mat", "the cat sat on the mat") == pytest.approx(100.0)
    # Precisions 3/3, 2/2, 1/1 and none of order 4, which leaves 0 without effective order.
    assert bleu("the cat sat", "the cat sat") == 0.0


@settings(max_examples=60)
@given(answer=WORDS, reference=WORDS)
def test_equal_to_the_libraries(answer: list[str], reference: list[str]) -> None:
    import sacrebleu
    from rouge_score import rouge_scorer

    given_text, wanted_text = " ".join(answer), " ".join(reference)
    scorer = rouge_scorer.RougeScorer(["rougeL"])
    assert rouge_l(given_text, wanted_text) == scorer.score(wanted_text, given_text)["rougeL"].fmeasure
    expected = sacrebleu.corpus_bleu(
        [given_text], [[wanted_text]], smooth_method="exp", tokenize="intl", use_effective_order=False
    )
    assert bleu(given_text, wanted_text) == expected.score


@pytest.mark.skipif("bleurt" in sys.modules, reason="BLEURT is installed")
def test_bleurt_needs_its_package_and_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="bleurt package is not installed"):
        bleurt_similarity(str(tmp_path))
    package = ModuleType("bleurt")
    package.__spec__ = SimpleNamespace()  # type: ignore[assignment]
    package.score = SimpleNamespace(  # type: ignore[attr-defined]
        BleurtScorer=lambda checkpoint: SimpleNamespace(
            score=lambda references, candidates: [float(len(candidates[0]) - len(references[0]))]
        )
    )
    monkeypatch.setitem(sys.modules, "bleurt", package)
    with pytest.raises(ConfigError, match="not a folder"):
        bleurt_similarity(str(tmp_path / "none"))
    assert bleurt_similarity(str(tmp_path))("abc", "a") == 2.0
