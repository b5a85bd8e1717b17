"""Covariates of an ablation: where they are read from, and what stands beside the plain effects."""

import json

import pytest

from pcsuite.ablation import ablate
from pcsuite.ablation.covariate import Covariate
from pcsuite.ablation.page import write_result
from pcsuite.ablation.sentences import sentences
from pcsuite.errors import DataError
from support.ablating import request_in


def table(path, rows, header="id,score"):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_a_table_of_ids_and_scores_is_read(tmp_path):
    found = Covariate.read(table(tmp_path / "known.csv", ["a,0.5", "b,1", "c,0"]), ["a", "c"])
    assert found.values == {"a": 0.5, "b": 1.0, "c": 0.0}


@pytest.mark.parametrize(
    ("header", "rows", "said"),
    [("id,score", ["a,1"], "1 of 2 items have no value there, 'b'"),
     ("name,score", ["a,1", "b,0"], "a column item_id or id"),
     ("id,score", ["a,1", "b,high"], "line 3: 'high' in column score is no number"),
     ("id,score", ["a,1", "b,nan"], "is no number")],
)  # fmt: skip
def test_what_cannot_be_read_is_told(tmp_path, header, rows, said):
    with pytest.raises(DataError, match="--covariate") as error:
        Covariate.read(table(tmp_path / "known.csv", rows, header), ["a", "b"])
    assert said in str(error.value)


@pytest.mark.slow
def test_an_earlier_log_of_more_items_stands_beside_the_plain_effects(tmp_path):
    earlier = ablate(request_in(tmp_path, items=200, trim=False, name="earlier"), quiet=True)
    request = request_in(
        tmp_path,
        items=200,
        trim=False,
        name="later",
        limit=60,
        covariate=str(earlier.log),
        design="leave-one-out",
    )
    made = ablate(request, quiet=True)
    assert made.study.covariate.source == "earlier.jsonl"
    assert len(made.study.covariate.values) == 200
    assert set(made.adjusted) == {"role", "rules", "tone", "noise"}
    (line,) = [line for line in sentences(made) if line.startswith("Covariate")]
    assert "(200 items, 60 of them asked)" in line
    assert "Verdicts rest on the plain effects." in line
    write_result(made)
    document = json.loads((made.study.folder / "ablation.json").read_text(encoding="utf-8"))
    assert (
        document["covariate"]["adjusted"]["rules"]["effect_low"]
        < document["covariate"]["adjusted"]["rules"]["effect"]
    )
    without = ablate(
        request_in(tmp_path, items=200, trim=False, name="later", limit=60, design="leave-one-out"),
        quiet=True,
    )
    assert without.asked == 0  # it changes no row
    assert [entry.verdict for entry in without.verdicts] == [entry.verdict for entry in made.verdicts]
