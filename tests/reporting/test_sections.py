"""The page's tables: columns as declared, colours only where a change holds and has a good end."""

import dataclasses

import pytest
from msgspec.structs import replace

from pcsuite.analysis.analyse import analyse
from pcsuite.analysis.load.runs import RunTables
from pcsuite.logging.manifest import ModelNote
from pcsuite.reporting import sections
from pcsuite.reporting.sections import (
    attribution_section,
    conditions_section,
    effects_section,
    filters_for,
    folded_section,
    hypotheses_of,
    levels_section,
    matrix_section,
    objective_section,
    pooled_section,
)
from support.synthetic_log import make_row, write_log


@pytest.fixture(scope="module")
def analysis(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sections")
    rows = []
    for k in range(20):
        rows.append(
            make_row(item=f"{k}", condition="C0", score=0.0, metrics={"abstained": False, "edits": 3})
        )
        rows.append(make_row(item=f"{k}", condition="C1", score=1.0, metrics={"abstained": True, "edits": 1}))
    with RunTables([write_log(folder / "a.jsonl", rows)], folder / "tables") as tables:
        return analyse(tables, embeddings="off")


def cells(section, label):
    index = [column.label for column in section.table.columns].index(label)
    return [row.cells[index] for row in section.table.rows]


def test_effects_are_coloured_where_there_is_a_better(analysis):
    section = effects_section(analysis)
    css = dict(
        zip(
            (c.text for c in cells(section, "metric")),
            (c.css for c in cells(section, "difference")),
            strict=True,
        )
    )
    assert css["score"] == "n good"
    # Every answer abstains: that holds, and is neither good nor bad by itself.
    assert css["abstention rate"] == "n"
    (stars,) = (
        c.text for c in cells(section, "difference") if c.text.startswith("+1.00") and c.css == "n good"
    )
    assert stars.endswith("***")


def test_the_matrix_has_a_column_for_each_condition(analysis):
    section = matrix_section(analysis)
    assert [column.label for column in section.table.columns] == ["task", "model", "regime", "control", "C1"]
    assert cells(section, "C1")[0].css == "n good"
    assert section.filters == []


def test_levels_have_declared_headings_and_items_last(analysis):
    section = levels_section(analysis)
    assert [column.label for column in section.table.columns] == [
        "task", "model", "regime", "condition", "score", "majority class", "lenient score", "format gap", "median", "IQR", "seed variance", "JSON valid",
        "schema valid", "truncated", "tokens", "items", "rows", "errors",
    ]  # fmt: skip
    (extra,) = section.extras
    assert [column.label for column in extra.table.columns] == ["model", "decoding", "condition", "edits"]


def test_tables_without_rows_are_not_shown(analysis):
    assert [extra.id for extra in folded_section(analysis).extras] == [
        "efficiency-table",
        "information-table",
    ]
    section = objective_section(analysis)
    assert (section.table.rows, section.extras) == ([], [])


def test_filters_are_for_what_varies():
    records = [{"task": "t10", "model": "m"}, {"task": "t2", "model": "m"}]
    assert filters_for(records, {"task": "Task", "model": "Model"}) == [("task", "Task", ["t2", "t10"])]


@pytest.fixture(scope="module")
def factorial(tmp_path_factory):
    """Two tasks, a factorial of SCHEMA and VERIFIER on top of ROLE and GOAL."""
    folder = tmp_path_factory.mktemp("factorial")
    bundles = [(), ("SCHEMA",), ("VERIFIER",), ("SCHEMA", "VERIFIER")]
    rows = [
        make_row(
            task=task,
            item=f"{k}",
            condition=f"f:{'+'.join(own) or 'none'}",
            operators=("ROLE", "GOAL", *own),
            score=float((k + shift) % 5 == 0 or ("SCHEMA" in own and k % 4 > 0)),
        )
        for shift, task in enumerate(("a", "b"))
        for k in range(20)
        for own in bundles
    ]
    with RunTables([write_log(folder / "a.jsonl", rows)], folder / "tables") as tables:
        return analyse(tables, embeddings="off")


@pytest.mark.slow
def test_operators_are_shown_with_what_cannot_be_told(factorial):
    section = attribution_section(factorial)
    assert section.lead.endswith("GOAL and ROLE are in every condition: no effect can be told.")
    told = {
        (o.text, m.text) for o, m in zip(cells(section, "operator"), cells(section, "method"), strict=True)
    }
    methods = ("leave-one-out", "add-one-in", "least squares", "shapley")
    assert told == {(operator, method) for operator in ("SCHEMA", "VERIFIER") for method in methods}
    held = {
        o.text
        for o, e in zip(cells(section, "operator"), cells(section, "effect"), strict=True)
        if e.css == "n good"
    }
    assert held == {"SCHEMA"}
    assert [name for name, *_ in section.filters] == ["task", "operator", "method"]


def test_of_more_effects_than_the_page_shows_those_on_the_score_come_first(factorial, monkeypatch):
    whole = [cell.text for cell in cells(effects_section(factorial), "metric")]
    wanted = whole.count("score")
    assert whole[:wanted] != ["score"] * wanted
    monkeypatch.setattr(sections, "MOST_SHOWN", wanted)
    section = effects_section(factorial)
    assert [cell.text for cell in cells(section, "metric")] == ["score"] * wanted
    assert f"The first {wanted} of {len(whole)} rows; effects.csv has them all." in section.lead
    assert "metric" not in [name for name, *_ in section.filters]


def test_what_to_expect_on_a_new_task_is_shown(factorial):
    section = pooled_section(factorial)
    assert {cell.text for cell in cells(section, "over")} == {"tasks"}
    assert "with SCHEMA" in {cell.text for cell in cells(section, "condition")}


def test_one_task_and_two_conditions_have_nothing_to_share_or_pool(analysis):
    assert not attribution_section(analysis).table.rows
    assert not pooled_section(analysis).table.rows


@pytest.fixture(scope="module")
def by_size(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes")
    rows = [
        make_row(item=f"{k}", condition=condition, model=model, size=size, score=float(condition == "C3"), answer="x")
        for k in range(20)
        for condition in ("C2", "C3")
        for model, size in (("a", "8B"), ("b", "70B"))
    ]  # fmt: skip
    with RunTables([write_log(folder / "a.jsonl", rows)], folder / "tables") as tables:
        return analyse(tables, embeddings="off")


def test_hypotheses_without_an_arm_are_set_apart(by_size):
    arm = {finding["id"]: finding["arm"] for finding in hypotheses_of(by_size)}
    # SCHEMA has its twin and two sizes; nothing is constrained, loops, or is sampled.
    assert {name for name, has in arm.items() if has} == {"H1", "H4C"}
    told = {finding["id"]: (finding["verdict"], finding["tone"]) for finding in hypotheses_of(by_size)}
    assert told["H1"] == ("supported", "good")


def test_the_table_by_size_shows_a_column_for_each_size(by_size):
    (shown,) = (extra for extra in folded_section(by_size).extras if extra.id == "scale-table")
    labels = [column.label for column in shown.table.columns]
    assert {"effect S", "effect L", "call"} <= set(labels)


def test_the_price_that_was_assumed_stands_beside_each_model(analysis):
    noted = replace(
        analysis.manifest, models={"sim": ModelNote(price="$2 in, $8 out per million tokens (stated)")}
    )
    (model,) = analysis.scores.models
    noted.models[model] = noted.models.pop("sim")
    section = conditions_section(dataclasses.replace(analysis, manifest=noted))
    table = next(extra.table for extra in section.extras if extra.title == "Models")
    index = [column.label for column in table.columns].index("price assumed")
    assert [row.cells[index].text for row in table.rows] == ["$2 in, $8 out per million tokens (stated)"]
    bare = conditions_section(analysis)
    table = next(extra.table for extra in bare.extras if extra.title == "Models")
    assert [row.cells[index].text for row in table.rows] == ["not recorded"]
