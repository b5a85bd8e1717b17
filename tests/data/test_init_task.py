from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pcsuite.config.load import Suite, load_suite
from pcsuite.data.init_task import (
    InitResult,
    TaskRequest,
    answer_column,
    default_sizes,
    id_column,
    init_task,
    input_columns,
    likely_kind,
    read_table_task,
)
from pcsuite.data.items import Item, Row, read_items
from pcsuite.data.table_files import read_table
from pcsuite.data.task_recipes import RECIPES, Columns
from pcsuite.errors import DataError, PcsuiteError
from pcsuite.evaluation.base import Answer
from pcsuite.runners.task_plan import task_evaluator

TICKETS = "id,text,queue\n" + "".join(
    f'T{n},"Ticket {n}, about {topic}",{topic}\n'
    for n, topic in enumerate(["billing", "login", "billing", "refund", "login"] * 4)
)
TABLES: dict[str, tuple[str, str, Columns]] = {
    "classification": ("tickets.csv", TICKETS, Columns(inputs=("text",), answer="queue")),
    "number": (
        "sums.csv",
        "q,n\n" + "".join(f'What is {n} plus {n * 1000}?,"{n * 1001:,}"\n' for n in range(1, 13)),
        Columns(inputs=("q",), answer="n", decimal="."),
    ),
    "choice": (
        "quiz.tsv",
        "q\ta\tb\tc\tright\n" + "".join(f"Which is {n}?\tx{n}\ty{n}\tz{n}\ty{n}\n" for n in range(12)),
        Columns(inputs=("q",), answer="right", choices=("a", "b", "c")),
    ),
    "short_answer": (
        "facts.jsonl",
        "".join(json.dumps({"q": f"Who is {n}?", "a": [f"Mr {n}", f"M. {n}"]}) + "\n" for n in range(12)),
        Columns(inputs=("q",), answer="a"),
    ),
    "extraction": (
        "bills.csv",
        "body,total,currency,code\n" + "".join(f"Bill {n} of {n}.5 EUR,{n}.5,EUR,00{n}\n" for n in range(12)),
        Columns(inputs=("body",), fields=("total", "currency", "code")),
    ),
    "assert": (
        "checks.csv",
        "q,__expected\n" + "".join(f"Say {n},contains: n{n}\n" for n in range(12)),
        Columns(inputs=("q",), answer="__expected"),
    ),
    "own": (
        "mails.csv",
        "mail,wanted\n" + "".join(f"Mail {n},w{n}\n" for n in range(12)),
        Columns(inputs=("mail",), answer="wanted"),
    ),
}


def make(tmp_path: Path, kind: str, **changes: Any) -> InitResult:
    name, text, columns = TABLES[kind]
    table = tmp_path / name
    table.write_text(changes.pop("text", text), encoding="utf-8")
    meant = asdict(changes.pop("columns", columns))
    settings = {"out_dir": tmp_path / "out", "cache_dir": tmp_path / "cache", **meant, **changes}
    if kind == "own":
        scorer = tmp_path / "my_scorer.py"
        scorer.write_text("def score(answer, item):\n    return answer == item.expected\n")
        settings = {"scorer": f"{scorer}:score", **settings}
    return init_task(TaskRequest(name="mine", data=table, kind=kind, **settings))


def all_items(result: InitResult) -> list[Item]:
    return sorted((i for path, _ in result.items.values() for i in read_items(path)), key=lambda i: i.item_id)


@pytest.mark.parametrize("kind", list(RECIPES))
def test_the_task_is_runnable_and_its_own_truths_score_1(tmp_path, kind):
    result = make(tmp_path, kind)
    suite: Suite = load_suite(result.profile_file)
    evaluator = task_evaluator(suite, "mine")
    for item in all_items(result):
        gold = evaluator.evaluate(item, Answer(evaluator.gold_answer(item)))
        assert gold.metrics["task_score"] == 1.0
        assert gold.parsed.schema_valid in (True, None)
        wrong = evaluator.evaluate(item, Answer(evaluator.wrong_answer(item, Random(1))))
        assert wrong.metrics["task_score"] != 1.0


@pytest.mark.parametrize("kind", list(RECIPES))
def test_splits_are_disjoint_complete_and_repeatable(tmp_path, kind):
    result = make(tmp_path, kind)
    rows = 20 if kind == "classification" else 12
    sizes = {split: count for split, (_, count) in result.items.items()}
    assert sizes == {"train": 4, "test": rows - 4}  # a small table is for testing, but for the exemplars
    assert len({item.item_id for item in all_items(result)}) == rows
    first = {path: path.read_bytes() for path, _ in result.items.values()}
    make(tmp_path, kind, overwrite=True)
    assert {path: path.read_bytes() for path in first} == first


def test_classification_task_file_and_schema(tmp_path):
    result = make(tmp_path, "classification", id_column="id", title="Queues", dev_share=0.2)
    task = load_suite(result.profile_file).tasks["mine"]
    assert task.title == "Queues"
    assert task.kind == "structured"
    assert (task.dataset, task.split, task.dev_split, task.train_split) == ("mine", "test", "dev", "train")
    assert "billing, login, refund" in task.instruction
    schema = json.loads(result.schema_file.read_text(encoding="utf-8"))
    assert schema["properties"]["label"]["enum"] == ["billing", "login", "refund", "INSUFFICIENT_INFO"]
    [item] = [item for item in all_items(result) if item.item_id == "T3"]
    assert item == Item("T3", "Ticket 3, about refund", {"label": "refund"})


def test_several_input_columns_are_named(tmp_path):
    result = make(tmp_path, "classification", columns=Columns(inputs=("id", "text"), answer="queue"))
    assert all_items(result)[0].input_text == "id: T0\ntext: Ticket 0, about billing"


def test_number_task_is_reasoning_without_schema(tmp_path):
    result = make(tmp_path, "number")
    assert result.schema_file is None
    task = load_suite(result.profile_file).tasks["mine"]
    assert task.kind == "reasoning"
    assert task.answer_regex is not None
    assert all_items(result)[11].truth == {"answer": "12012"}


def test_choice_answers_may_be_texts_or_letters(tmp_path):
    first = all_items(make(tmp_path, "choice"))[0]
    assert first.input_text == "Which is 0?\nA. x0\nB. y0\nC. z0"
    assert first.truth == {"choice": "B", "choices": {"A": "x0", "B": "y0", "C": "z0"}}
    listed = "q\toptions\tright\n" + "".join(f"Q{n}\tone | two\tb\n" for n in range(9))
    columns = Columns(inputs=("q",), answer="right", choices=("options",))
    item = all_items(make(tmp_path, "choice", text=listed, columns=columns, overwrite=True))[0]
    assert item.truth == {"choice": "B", "choices": {"A": "one", "B": "two"}}


def test_extraction_types_come_from_the_table(tmp_path):
    result = make(tmp_path, "extraction")
    schema = json.loads(result.schema_file.read_text(encoding="utf-8"))
    assert schema["properties"] == {
        "total": {"type": ["number", "null"]},
        "currency": {"type": ["string", "null"], "maxLength": 200},
        "code": {"type": ["string", "null"], "maxLength": 200},
    }
    assert all_items(result)[3].truth == {"total": 3.5, "currency": "EUR", "code": "003"}


def test_extraction_reads_json_records_and_checks_a_given_schema(tmp_path):
    rows = [{"t": f"text {n}", "record": {"n": n, "tags": ["a"]}} for n in range(9)]
    table = tmp_path / "x.json"
    table.write_text(json.dumps(rows), encoding="utf-8")
    schema = tmp_path / "s.json"
    schema.write_text('{"type": "object", "properties": {"n": {"maximum": 7}}}', encoding="utf-8")
    request = TaskRequest(
        name="mine",
        data=table,
        kind="extraction",
        inputs=("t",),
        answer="record",
        schema_file=schema,
        out_dir=tmp_path / "out",
        cache_dir=tmp_path / "cache",
    )
    with pytest.raises(DataError, match="item 'mine-000009' does not fit the schema: 8 is greater"):
        init_task(request)
    assert not (tmp_path / "out").exists()
    schema.write_text('{"type": "object", "properties": {"n": {"maximum": 8}}}', encoding="utf-8")
    result = init_task(request)
    assert json.loads(result.schema_file.read_text(encoding="utf-8"))["properties"]["n"] == {"maximum": 8}
    assert all_items(result)[8].truth == {"n": 8, "tags": ["a"]}


def test_nothing_is_overwritten_unasked(tmp_path):
    make(tmp_path, "classification")
    with pytest.raises(DataError, match=r"mine_task\.yaml.* exist already \(--overwrite"):
        make(tmp_path, "classification")


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (
            "classification",
            {"columns": Columns(inputs=("txt",), answer="queue")},
            "no column 'txt' (--input) (did you mean 'text'?)",
        ),
        (
            "classification",
            {"columns": Columns(inputs=("text",))},
            "needs an answer column (--answer COLUMN)",
        ),
        (
            "classification",
            {"columns": Columns(inputs=("text",), answer="queue", labels=("billing", "logins", "refund"))},
            "tickets.csv line 3: label 'login' is not one of the labels (did you mean 'logins'?)",
        ),
        (
            "classification",
            {"text": TICKETS.replace(",refund", ",")},
            "line 5: column 'queue' is empty (fill it in, or take the row out of the table)",
        ),
        ("classification", {"text": TICKETS + "T9,x\n"}, "line 22: expected 3 columns, found 2"),
        ("classification", {"text": "a,a\n1,2\n"}, "line 1: column names must be there and differ"),
        ("classification", {"text": 'a,"two\nlines",a\n1,2,3\n'}, "differ, found a, two lines, a"),
        ("classification", {"text": "id,text,queue\n1,t,q\n"}, "has 1 row: too few to part"),
        ("classification", {"id_column": "queue"}, "line 4: id 'billing' was already used"),
        (
            "classification",
            {"text": TICKETS.replace("login", "billing").replace("refund", "billing")},
            "two labels",
        ),
        ("classification", {"train_share": 0.6, "dev_share": 0.5}, "and 0 test items"),
        ("classification", {"train_share": float("nan")}, "--train-share nan: a share of the rows"),
        ("classification", {"dev_share": 1.0}, "--dev-share 1: a share of the rows"),
        (
            "classification",
            {"model": "smollm"},
            "--model: unknown model 'smollm' (did you mean 'smollm2-135m",
        ),
        (
            "classification",
            {"text": TICKETS + 'T20,"Ticket  3, ABOUT refund",login\n'},
            "line 22: the same input as in line 5, but another answer: 'login' here, 'refund' there",
        ),
        (
            "number",
            {"text": "q,n\n" + "".join(f"Q{n % 8},{n // 9}\n" for n in range(10))},
            "line 11: the same input as in line 3, but another answer: '1' here, '0' there",
        ),
        ("number", {"text": "q,n\n" + "x,1e99999999\n" * 9}, "line 2: column 'n' holds no number"),
        ("number", {"columns": Columns(inputs=("q",), answer="q")}, "line 2: column 'q' holds no number"),
        (
            "choice",
            {"columns": Columns(inputs=("q",), answer="q", choices=("a", "b"))},
            "is neither a letter A to B nor",
        ),
        ("choice", {"columns": Columns(inputs=("q",), answer="right")}, "needs its options (--choices"),
        (
            "extraction",
            {"columns": Columns(inputs=("body",), answer="code")},
            "line 2: column 'code' is not valid JSON",
        ),
        (
            "extraction",
            {"columns": Columns(inputs=("body",), answer="total")},
            "column 'total' should hold a JSON object",
        ),
    ],
)
def test_wrong_tables_are_explained(tmp_path, kind, changes, message):
    with pytest.raises(PcsuiteError) as caught:
        make(tmp_path, kind, **changes)
    assert message in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_names_and_kinds_are_checked(tmp_path):
    request = TaskRequest("mine", tmp_path / "x.csv", kind="number", inputs=("q",), answer="n")
    with pytest.raises(DataError, match="'My Task' cannot name a task"):
        init_task(replace(request, name="My Task"))
    with pytest.raises(DataError, match="did you mean 'classification'"):
        init_task(replace(request, kind="clasification"))
    with pytest.raises(DataError, match="does not exist"):
        init_task(request)


def test_a_small_table_is_for_testing():
    assert default_sizes(8) == (4, 0)
    assert default_sizes(40) == (4, 0)  # 36 of 40 are tested
    assert default_sizes(99) == (7, 0)  # 7 rows for tuning are not worth having
    assert default_sizes(100) == (8, 8)


def test_a_row_that_is_there_twice_is_no_contradiction(tmp_path):
    result = make(tmp_path, "classification", text=TICKETS + 'T20,"Ticket 3, about refund",refund\n')
    assert sum(count for _, count in result.items.values()) == 21


def test_what_an_earlier_task_left_over_goes(tmp_path):
    first = make(tmp_path, "classification", dev_share=0.2)
    dev, _ = first.items["dev"]
    assert dev.exists()
    assert first.schema_file.exists()
    text, columns = TABLES["number"][1:]
    table = tmp_path / "sums.csv"
    table.write_text(text, encoding="utf-8")
    places = {"out_dir": tmp_path / "out", "cache_dir": tmp_path / "cache"}
    again = init_task(TaskRequest("mine", table, kind="number", overwrite=True, **asdict(columns), **places))
    assert "dev" not in again.items
    assert not dev.exists()
    assert not first.schema_file.exists()


def test_a_split_alone_is_not_taken_over_unasked(tmp_path):
    result = make(tmp_path, "classification", dev_share=0.2)
    dev, _ = result.items["dev"]
    for path in (tmp_path / "out").iterdir():
        path.unlink()
    for split in ("train", "test"):
        result.items[split][0].unlink()
    with pytest.raises(DataError, match="mine_dev.jsonl exists already"):
        make(tmp_path, "classification")
    assert dev.exists()


def test_the_profile_runs_from_any_folder(tmp_path, monkeypatch):
    profile = make(tmp_path, "classification").profile_file
    far = tmp_path / "far" / "away"
    far.mkdir(parents=True)
    hashes = set()
    for folder in (tmp_path, far):
        monkeypatch.chdir(folder)
        suite = load_suite(profile)
        assert Path(suite.profile.run.output_dir).resolve() == tmp_path / "out" / "outputs"
        assert (Path(suite.profile.run.cache_dir) / "datasets" / "mine_test.jsonl").is_file()
        hashes.add(suite.config_hash)
    moved = tmp_path / "moved"
    (tmp_path / "out").rename(moved)
    hashes.add(load_suite(moved / profile.name).config_hash)
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("kind", "form", "said", "evaluator"),
    [
        ("classification", "label", "Answer with the label alone.", "classification"),
        ("choice", "text", "Answer with its letter alone.", "choice"),
        ("short_answer", "text", "Answer the question in a few words.", "short_answer"),
        ("number", "number", "Answer the question with a number.", "number"),
    ],
)
def test_no_json_where_the_answer_is_a_text_a_label_or_a_number(tmp_path, kind, form, said, evaluator):
    result = make(tmp_path, kind, answer_as=form)
    suite = load_suite(result.profile_file)
    task = suite.tasks["mine"]
    assert (result.schema_file, task.kind, task.evaluator) == (None, "reasoning", evaluator)
    assert said in task.instruction
    assert "JSON" not in " ".join(
        [task.instruction, task.goal, *task.rules, task.abstain, *task.verifier_checklist]
    )
    scored = task_evaluator(suite, "mine")
    for item in all_items(result):
        bare = scored.gold_value(item)
        assert scored.evaluate(item, Answer(bare)).metrics["task_score"] == 1.0
        assert scored.evaluate(item, Answer(scored.gold_answer(item))).metrics["task_score"] == 1.0


def test_a_number_in_json(tmp_path):
    result = make(tmp_path, "number", answer_as="json")
    suite = load_suite(result.profile_file)
    assert suite.tasks["mine"].kind == "structured"
    item = all_items(result)[0]
    assert (
        task_evaluator(suite, "mine").evaluate(item, Answer('{"answer": 1001}')).metrics["task_score"] == 1.0
    )


def test_a_record_is_json_or_nothing(tmp_path):
    with pytest.raises(DataError, match="kind extraction is answered in JSON"):
        make(tmp_path, "extraction", answer_as="text")


def test_a_scorer_goes_with_its_kind(tmp_path):
    with pytest.raises(DataError, match="--scorer goes with --kind own"):
        make(tmp_path, "number", scorer="my_scorer.py:score")
    with pytest.raises(DataError, match="needs --scorer"):
        make(tmp_path, "own", scorer=None)


def test_cells_may_hold_lists_of_assertions_and_empty_ones_assert_nothing(tmp_path):
    text = "q,__expected1,__expected2\n" + "".join(
        f'Say {n},"[""contains: a"", {{""number"": {n}}}]",\n' if n % 2 else f"Say {n},b,c: d\n"
        for n in range(12)
    )
    columns = Columns(inputs=("q",), fields=("__expected1", "__expected2"))
    items = all_items(make(tmp_path, "assert", text=text, columns=columns))
    assert items[0].truth == {"assert": ["b", "c: d"]}
    assert items[1].truth == {"assert": ["contains: a", {"number": 1}]}
    with pytest.raises(DataError, match=r"line 2: column '__expected1' is empty"):
        make(
            tmp_path,
            "assert",
            text="q,__expected1,__expected2\n" + "a,,\n" * 12,
            columns=columns,
            overwrite=True,
        )


@pytest.mark.parametrize(
    ("answers", "columns", "kind"),
    [
        (["1", "$2,000", "3.5"], {}, "number"),
        (["yes", "no"] * 6, {}, "classification"),
        ([f"word {n}" for n in range(12)], {}, "short_answer"),
        (['{"a": 1}', '{"a": 2}'], {}, "extraction"),
        (["x"], {"choices": ("c",)}, "choice"),
        (["x"], {"fields": ("f",)}, "extraction"),
        (["1", "2"], {"labels": ("1", "2")}, "classification"),
    ],
)
def test_the_kind_that_a_table_looks_like(answers, columns, kind):
    rows = [Row(f"line {n}", {"q": "?", "a": answer}) for n, answer in enumerate(answers)]
    assert likely_kind(rows, Columns(inputs=("q",), answer="a", **columns)) == kind


def table(tmp_path, data):
    path = tmp_path / "table.csv"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "data",
    [
        b"text,queue\na,billing\n",
        b"\xef\xbb\xbftext;queue\r\na;billing\r\n",
        b"text\tqueue\ra\tbilling\r",
        b'"text";"queue"\n"a";"billing"\n',
    ],
)
def test_tables_as_spreadsheets_write_them(tmp_path, data):
    assert [row.values for row in read_table(table(tmp_path, data))] == [{"text": "a", "queue": "billing"}]


def test_a_cell_may_hold_a_long_document(tmp_path):
    (row,) = read_table(table(tmp_path, b'text,queue\n"' + b"x" * 300_000 + b'",billing\n'))
    assert len(row.values["text"]) == 300_000


def test_a_quote_that_is_never_closed_is_told(tmp_path):
    with pytest.raises(
        DataError, match=r"after line 1: .*\(a quote is never closed, or the file was cut off\)"
    ):
        read_table(table(tmp_path, b'text,queue\n"a,billing\nb,technical\n'))


@pytest.mark.parametrize(
    ("told", "known", "placeholders", "found"),
    [
        ({"answer": "b"}, "abc", (), ("b", "")),
        ({"fields": ("a", "b")}, "abc", (), (None, "")),
        ({}, ["text", "Gold"], (), ("Gold", " (by its name)")),
        (
            {"inputs": ("text",), "id_column": "id"},
            ["id", "text", "queue"],
            (),
            ("queue", " (the only column left)"),
        ),
        ({}, ["answer", "queue"], ("answer",), ("queue", " (the only column left)")),
    ],
)
def test_the_column_of_the_right_answer(told, known, placeholders, found):
    source = Path("tickets.csv")
    assert answer_column(Columns(**told), list(known), source, placeholders=placeholders) == found


def test_columns_that_cannot_be_concluded():
    source, known = Path("tickets.csv"), ["text", "queue", "date"]
    with pytest.raises(
        DataError, match=r"which column is the right answer\? \(--answer, one of queue, date\)"
    ):
        answer_column(Columns(inputs=("text",)), known, source)
    assert answer_column(Columns(inputs=("text",)), known, source, needed=False) == (None, "")
    with pytest.raises(DataError, match=r"no column 'que' \(--answer\)"):
        answer_column(Columns(answer="que"), known, source)
    with pytest.raises(DataError, match="no column is left for the input"):
        input_columns(Columns(answer="a"), ["a"], source)
    assert input_columns(Columns(answer="queue"), known, source) == ("text", "date")


@pytest.mark.parametrize(
    ("name", "content", "answers"),
    [
        ("euro.csv", "frage;wert\r\n" + "".join(f"Wie viel ist {n}?;{n},5\r\n" for n in range(12)), "0.5"),
        ("bom.csv", "\ufefffrage;wert\n" + "".join(f"Wie viel ist {n}?;{n},5\n" for n in range(12)), "0.5"),
        ("tabs.csv", "frage\twert\n" + "".join(f"Wie viel ist {n}?\t{n},5\n" for n in range(12)), "0.5"),
        ("noted.csv", "sep=;\nfrage;wert\n" + "".join(f"Wie viel, {n}?;{n},5\n" for n in range(12)), "0.5"),
        ("quoted.csv", '"frage";"wert"\n' + "".join(f'"Wie, {n}?";"{n},5"\n' for n in range(12)), "0.5"),
    ],
)
def test_european_tables_are_read_as_they_were_meant(tmp_path, name, content, answers):
    table = tmp_path / name
    table.write_text(content, encoding="utf-8")
    for encoding in ("utf-8", "utf-16"):
        table.write_text(
            content.removeprefix("\ufeff") if encoding == "utf-16" else content, encoding=encoding
        )
        rows = read_table(table)
        assert list(rows[0].values) == ["frage", "wert"]
        asked = Columns(inputs=("frage",), answer="wert")
        assert likely_kind(rows, asked) == "number"
        request = TaskRequest("euro", table, kind="number", inputs=("frage",), answer="wert")
        task = read_table_task(request, rows=rows)
        assert [item.truth["answer"] for item in task.items] == [f"{n}.5" for n in range(12)]
        assert task.numbers == "wert: decimal comma: '0,5' is 0.5"
    assert answers == task.items[0].truth["answer"]


def test_a_decimal_comma_in_a_table_parted_by_commas_is_told(tmp_path):
    (tmp_path / "t.csv").write_text("q,n\nHow much?,0,5\n", encoding="utf-8")
    with pytest.raises(DataError, match="expected 2 columns, found 3") as caught:
        read_table(tmp_path / "t.csv")
    assert "needs quotes" in str(caught.value.hint)


def test_the_mark_can_be_said_and_nothing_else_is_one(tmp_path):
    (tmp_path / "t.csv").write_text(
        "q;n\n" + "".join(f"q{n};{n},125\n" for n in range(1, 10)), encoding="utf-8"
    )
    request = TaskRequest("mine", tmp_path / "t.csv", kind="number", inputs=("q",), answer="n")
    with pytest.raises(DataError, match=r"line 2: column 'n': '1,125' is 1125 or 1\.125"):
        read_table_task(request)
    told = read_table_task(replace(request, decimal=","))
    assert told.items[0].truth == {"answer": "1.125"}
    assert read_table_task(replace(request, decimal=".")).items[0].truth == {"answer": "1125"}
    with pytest.raises(DataError, match="the decimal mark is . or ,"):
        read_table_task(replace(request, decimal=";"))


@pytest.mark.parametrize(
    ("ids", "column", "said"),
    [
        (["a7", "b1", "c2"], "id", "ids: id"),
        (["1", "1", "2"], None, "rows are numbered, since ids in column id repeat"),
        (["1", "", "2"], None, "rows are numbered, since column id has no id in some"),
        (["x" * 101, "b", "c"], None, "rows are numbered, since column id has no id in some"),
    ],
)
def test_the_column_called_id_names_the_rows_where_it_can(ids, column, said):
    rows = [Row(f"line {n}", {"id": value, "text": "t"}) for n, value in enumerate(ids, 2)]
    assert id_column(Columns(), rows) == (column, said)
    assert id_column(Columns(id_column="text"), rows) == ("text", "ids: text")
    assert id_column(Columns(answer="id"), rows) == (None, "")
    assert id_column(Columns(), [Row("line 2", {"text": "t"})]) == (None, "")
