"""The task that an ablation's data are, and what it concludes from a table."""

import json
from dataclasses import replace

import pytest

from pcsuite.ablation.study import prepare
from pcsuite.runners.plan import build_plan
from support.ablating import request_in


@pytest.mark.parametrize(
    ("file", "name"),
    [("Prüfung 2.md", "Pr-fung-2"), ("_draft.md", "draft"), ("提示.md", "prompt"), ("v1.2.md", "v1.2")],
)
def test_a_run_takes_its_name_from_any_file(tmp_path, file, name):
    request = request_in(tmp_path)
    renamed = request.prompt.with_name(file)
    renamed.write_bytes(request.prompt.read_bytes())
    assert prepare(replace(request, prompt=renamed)).folder.name == name


@pytest.mark.parametrize(
    ("rows", "changes", "read"),
    [
        ("text,label\n{i} a,{b}", {}, ("label", "classification")),
        ("text,total\n{i} a,{i}", {}, ("total", "number")),
        ("text,who,answer\n{i} a,x,name {i}", {}, ("answer", "short_answer")),
        ("text,a,b,right\n{i} a,yes,no,a", {"choices": ("a", "b"), "answer": "right"}, ("right", "choice")),
        ("text,name,year\n{i} a,n{i},{i}", {"fields": ("name", "year")}, (None, "extraction")),
    ],
)
def test_what_the_table_is_is_concluded(tmp_path, rows, changes, read):
    request = request_in(tmp_path, effects={}, answer=None)
    header, line = rows.split("\n")
    body = [line.format(i=i, b="xy"[i % 2]) for i in range(60)]
    (tmp_path / "tickets.csv").write_text("\n".join([header, *body]) + "\n", encoding="utf-8")
    study = prepare(replace(request, **changes))
    answer, scorer = read
    assert study.task.spec.evaluator == scorer
    assert answer is None or f"answer: {answer}" in study.task.reading


def test_an_existing_task_stands_in_for_a_table(tmp_path):
    request = request_in(tmp_path, effects={}, prompt="Classify.\n\nBe brief.\n\n{{ input }}\n", answer=None)
    study = prepare(replace(request, data="agnews_json", limit=30))
    plan = build_plan(study.write(study.design.arms))
    task = plan.tasks["agnews_json"]
    assert len(task.items) == 30
    assert task.evaluator.schema == json.loads((study.folder / "schema.json").read_text())
    assert task.items[0].input_text in plan.cells[0].tree(task.items[0]).assemble()
