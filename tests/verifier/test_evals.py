"""A folder of evals: which there are, and their scores."""

import shutil
from pathlib import Path

import pytest

import pcsuite.data
from pcsuite.errors import DataError
from pcsuite.verifier.evals import copy_samples, find_evals, score_evals
from pcsuite.verifier.mapping import load_mapping

SAMPLES = Path(pcsuite.data.__file__).parent / "samples" / "buildingspec"


@pytest.fixture
def root(tmp_path):
    for name in ("two-gables", "heron-cottage"):
        shutil.copytree(SAMPLES / name, tmp_path / name)
    (tmp_path / "notes").mkdir()
    return tmp_path


def test_evals_are_folders_with_a_truth_by_name(root):
    assert [one.eval_id for one in find_evals(root)] == ["heron-cottage", "two-gables"]
    assert [one.eval_id for one in find_evals(root, only=["two-gables"])] == ["two-gables"]
    assert [one.eval_id for one in find_evals(root, exclude=["two-gables"])] == ["heron-cottage"]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"only": ["two-gable"]}, "did you mean 'two-gables'"),
        ({"exclude": ["heron-cottage", "two-gables"]}, "every eval is excluded"),
    ],
)
def test_choices_that_cannot_be(root, chosen, message):
    with pytest.raises(DataError, match=message):
        find_evals(root, **chosen)
    with pytest.raises(DataError, match="no evals"):
        find_evals(root / "notes")
    with pytest.raises(DataError, match="no such folder"):
        find_evals(root / "nowhere")


def test_what_cannot_be_parsed_scores_zero_and_what_is_missing_is_an_error(root):
    (root / "two-gables" / "extracted.json").write_text("[]")
    heron, gables = score_evals(find_evals(root), load_mapping())
    assert heron.scored.comparison.counts.f1 > 0.9
    assert (gables.scored.comparison.counts.f1, gables.scored.comparison.counts.matches) == (0, 0)
    assert "root is a list" in gables.scored.parse_error
    (root / "two-gables" / "extracted.json").unlink()
    with pytest.raises(DataError, match="no such file"):
        score_evals(find_evals(root), load_mapping())


def test_samples_go_to_a_new_folder_only(tmp_path):
    copy_samples(tmp_path / "evals")
    assert len(find_evals(tmp_path / "evals")) == 16
    with pytest.raises(DataError, match="exists already"):
        copy_samples(tmp_path / "evals")
