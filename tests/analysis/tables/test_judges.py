"""What a report says of a judge: nothing was checked, chance is not beaten, or how well it agrees."""

import pytest

from pcsuite.analysis.tables.judges import (
    NOT_VALIDATED,
    CheckedJudge,
    JudgeCheck,
    judge_status,
    read_check,
    write_check,
)
from pcsuite.errors import LogError
from pcsuite.logging.manifest import JudgeNote
from pcsuite.logging.segments import Beside

JUDGES = {"advice": JudgeNote("m", "pass_fail", "hash", "r")}


def record(**figures):
    return {"task": "advice", "judge": "m", "condition": "all", "n_labels": 50} | figures


def status(log, prompt_hash="hash", model="m", **figures):
    write_check(log, JudgeCheck("now", {"advice": CheckedJudge(model, prompt_hash, 50)}, [record(**figures)]))
    return judge_status([log], JUDGES)


GOOD = {"kappa": 0.6, "kappa_low": 0.4, "kappa_high": 0.8}


def test_no_check_is_not_validated(tmp_path):
    found = judge_status([tmp_path / "t.jsonl"], JUDGES)
    assert found.words == {"advice": NOT_VALIDATED}
    assert found.unvalidated == ["advice"]
    assert found.note() == "advice: judge not validated."
    assert len(found.table()) == 0
    assert judge_status([tmp_path / "t.jsonl"], {}).note() == ""


def test_a_check_is_told_with_its_kappa(tmp_path):
    found = status(tmp_path / "t.jsonl", **GOOD)
    assert found.words["advice"] == "judge m checked on 50 labels (κ 0.60 [0.40, 0.80])"
    assert found.unvalidated == []
    assert next(found.table().records())["kappa"] == 0.6
    assert found.note(["other"]) == ""


def test_chance_that_is_not_beaten_is_said(tmp_path):
    found = status(tmp_path / "t.jsonl", kappa=0.1, kappa_low=-0.1, kappa_high=0.3)
    assert "not shown to beat chance" in found.words["advice"]
    untold = status(tmp_path / "t.jsonl", kappa=None)
    assert "κ cannot be told" in untold.words["advice"]


@pytest.mark.parametrize("other", [{"prompt_hash": "older"}, {"model": "another"}])
def test_a_check_of_another_judge_counts_for_nothing(tmp_path, other):
    assert status(tmp_path / "t.jsonl", **GOOD, **other).words == {"advice": NOT_VALIDATED}


def test_a_damaged_check_is_one_line(tmp_path):
    log = tmp_path / "t.jsonl"
    Beside.JUDGE_CHECK.of(log).write_text("{")
    with pytest.raises(LogError, match="not a check of a judge"):
        read_check(log)
