"""Plain tables: what is named is read, what is not clear is refused."""

import pytest

from pcsuite.errors import ConfigError, DataError
from pcsuite.importers.base import ReadOptions
from pcsuite.importers.table_rows import FORMAT

TABLE = """id,prompt,run,correct,length,customer
a,v1,1,1,0.5,ann
a,v1,2,0,0.4,ann
b,v1,1,true,0.3,bob
b,v1,2,,0.2,bob
a,v2,1,pass,0.5,ann
"""
NAMED = {"item": "id", "scores": ["correct"], "arm": "prompt", "repeat": "run"}


def read(tmp_path, text=TABLE, **options):
    path = tmp_path / "answers.csv"
    path.write_text(text)
    return FORMAT.open(path, ReadOptions(**options))


def test_an_arm_is_an_evaluation_and_a_run_a_repetition(tmp_path):
    first, second = read(tmp_path, **NAMED)
    assert [(log.header.condition, log.header.epochs) for log in (first, second)] == [("v1", 2), ("v2", 1)]
    samples = [(s.item_id, s.epoch, s.scores["correct"]) for s in first.samples("correct")]
    assert samples == [("a", 1, 1.0), ("a", 2, 0.0), ("b", 1, 1.0), ("b", 2, None)]
    assert first.header.remarks == ("columns that are not read: 'length', 'customer'",)


def test_repetitions_are_numbered_by_size_not_by_spelling(tmp_path):
    text = "id,run,s\n" + "\n".join(f"a,{run},0.{run % 10}" for run in (10, 9, 2))
    (log,) = read(tmp_path, text, item="id", scores=["s"], repeat="run")
    assert [(s.epoch, s.scores["s"]) for s in log.samples("s")] == [(3, 0.0), (2, 0.9), (1, 0.2)]


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        (TABLE, {"item": "id"}, "needs the columns of item and score"),
        (TABLE, NAMED | {"item": "ids"}, "no column 'ids'"),
        (TABLE, NAMED | {"repeat": ""}, "line 3: item 'a' has a row already .*line 2.*--repeat"),
        (TABLE + "a,v1,2,1,0,ann\n", NAMED, "has a row of run '2' already"),
        (TABLE + "c,v1,1,good,0,ann\n", NAMED, "'correct' is 'good', no finite number"),
        (TABLE + "c,v1,1,inf,0,ann\n", NAMED, "'correct' is 'inf', no finite number"),
        (TABLE + ",v1,1,1,0,ann\n", NAMED, "no value in 'id'"),
        (TABLE + "c,,1,1,0,ann\n", NAMED, "no value in 'prompt'"),
    ],
)
def test_nothing_is_guessed(tmp_path, text, options, problem):
    with pytest.raises((ConfigError, DataError), match=problem):
        read(tmp_path, text, **options)
