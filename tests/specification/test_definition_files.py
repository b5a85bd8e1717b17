"""Section "Definition files" of the specification: the YAML files as a reader of it would write them, loaded and run."""

import json

import pytest
import yaml

from pcsuite.cli import main
from pcsuite.config.bundled import bundled_tasks
from pcsuite.config.load import load_suite
from pcsuite.errors import ConfigError, Exit
from pcsuite.logging.log import iter_newest_rows
from pcsuite.runners.plan import build_plan
from pcsuite.runners.task_plan import plan_task
from support.profiles import SIMULATED, write_profile

TASKS = """
version: "1.0"
tasks:
  conll03_ner_json:
    kind: "structured_extraction"
    dataset: "conll2003"
    split: {train: "train", dev: "validation", test: "test"}
    input_fields: ["tokens"]
    truth_fields: ["ner_tags"]
    labels: ["PER", "ORG", "LOC", "MISC"]
    output_schema_ref: "schemas/conll03_ner_json.json"
  agnews_json:
    kind: "classification"
    dataset: "ag_news"
    split: {train: "train", dev: "dev", test: "test"}
    input_fields: ["text"]
    truth_fields: ["label"]
    labels: ["World", "Sports", "Business", "Sci/Tech"]
    output_schema_ref: "configs/schemas/agnews_json.json"
  gsm8k:
    kind: "reasoning"
    dataset: "gsm8k"
    split: {train: "train", dev: "train", test: "test"}
    answer_extractor: "gsm8k_final_number"
  csqa_json:
    kind: "mcq"
    dataset: "commonsenseqa"
    split: {train: "train", dev: "validation"}
    labels: ["A", "B", "C", "D", "E"]
    output_schema_ref: "csqa_json.json"
  truthfulqa_gen:
    kind: "truthfulness"
    dataset: "truthful_qa"
    split: {test: "validation"}
    output_schema_ref: "schemas/truthfulqa_gen.json"
  fever_json:
    kind: "verification"
    dataset: "fever"
    split: {train: "train", dev: "dev"}
    labels: ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]
    output_schema_ref: "schemas/fever_json.json"
    retrieval: {enabled: true}
"""
IDS = tuple(yaml.safe_load(TASKS)["tasks"])


def profile_with(folder, **files):
    """A profile of definition files given as text, for tasks that need no other."""
    refs = {}
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
        refs[f"{name}_ref"] = f"{name}.yaml"
    return refs


def one_task(folder, lines, name="mine", **sections):
    """A profile with one task of the user's own, with ``lines`` as its entry."""
    (folder / "tasks.yaml").write_text(yaml.safe_dump({"tasks": {name: lines}}, sort_keys=False))
    suite = {"tasks_ref": "tasks.yaml", "models_ref": "models.yaml"}
    return write_profile(folder, tasks=(name,), suite=suite, **{"conditions": ("C0", "C4"), **sections})


@pytest.mark.slow
def test_tasks_of_every_kind_run_as_written(tmp_path):
    """``kind`` structured_extraction | classification | mcq | verification | truthfulness | reasoning."""
    refs = profile_with(tmp_path, tasks=TASKS)
    profile = write_profile(
        tmp_path,
        tasks=IDS,
        conditions=("C0", "C4", "C6", "C7"),
        items=2,
        suite={"models_ref": "models.yaml", **refs},
        integrations={"retrieval": {"enabled_for_tasks": ["fever_json"]}},
    )
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    rows = list(iter_newest_rows(tmp_path / "outputs" / "runs" / "t.jsonl"))
    assert {row.task.id for row in rows} == set(IDS)
    assert not any(row.errors for row in rows)
    manifest = json.loads((tmp_path / "outputs" / "runs" / "t.manifest.json").read_text())
    kinds = {name: note["kind"] for name, note in manifest["tasks"].items()}
    assert kinds == {name: "reasoning" if name == "gsm8k" else "structured" for name in IDS}


def test_a_short_task_is_the_bundled_one_where_it_says_nothing_else(tmp_path):
    refs = profile_with(tmp_path, tasks=TASKS)
    suite = load_suite(write_profile(tmp_path, tasks=IDS, suite={"models_ref": "models.yaml", **refs}))
    for name in IDS:
        assert suite.tasks[name].instruction == bundled_tasks()[name].instruction
        assert suite.tasks[name].evaluator == bundled_tasks()[name].evaluator
        assert suite.schema(name) is None or suite.schema(name)["type"] == "object"


def test_split_names_train_dev_and_test(tmp_path):
    """``split: {train, dev, test}``."""
    refs = profile_with(tmp_path, tasks=TASKS)
    suite = load_suite(write_profile(tmp_path, tasks=IDS, suite={"models_ref": "models.yaml", **refs}))
    conll, csqa = suite.tasks["conll03_ner_json"], suite.tasks["csqa_json"]
    assert (conll.split, conll.dev_split, conll.train_split) == ("test", "validation", "train")
    assert csqa.split == "validation"  # no test split: the development split is scored
    profile = one_task(tmp_path, {"kind": "reasoning", "dataset": "gsm8k", "split": {"train": "train"}})
    with pytest.raises(ConfigError, match=r"tasks\.yaml:\d+: tasks\.mine: 'split' names train, dev and test"):
        load_suite(profile)


def test_input_fields_and_truth_fields_make_items_of_plain_records(tmp_path):
    """``input_fields``, ``truth_fields``: lines without ``input_text`` and ``truth`` are records of the dataset."""
    folder = tmp_path / "cache" / "datasets"
    folder.mkdir(parents=True)
    records = [
        {"tokens": ["Ada", "Lovelace", "went", "to", "Turin", "."], "ner_tags": [1, 2, 0, 0, 5, 0]},
        {"tokens": ["Nothing", "here", "."], "ner_tags": ["O", "O", "O"]},
    ]
    (folder / "mine_test.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    entry = {
        "kind": "structured_extraction",
        "dataset": "mine",
        "evaluator": "ner",
        "input_fields": ["tokens"],
        "truth_fields": ["ner_tags"],
        "output_schema_ref": "schemas/conll03_ner_json.json",
    }
    task = plan_task(load_suite(one_task(tmp_path, entry)), "mine")
    by_text = {item.input_text: item.truth["entities"] for item in task.items}
    assert by_text["Ada Lovelace went to Turin ."] == [
        {"type": "PER", "start": 0, "end": 12, "text": "Ada Lovelace"},
        {"type": "LOC", "start": 21, "end": 26, "text": "Turin"},
    ]
    assert by_text["Nothing here ."] == []


@pytest.mark.slow
def test_labels_are_those_of_the_classification(tmp_path):
    """``labels``."""
    folder = tmp_path / "cache" / "datasets"
    folder.mkdir(parents=True)
    lines = [
        {"item_id": str(n), "input_text": f"mail {n}", "truth": {"label": ("spam", "ham")[n % 2]}}
        for n in range(4)
    ]
    (folder / "mail_test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    entry = {"kind": "classification", "dataset": "mail", "labels": ["spam", "ham"]}
    profile = one_task(tmp_path, entry)
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    task = plan_task(load_suite(profile), "mine")
    assert task.evaluator.labels == ("spam", "ham")
    assert "spam, ham" in task.spec.instruction
    (folder / "mail_test.jsonl").write_text(json.dumps(lines[0] | {"truth": {"label": 1}}) + "\n")
    with pytest.raises(
        Exception, match=r"mail_test.jsonl: item '0': truth 'label' is '1'.*labels are spam, ham"
    ):
        plan_task(load_suite(profile), "mine")


def test_output_schema_ref_is_the_schema(tmp_path):
    """``output_schema_ref``, from the tasks file's folder, ``schemas/``, the project's root or the bundled ones."""
    (tmp_path / "own.json").write_text('{"type": "object", "properties": {"label": {"type": "string"}}}')
    entry = {"kind": "classification", "dataset": "ag_news", "output_schema_ref": "own.json"}
    suite = load_suite(one_task(tmp_path, entry))
    assert suite.schema("mine")["properties"] == {"label": {"type": "string"}}
    entry["schema_ref"] = "agnews_json.json"
    with pytest.raises(ConfigError, match="'output_schema_ref' and 'schema_ref' are one key"):
        load_suite(one_task(tmp_path, entry))


@pytest.mark.parametrize(
    ("extractor", "text", "score"),
    [
        ("gsm8k_final_number", "so\n#### 18", 1.0),
        (r"RESULT=(\d+)", "RESULT=18 and 3 more", 1.0),
        (r"RESULT=(\d+)", "#### 18", 0.0),
    ],
)
def test_answer_extractor_finds_the_number(tmp_path, extractor, text, score):
    """``answer_extractor``: the usual reading by name, or a regular expression with one group."""
    from pcsuite.data.items import Item
    from pcsuite.evaluation.base import Answer

    entry = {"kind": "reasoning", "dataset": "gsm8k", "answer_extractor": extractor}
    evaluator = plan_task(load_suite(one_task(tmp_path, entry)), "mine").evaluator
    found = evaluator.evaluate(Item("a", "?", {"answer": "18"}), Answer(text))
    assert found.metrics["task_score"] == score


def test_an_answer_extractor_that_is_neither_a_name_nor_a_pattern_is_refused(tmp_path):
    profile = one_task(tmp_path, {"kind": "reasoning", "dataset": "gsm8k", "answer_extractor": "finalnumber"})
    with pytest.raises(ConfigError, match="give 'final_number' or a regular expression with one group"):
        build_plan(load_suite(profile))


def test_retrieval_enabled_is_the_tasks_retrieval(tmp_path):
    """``retrieval: {enabled}``."""
    for enabled in (True, False):
        entry = {"kind": "verification", "dataset": "fever", "retrieval": {"enabled": enabled}}
        assert load_suite(one_task(tmp_path, entry)).tasks["mine"].retrieval is enabled


def test_models_take_model_name_or_path_device_and_dtype(tmp_path):
    """``model_name_or_path``, ``device``, ``dtype`` beside ``path``, ``device_map``."""
    from pcsuite.engines.session import check_model

    spelled = {
        "provider": "hf",
        "family": "f",
        "size": "8B",
        "model_name_or_path": "org/m",
        "device": "cuda",
        "dtype": "bf16",
    }
    ours = {
        "provider": "hf",
        "family": "f",
        "size": "8B",
        "path": "org/m",
        "device_map": "cuda",
        "dtype": "bfloat16",
    }
    suite = load_suite(write_profile(tmp_path, {"a": spelled, "b": ours}, conditions=("C0",)))
    first, second = (check_model(name, suite.models[name])[1] for name in ("a", "b"))
    assert first == second
    both = spelled | {"path": "org/other"}
    with pytest.raises(ConfigError, match="'model_name_or_path' and 'path' are one key"):
        load_suite(write_profile(tmp_path, {"a": both}, conditions=("C0",)))


def test_decoding_file_with_the_key_decoding(tmp_path):
    """Top key ``decoding:`` with ``D0``, ``D1``."""
    text = "version: '1.0'\ndecoding:\n  D0: {temperature: 0.0, top_p: 1.0}\n  D1: {temperature: 0.7, top_p: 0.95}\n"
    refs = profile_with(tmp_path, decoding=text)
    suite = load_suite(
        write_profile(tmp_path, conditions=("C0",), suite={"models_ref": "models.yaml", **refs})
    )
    assert {name: spec.temperature for name, spec in suite.regimes.items()} == {"D0": 0.0, "D1": 0.7}
    assert build_plan(suite).cells[1].decoding.id == "D1"
    both = text + "regimes:\n  D0: {temperature: 0.0, top_p: 1.0}\n"
    refs = profile_with(tmp_path, decoding=both)
    with pytest.raises(ConfigError, match=r"decoding\.yaml"):
        load_suite(write_profile(tmp_path, conditions=("C0",), suite={"models_ref": "models.yaml", **refs}))


OPERATORS = """
version: "1.0"
operators:
  ROLE: {type: prefix_block, template: "You are an expert."}
  VERIFIER: {type: post_block, template: "Before answering, check:\\n{{checklist}}"}
  CONSTRAINTS: {type: rule, template: "Rules:\\n{{rules}}"}
  TYPE_CONSTRAIN: {type: constraint, engine: auto}
  REGEX_CONSTRAIN: {type: constraint, engine: auto}
  CFG_CONSTRAIN: {type: constraint, engine: guidance_cfg}
"""
CONDITIONS = """
version: "1.0"
conditions:
  C0: {operators: []}
  C4: {operators: [ROLE, CONSTRAINTS, VERIFIER]}
  C6: {operators: [ROLE, VERIFIER, TYPE_CONSTRAIN]}
"""


@pytest.mark.slow
def test_operators_need_no_kind_and_templates_see_checklist(tmp_path):
    """``kind`` optional, ``{{checklist}}`` in templates."""
    refs = profile_with(tmp_path, operators=OPERATORS, conditions=CONDITIONS)
    profile = write_profile(
        tmp_path, conditions=("C0", "C4", "C6"), items=2, suite={"models_ref": "models.yaml", **refs}
    )
    suite = load_suite(profile)
    kinds = {name: spec.kind for name, spec in suite.operators.items() if spec.type == "constraint"}
    assert kinds == {"TYPE_CONSTRAIN": "json_schema", "REGEX_CONSTRAIN": "regex", "CFG_CONSTRAIN": "cfg"}
    plan = build_plan(suite)
    cell = next(cell for cell in plan.cells if cell.condition.id == "C4")
    prompt = cell.tree(cell.task.items[0]).assemble()
    assert (
        "Before answering, check:\n- Is the label spelled exactly as it is named above?\n- Is the con"
        in prompt
    )
    assert "Rules:\n- The desks are World, Sports" in prompt
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE


@pytest.mark.slow
def test_metrics_may_say_their_type_alone(tmp_path):
    """``{type: primary|format|hallucination|entropy|efficiency}``."""
    names = {
        "task_score": "primary",
        "json_valid": "format",
        "unsupported_rate": "hallucination",
        "entropy_cat": "entropy",
        "token_cost": "efficiency",
    }
    text = yaml.safe_dump(
        {"version": "1.0", "metrics": {name: {"type": kind} for name, kind in names.items()}}
    )
    refs = profile_with(tmp_path, metrics=text)
    profile = write_profile(
        tmp_path, {"sim": SIMULATED}, conditions=("C0", "C3"), suite={"models_ref": "models.yaml", **refs}
    )
    suite = load_suite(profile)
    assert {name: suite.metrics[name].type for name in names} == names
    assert "effects" in suite.metrics["task_score"].compared  # what the file leaves open is as bundled
    assert suite.metrics["unsupported_rate"].higher_is_better is False
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    assert main(["report", "--config", str(profile), "--no-plots"]) == Exit.DONE
    assert any("score" in path.read_text() for path in (tmp_path / "outputs").rglob("effects.csv"))
