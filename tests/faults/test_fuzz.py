"""Every reader of outside text, on text that nobody wrote: a value of its kind, or an error of ours that says where."""

import json
import zipfile
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pcsuite.config.load import load_suite
from pcsuite.config.yaml_source import load_yaml
from pcsuite.data.items import load_items
from pcsuite.data.table_files import read_table
from pcsuite.engines.adapters._openai_wire import action_lines
from pcsuite.engines.adapters._wire_errors import retry_after_seconds, status_error
from pcsuite.engines.adapters.base import Decoding, Request
from pcsuite.engines.adapters.openai_api import OpenAIAdapter, OpenAIOptions
from pcsuite.errors import EngineError, PcsuiteError
from pcsuite.evaluation.base import Answer
from pcsuite.importers.base import FORMATS, ReadOptions
from pcsuite.importers.documents import ZipMembers
from pcsuite.logging.audit import audit_log, repair_log
from pcsuite.logging.log import PromptStore, ResumeIndex, RunPaths, iter_newest_rows, iter_rows, read_prompts
from pcsuite.logging.manifest import RunManifest, read_manifest
from pcsuite.logging.row import encode_row
from pcsuite.programs.react import read_turn
from pcsuite.runners.task_plan import task_evaluator
from support.import_logs import FIXTURES
from support.profiles import write_profile
from support.rows import make_row

fuzz = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
AWKWARD = st.sampled_from(
    [
        "",
        "\0",
        "\ud800",
        "\u202e",
        "\x1b[2J",
        "[" * 3000,
        "{" * 300,
        '{"a":' * 1500,
        "9" * 5000,
        "NaN",
        "-0",
        "1e999",
        "\r",
        "null",
        "\ufeff",
    ]
)
texts = st.one_of(st.text(max_size=200), AWKWARD)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def damaged(draw, document):
    """A document with some bytes cut, put in, doubled or changed; or something else altogether."""
    data = bytearray(document)
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=300))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        length = draw(st.integers(0, 40))
        kind = draw(st.sampled_from(["cut", "put", "end", "double", "awkward", "digit"]))
        if kind == "cut":
            del data[at : at + length]
        elif kind == "put":
            data[at:at] = draw(st.binary(max_size=12))
        elif kind == "end":
            del data[at:]
        elif kind == "double":
            data[at:at] = data[at : at + length]
        elif kind == "awkward":
            data[at:at] = draw(AWKWARD).encode("utf-8", "surrogatepass")
        elif at < len(data):
            data[at] = draw(st.integers(0, 255))
    return bytes(data)


def read_or_refused(read, *places):
    """What a reader makes of a text, ``None`` where it refuses it; each line of the error names one of the places.

    Several problems of one file stand on a line each, and the command line joins them.
    """
    try:
        return read()
    except PcsuiteError as error:
        lines = str(error).split("\n")
        assert len(lines) <= 60
        for line in lines:
            assert any(str(place) in line for place in places), (places, line)
            assert len(line) < 1000, line
        return None


PROFILE = yaml.safe_dump(
    {
        "version": "1.0",
        "run": {"name": "t", "rotate_log_mb": 1.5},
        "repro": {"seeds": {"D0": [0], "D1": ["1..3"]}},
        "selection": {
            "tasks": ["agnews_json"],
            "models": ["sim"],
            "conditions": ["C0"],
            "decoding_regimes": ["D0"],
        },
        "limits": {"max_items_per_task": 2},
    }
).encode()
MODELS = b"""version: '1.0'
models:
  sim: {provider: simulated, family: s, size: 7B, params_b: 7, base_accuracy: 0.5, operator_effects: {SCHEMA: 0.8}}
"""


@fuzz
@given(text=st.one_of(texts, st.binary(max_size=200).map(lambda data: data.decode("latin-1"))))
def test_yaml(text):
    read = read_or_refused(lambda: load_yaml(text, "x.yaml"), "x.yaml")
    assert read is None or isinstance(read, (dict, list, str, bytes, int, float, date))


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\n"
        + "".join(
            f"{c}: &{c} [*{p}, *{p}, *{p}, *{p}, *{p}, *{p}, *{p}, *{p}]\n"
            for p, c in zip("bcdefghij", "cdefghijk", strict=True)
        ),
        "a: &a [*a]",
        "- " * 5000 + "x",
        "[" * 100_000,
        "{a: " * 5000,
        "? " * 5000,
        "\n".join(" " * level + "a:" for level in range(600)),
        "!!python/object/apply:os.system ['true']",
        "a: !!int '" + "9" * 5000 + "'",
        "2026-13-45: 1",
        "[1, 2]: 3",
        "? {a: 1}\n: 2",
        "<<: 5",
    ],
)
def test_yaml_that_grows_or_acts_is_one_line(text):
    with pytest.raises(PcsuiteError) as caught:
        load_yaml(text, "x.yaml")
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 500


@pytest.mark.slow
@fuzz
@given(profile=damaged(PROFILE), models=damaged(MODELS))
def test_configuration(tmp_path, profile, models):
    path = write_profile(tmp_path)
    (tmp_path / "models.yaml").write_bytes(models)
    suite = read_or_refused(lambda: load_suite(path), path, tmp_path / "models.yaml")
    assert suite is None or suite.profile.selection.models[0] in suite.models
    path.write_bytes(profile)
    suite = read_or_refused(lambda: load_suite(path), path, tmp_path / "models.yaml")
    assert suite is None or suite.profile.selection.tasks


ITEMS = b'{"item_id": "a", "input_text": "who?", "truth": {"label": "World"}}\n{"item_id": "b", "input_text": "x", "truth": {}}\n'


@fuzz
@given(content=damaged(ITEMS))
def test_items(tmp_path, content):
    (tmp_path / "datasets").mkdir(exist_ok=True)
    path = tmp_path / "datasets" / "mine_test.jsonl"
    path.write_bytes(content)
    loaded = read_or_refused(lambda: load_items("mine", "test", tmp_path), path)
    assert loaded is None or all(item.item_id and isinstance(item.truth, dict) for item in loaded.items)


TABLES = {
    "t.csv": b'id,text,"label"\n1,"two\nlines",World\n2,"a ""quote""",Sports\n',
    "t.tsv": b"id\ttext\tlabel\n1\tx\tWorld\n",
    "t.json": b'[{"id": 1, "text": "x", "label": "World"}]',
    "t.jsonl": ITEMS,
}


@pytest.mark.parametrize("name", TABLES)
@fuzz
@given(data=st.data())
def test_tables(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data.draw(damaged(TABLES[name])))
    rows = read_or_refused(lambda: read_table(path), path)
    assert rows is None or rows
    assert all(str(path) in row.where and isinstance(row.values, dict) for row in rows or ())


LOG = b"".join(encode_row(make_row(item=item)) for item in "abc")


@pytest.mark.slow
@fuzz
@given(
    content=damaged(LOG),
    manifest=damaged(b'{"planned_rows": 3, "tasks": {"a": {"items": 1}}}'),
    prompts=st.binary(max_size=200),
)
def test_logs(tmp_path_factory, content, manifest, prompts):
    paths = RunPaths.of(tmp_path_factory.mktemp("log"), "r")
    paths.log.parent.mkdir()
    paths.log.write_bytes(content)
    paths.prompts.write_bytes(prompts)
    paths.log.with_suffix(".manifest.json").write_bytes(manifest)
    sound = [row.run_id for row in iter_rows(paths.log)]
    assert len(set(sound)) == len(list(iter_newest_rows(paths.log)))
    index = ResumeIndex.read(paths.log)
    assert index.rows + index.malformed_count + index.altered_count == content.count(b"\n") + (
        not content.endswith(b"\n") and content != b""
    )
    noted = read_or_refused(lambda: read_manifest(paths.log), paths.log.with_suffix(".manifest.json"))
    assert noted is None or isinstance(noted, RunManifest)
    PromptStore(paths.prompts).close()
    assert read_prompts(paths.prompts, ["0" * 64]) == {}
    audit = audit_log(paths)
    assert audit.rows + sum(audit.counts.values()) == audit.lines
    repair_log(paths)
    assert [
        problem
        for problem in audit_log(paths).problems
        # A whole line with a run id is never dropped, whoever wrote it.
        if not any(word in problem for word in ("prompts", "manifest", "foreign"))
    ] == []
    assert paths.log.with_suffix(".old-1.jsonl").read_bytes() == content


def read_all(name, path):
    """Every sample of a log under every measure."""
    (source,) = FORMATS.get(name).open(path, ReadOptions(model="m"))
    with closing(source):
        return [sample for measure in source.header.measures for sample in source.samples(measure)]


def check_samples(samples):
    for sample in samples or ():
        assert isinstance(sample.item_id, str)
        assert isinstance(sample.epoch, int)
        assert all(score is None or isinstance(score, (bool, int, float)) for score in sample.scores.values())


@pytest.mark.slow
@pytest.mark.parametrize("fixture", ["inspect_c0.eval", "odd.eval", "odd.json", "odd_chunked.eval"])
@fuzz
@given(data=st.data())
def test_inspect_logs(tmp_path, fixture, data):
    source = FIXTURES / fixture
    target = tmp_path / fixture
    if source.suffix == ".eval" and data.draw(
        st.booleans()
    ):  # inside the members, which a damaged zip would hide
        with closing(ZipMembers(source)) as members:
            contents = {name: members.read(name) for name in members.names}
        victim = data.draw(st.sampled_from(sorted(contents)))
        contents[victim] = data.draw(damaged(contents[victim]))
        with zipfile.ZipFile(target, "w") as written:
            for name, content in contents.items():
                written.writestr(name, content)
    else:
        target.write_bytes(data.draw(damaged(source.read_bytes())))
    check_samples(read_or_refused(lambda: read_all("inspect", target), target))


LM_EVAL = sorted((FIXTURES / "lm_eval" / "bare").rglob("samples_*.jsonl"))[0]


@fuzz
@given(data=st.data())
def test_lm_eval_samples(tmp_path, data):
    lines = LM_EVAL.read_bytes().splitlines(keepends=True)[:3]
    target = tmp_path / LM_EVAL.name
    target.write_bytes(data.draw(damaged(b"".join(lines))))
    check_samples(read_or_refused(lambda: read_all("lm-eval", target), target))


TASKS = [
    "agnews_json",
    "csqa_json",
    "gsm8k",
    "conll03_ner_json",
    "fever_json",
    "truthfulqa_gen",
    "nq_open",
    "buildingspec_json",
]
ANSWER = b'Here it is:\n```json\n{"label": "World", "answer": 5, "entities": [{"text": "x", "type": "PER"}], "evidence": [["p", 0]]}\n```'


@pytest.fixture(scope="module")
def evaluators(tmp_path_factory):
    suite = load_suite(write_profile(tmp_path_factory.mktemp("suite")))
    found = []
    for task_id in TASKS:
        if task_id in suite.tasks:
            task = suite.tasks[task_id]
            item = load_items(task.dataset, task.split, Path("no-cache")).items[0]
            found.append((task_evaluator(suite, task_id), item))
    assert len(found) >= 6
    return found


@pytest.mark.slow
@fuzz
@given(
    text=st.one_of(texts, damaged(ANSWER).map(lambda data: data.decode("utf-8", "replace")), values.map(repr))
)
def test_model_answers(evaluators, text):
    for evaluator, item in evaluators:
        evaluation = evaluator.evaluate(item, Answer(text))
        score = evaluation.metrics["task_score"]
        assert score is None or 0 <= score <= 1
        assert evaluation.parsed.answer is None or isinstance(evaluation.parsed.answer, str)


@fuzz
@given(
    text=st.one_of(
        texts,
        damaged(b'Thought: x\nAction: search["a"]\nObservation: y\nFinal Answer: z').map(
            lambda d: d.decode("utf-8", "replace")
        ),
    )
)
def test_turns_of_a_loop(text):
    turn = read_turn(text, frozenset({"search", "lookup"}))
    assert turn.read in text
    assert not turn.calls or turn.final is None
    assert all(call.problem is not None or call.tool in ("search", "lookup") for call in turn.calls)


@pytest.mark.slow
@fuzz
@given(
    calls=st.one_of(
        values,
        st.lists(
            st.fixed_dictionaries({"function": st.fixed_dictionaries({"name": values, "arguments": values})}),
            max_size=3,
        ),
    )
)
def test_tool_calls(calls):
    assert isinstance(action_lines(calls), str)


@pytest.mark.slow
@fuzz
@given(
    answer=st.one_of(
        values,
        st.fixed_dictionaries(
            {},
            optional={
                "error": values,
                "usage": values,
                "choices": st.one_of(
                    values,
                    st.lists(
                        st.fixed_dictionaries(
                            {},
                            optional={
                                "message": st.one_of(
                                    values,
                                    st.fixed_dictionaries(
                                        {},
                                        optional={"content": values, "tool_calls": values, "refusal": values},
                                    ),
                                ),
                                "finish_reason": values,
                            },
                        ),
                        max_size=2,
                    ),
                ),
                "message": values,
            },
        ),
    ),
    path=st.sampled_from(["/chat/completions", "/api/chat"]),
)
def test_servers_answers(answer, path):
    adapter = OpenAIAdapter("m", OpenAIOptions(base_url="http://127.0.0.1:9/v1"))
    try:
        generations = adapter.read_answer(Request("Hi", Decoding("D0", 0.0, 1.0, 5)), path, answer)
    except EngineError:
        return
    for generation in generations:
        assert isinstance(generation["text"], str)
        assert all(type(count) is int and count >= 0 for count in generation["usage"].values())


@fuzz
@given(
    status=st.integers(100, 999),
    text=st.one_of(texts, values.map(lambda value: json.dumps(value))),
    wait=texts,
)
def test_error_bodies_and_waits(status, text, wait):
    error = status_error(status, text, None, "KEY")
    assert len(str(error)) < 700
    seconds = retry_after_seconds({"Retry-After": wait})
    assert seconds is None or seconds >= 0
