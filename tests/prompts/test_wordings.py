"""The suite's wording: examples and question have one form, no two operators contradict each other, the first is kept."""

import hashlib
import json
import re
from dataclasses import replace
from functools import cache

import pytest
import yaml

from pcsuite.config.bundled import bundled_operators, bundled_tasks
from pcsuite.config.load import bundled_configs, load_suite
from pcsuite.config.operator_definitions import ConditionsFile, OperatorsFile
from pcsuite.config.yaml_source import YamlSource
from pcsuite.data.items import Item
from pcsuite.evaluation.abstention import ABSTENTION, text_abstains
from pcsuite.optimization.problem import instruction_template
from pcsuite.perturbations.paraphrase import instruction_paraphrases, operator_paraphrases
from pcsuite.prompts.compiled import INPUT_SLOT
from pcsuite.prompts.conditions.conditions import (
    NotApplicableError,
    apply_condition,
    build_condition,
    expand_conditions,
)
from pcsuite.prompts.context import Exemplar, PromptContext, TaskPrompting
from pcsuite.prompts.operators import Operator
from pcsuite.runners.plan import build_plan
from pcsuite.runners.task_plan import task_evaluator

FOLDER = bundled_configs()
TASKS = sorted(bundled_tasks())
OPERATORS = bundled_operators()
FEWSHOT = [name for name, spec in OPERATORS.items() if spec.type == "fewshot"]
CONDITIONS = {
    f"{path.stem} {bundle.id}": bundle
    for path in sorted(FOLDER.glob("conditions_*.yaml"))
    for spec in [YamlSource.read(path).parse(ConditionsFile).conditions]
    for bundle in expand_conditions([name for name in spec if not spec[name].compiled], spec, OPERATORS)
}
SCHEMAS = load_suite("quickstart")
OWN, SOLVED = "the item's own question", "the answer"


@cache
def context(task_id) -> PromptContext:
    task = bundled_tasks()[task_id]
    prompting = TaskPrompting(task_id, task, SCHEMAS.schema(task_id), None, wording="2")
    return replace(
        prompting.context(OWN), exemplars=(Exemplar(OWN, SOLVED), Exemplar("another", "its answer"))
    )


@pytest.mark.parametrize("task_id", TASKS)
@pytest.mark.parametrize("name", CONDITIONS)
def test_examples_and_question_are_rendered_alike(task_id, name):
    """The item as it is asked is, letter by letter, the beginning of the same item as it is shown solved."""
    checked = 0
    for variant in (0, 1, 2, 3):
        ctx = context(task_id)
        try:
            built = apply_condition(CONDITIONS[name], ctx)
        except NotApplicableError:
            return
        shows = [operator for operator in built.bundle if operator.spec.type == "fewshot"]
        if not shows:
            return
        (operator,) = shows
        if variant:
            template = operator_paraphrases(operator.name, operator.spec)[variant - 1]
            operator = replace(operator, spec=operator.spec.model_copy(update={"template": template}))
        shown = operator.render(ctx)
        solved = shown[shown.index(built.tree.parts()[-1 - len(built.tree.texts("post"))]) :]
        asked = replace(built.tree, blocks=(), instruction="").assemble()
        assert solved.startswith(f"{asked}\n{SOLVED}\n")
        # A block behind the question stands between it and the cue, and nothing else does.
        whole = built.tree.assemble()
        after = built.tree.texts("post")
        question, cue = asked.rsplit("\n", 1)
        assert whole.endswith("\n\n".join([question, *after, cue]) if after else f"\n\n{asked}")
        checked += 1
    assert checked == 4


@pytest.mark.parametrize("kind", ["structured", "reasoning"])
def test_a_search_lays_examples_and_question_out_alike(kind):
    ctx = PromptContext("t", kind, "", input_label="Thing")
    text = instruction_template("Name it.", ctx, (Exemplar("grass", "green"),))
    assert text.endswith(f"Thing:\ngrass\nAnswer:\ngreen\n\nThing:\n{INPUT_SLOT}\nAnswer:")


def test_the_two_kinds_of_task_put_their_input_alike():
    texts = [
        build_condition(
            "C0", ctx={"task_id": "t", "task_kind": kind, "input_text": "2 + 2", "instruction": "Go."}
        ).prompt
        for kind in ("structured", "reasoning")
    ]
    assert texts == ["Go.\n\nInput:\n2 + 2"] * 2


@pytest.mark.parametrize("task_id", TASKS)
def test_examples_show_the_fields_that_the_instruction_names(task_id):
    suite = load_suite("quickstart", {"selection.tasks": [task_id], "selection.models": ["simulated"]})
    named = set(re.findall(r'"(\w+)"', suite.tasks[task_id].instruction))
    for exemplar in build_plan(suite).tasks[task_id].prompting.exemplars if named else ():
        assert set(json.loads(exemplar.output_text)) <= named


def test_an_example_has_a_line_for_each_sentence_of_its_solution():
    suite = load_suite("quickstart", {"selection.tasks": ["gsm8k"], "selection.models": ["simulated"]})
    solution = "Mr. Dale pays 2 * $3 = $6. Mrs. Roe pays $6 + 1.5 = $7.5. Both pay $13.5."
    item = Item("i", "x", {"answer": "13.5", "solution": solution})
    assert task_evaluator(suite, "gsm8k").exemplar_answer(item).splitlines() == [
        "Mr. Dale pays 2 * $3 = $6.",
        "Mrs. Roe pays $6 + 1.5 = $7.5.",
        "Both pay $13.5.",
        "#### 13.5",
    ]


@pytest.mark.parametrize("task_id", ["agnews_json", "boolq", "trec"])
def test_confidences_of_examples_differ(task_id):
    suite = load_suite("quickstart", {"selection.tasks": [task_id], "selection.models": ["simulated"]})
    shown = build_plan(suite).tasks[task_id].prompting.exemplars
    assert len({re.search(r'"confidence": ([\d.]+)', entry.output_text)[1] for entry in shown}) > 1
    evaluator = task_evaluator(suite, task_id)
    stated = [
        float(
            re.search(
                r'"confidence": ([\d.]+)', evaluator.exemplar_answer(Item(str(n), "x", {"label": label}))
            )[1]
        )
        for n, label in enumerate([suite.schema(task_id)["properties"]["label"]["enum"][0]] * 200)
    ]
    assert min(stated) >= 0.6
    assert max(stated) <= 0.98
    assert len(set(stated)) > 30


# What a task declares: its answer field with the values it may have, the limits of its fields, its answer line.
COUNTS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def sentences(text):
    return [part for part in re.split(r"(?<=[.?!:;])\s+|\n", text) if part.strip()]


def says(word, sentence):
    return re.search(rf"(?<![\w/]){re.escape(word)}(?![\w/])", sentence) is not None


def texts_of(task_id):
    """What each part of a prompt says of the task, in every wording there is; the schema is the facts themselves."""
    task, ctx = bundled_tasks()[task_id], context(task_id)
    said = {"instruction": [task.instruction, *instruction_paraphrases().instructions.get(task_id, ())]}
    for name, spec in OPERATORS.items():
        if spec.type in ("constraint", "fewshot", "program") or name == "SCHEMA" or spec.alias_of:
            continue
        templates = [spec.template, *(spec.paraphrases or ())]
        said[name] = [
            Operator(name, spec.model_copy(update={"template": one})).render(ctx) for one in templates
        ]
    said["SCHEMA"] = [task.final_answer_format or ""]
    return said


def closed_field(task_id):
    """The field whose values the schema lists, and these values."""
    schema = SCHEMAS.schema(task_id) or {}
    for name, entry in schema.get("properties", {}).items():
        if "enum" in entry:
            return name, entry["enum"]
    return None


@pytest.mark.parametrize("task_id", [name for name in TASKS if closed_field(name)])
def test_no_block_forbids_a_value_that_another_allows(task_id):
    """Who names the answer's field and some of its values, or counts them, names all: the abstention's too."""
    field, values = closed_field(task_id)
    for part, variants in texts_of(task_id).items():
        for sentence in (one for text in variants for one in sentences(text)):
            if not says(field, sentence):
                continue
            named = [value for value in values if says(value, sentence)]
            counted = [word for word in COUNTS if says(word, sentence)]
            # One value by itself is a case ("if …, it is …"); a list of some of them shuts the others out.
            assert len(named) in (0, 1, len(values)), (part, sentence)
            assert not counted or counted[-1] == COUNTS[len(values) - 1], (part, sentence)


def test_the_old_wording_fails_that_test():
    """The rule finds what was wrong before."""
    field, values = closed_field("agnews_json")
    old = YamlSource.read(FOLDER / "tasks_wording_1.yaml").data["tasks"]["agnews_json"]["rules"][0]
    assert says(field, old)
    assert len([value for value in values if says(value, old)]) == 4 == len(values) - 1


@pytest.mark.parametrize("task_id", TASKS)
def test_the_abstention_is_an_answer_that_the_task_accepts(task_id):
    """The literal that ABSTAIN names is a value of the schema, fits the enforced pattern, and is read as declining."""
    task = bundled_tasks()[task_id]
    literals = re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", task.abstain)
    closed, form = closed_field(task_id), task.final_answer_format or ""
    for literal in literals:
        assert text_abstains(literal)
        if closed:
            assert literal in closed[1]
        if task.answer_regex:
            assert literal == ABSTENTION
            line = re.search(r'"([^"]*NUMBER[^"]*)"', form)[1]
            assert re.fullmatch(task.answer_regex, "so\n" + line.replace("NUMBER", literal))
            # It stands in the place that the format names, so that neither takes back what the other says.
            assert says("number", task.abstain)
            assert "#" not in task.abstain


@pytest.mark.parametrize("task_id", [name for name in TASKS if bundled_tasks()[name].answer_regex])
def test_no_rule_or_check_says_what_kind_of_answer_the_last_line_holds(task_id):
    """The format says it and the abstention takes its place; a check of "the number alone" would forbid that."""
    task = bundled_tasks()[task_id]
    for text in (*task.rules, *task.verifier_checklist):
        assert not (("####" in text or says("last line", text)) and says("number", text)), text


@pytest.mark.parametrize("task_id", TASKS)
def test_limits_in_words_are_those_that_are_scored_and_enforced(task_id):
    task, schema = bundled_tasks()[task_id], SCHEMAS.schema(task_id) or {}
    limits = task.evaluator_options.get("word_limits", {})
    for part, variants in texts_of(task_id).items():
        for text in variants:
            for field, most in limits.items():
                for stated in re.findall(rf'"?{field}"?[^.?,"]*?(\d+) words', text):
                    assert int(stated) == most, (part, text)
            for name, entry in schema.get("properties", {}).items():
                if "minimum" in entry and "maximum" in entry:
                    for low, high in re.findall(rf"{name}[^.?]*?between (\d+) and (\d+)", text):
                        assert [int(low), int(high)] == [entry["minimum"], entry["maximum"]], (part, text)


def test_only_the_format_says_what_else_may_be_written():
    """A block that forbids text around the answer would take back a format that asks for the solution first."""
    for name, spec in OPERATORS.items():
        if name == "SCHEMA" or spec.type in ("constraint", "program", "fewshot") or spec.alias_of:
            continue
        bare = PromptContext(
            "t", "reasoning", "x", task_goal="G", role="R", decompose=("S",), verifier_checklist=("C",)
        )
        for template in (spec.template, *(spec.paraphrases or ())):
            text = Operator(name, spec.model_copy(update={"template": template, "mode": None})).render(bare)
            assert not re.search(r"\b(?:final answer|nothing but|no other text)\b", text), name


@pytest.mark.parametrize("task_id", TASKS)
def test_no_check_asks_for_all_where_the_abstention_leaves_some_out(task_id):
    """A check that every one is listed would put back what is left out for doubt."""
    task = bundled_tasks()[task_id]
    if not re.search(r"\bleave an? \w+ out if\b", task.abstain, re.IGNORECASE):
        return
    for text in (*task.rules, *task.verifier_checklist):
        assert not re.search(r"\b(?:every|all|each)\b.*\blisted\b", text) or "you are sure of" in text, text


def test_offsets_say_what_they_count_from():
    """A number that a schema asks for and a reader could count from 0 or from 1."""
    for task_id in TASKS:
        named = {
            name
            for entry in ((SCHEMAS.schema(task_id) or {}).get("properties") or {}).values()
            for name in entry.get("items", {}).get("properties", {})
        }
        if named & {"start", "sentence"}:
            assert any(re.search(r"\bfrom 0\b", rule) for rule in bundled_tasks()[task_id].rules), task_id


@pytest.mark.parametrize("name", [name for name, spec in OPERATORS.items() if spec.type == "program"])
def test_a_loop_asks_for_no_other_layout_than_the_task_and_for_no_citation(name):
    """An answer of several lines goes into it as well as one of a line, and one without evidence as one with it."""
    spec = OPERATORS[name]
    for text in (spec.template or "", *(spec.paraphrases or ())):
        assert not re.search(r"\banswer on one line\b", text)
        assert not re.search(r"^Cite (?:only|all)\b", text, re.MULTILINE)


@pytest.mark.parametrize("name", [name for name, spec in OPERATORS.items() if spec.sham])
def test_a_sham_says_nothing_of_its_place(name):
    """It may stand anywhere, so it cannot say that the page ends there, or goes on."""
    spec = OPERATORS[name]
    for text in (spec.template, *spec.paraphrases):
        assert not re.search(
            r"\b(?:page|end|ends|begins?|last|first|next|after|before|above|goes on|continues)\b", text
        )


def test_the_first_wording_gives_the_prompts_and_the_ids_it_always_gave():
    """Prompts and run ids of all tasks under ten conditions, by the digest that the code before the second had."""
    named = dict.fromkeys(("C0", "C1", "C2", "C3", "C4", "C4R", "C5", "C6", "C7", "C7L"))
    tasks = list(yaml.safe_load((FOLDER / "tasks_wording_1.yaml").read_text(encoding="utf-8"))["tasks"])
    overrides = {
        "selection.tasks": tasks,
        "selection.models": ["simulated"],
        "selection.conditions": list(named),
        "selection.decoding_regimes": ["D0"],
        "limits.max_items_per_task": 3,
        "integrations.retrieval.enabled_for_tasks": ["fever_json", "nq_open"],
        "suite.operators_ref": "operators_wording_1.yaml",
        "suite.tasks_ref": "tasks_wording_1.yaml",
    }
    suite = load_suite("quickstart", overrides)
    assert suite.wordings == {"operators": "1", "tasks": "1"}
    whole, count = hashlib.sha256(), 0
    for cell in build_plan(suite).cells:
        for item in cell.task.items:
            unit = next(iter(cell.units(item)))
            said = cell.task.id + cell.condition.id + cell.tree(item).assemble() + unit.run_id
            whole.update(said.encode())
            count += 1
    assert (count, whole.hexdigest()) == (
        399,
        "ba89dfcfbe5a327ee6ae9bc7083f83019b935c8f87b0da4c2c198ed443a3f323",
    )


def test_the_wording_is_known_of_a_suite_and_changes_its_hash():
    now, first = (
        load_suite("quickstart", {"suite.operators_ref": file} if file else None)
        for file in ("", "operators_wording_1.yaml")
    )
    assert (now.wording, first.wording) == ("2", "1")
    assert now.settings["wordings.operators"] == "2"
    assert "wordings.operators" not in first.settings
    assert now.config_hash != first.config_hash
    # A file of one's own that names none has the layout it always had.
    assert OperatorsFile.model_validate({"operators": {}}).wording == "1"


def test_the_study_of_november_names_what_it_used():
    suite = load_suite("study_small_models")
    assert suite.wordings == {"operators": "1", "tasks": "1"}
