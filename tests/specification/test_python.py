"""Section "Python" of the specification: its snippet, and components written to its interfaces."""

import json
import pickle
import re
from pathlib import Path

import pytest

import pcsuite
from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.engines import ADAPTERS
from pcsuite.engines.adapters.base import Decoding, ModelAdapter
from pcsuite.engines.constrained import CONSTRAINTS, ConstraintEngine, backend_named
from pcsuite.errors import Exit, PromptError
from pcsuite.evaluation import EVALUATORS
from pcsuite.evaluation import build_evaluator as evaluator_named
from pcsuite.evaluation.own_scorer import TaskEvaluator
from pcsuite.logging.log import iter_newest_rows
from pcsuite.prompts.conditions.conditions import build_condition
from pcsuite.runners.plan import build_plan
from support.profiles import SIMULATED, write_profile

TEMPLATES = Path(pcsuite.__file__).parent / "prompts" / "base_templates"
CONLL = {
    "task_id": "conll03_ner_json",
    "task_kind": "structured_extraction",
    "task_title": "Named entity recognition",
    "task_goal": "Extract all named entities.",
    "input_text": "Ada Lovelace went to Turin .",
    "rules": ["Copy each entity exactly.", "Invent nothing."],
    "schema_text": json.dumps(
        json.loads('{"type": "object", "properties": {"entities": {"type": "array"}}}'), indent=2
    ),
    "exemplars": [
        {"input": "Bo saw Oslo .", "output": {"entities": [{"text": "Bo", "type": "PER"}]}},
        {"input": "It rained .", "output": '{"entities": []}'},
    ],
    "verifier_checklist": None,
    "final_answer_format": "",
}


def test_the_snippet_prints_c4_for_conll():
    """``build_condition("C4", templates_dir="src/pcsuite/prompts/base_templates", ctx={…})``."""
    built = build_condition("C4", templates_dir=str(TEMPLATES), ctx=CONLL)
    assert built.meta["operators"] == ["ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "VERIFIER"]
    for words in (
        "Extract all named entities.",
        "Copy each entity exactly.",
        '"entities"',
        "Ada Lovelace went to Turin .",
    ):
        assert words in built.prompt
    assert built.constraint is None
    assert built.react is None


def test_the_snippet_runs_from_any_folder_and_another_folder_that_is_not_there_is_refused(
    tmp_path, monkeypatch
):
    """The snippet names the folder from the project's root; a folder of one's own that is missing is a mistake."""
    monkeypatch.chdir(tmp_path)
    as_written = build_condition("C4", templates_dir="src/pcsuite/prompts/base_templates", ctx=CONLL)
    assert as_written.prompt == build_condition("C4", ctx=CONLL).prompt
    with pytest.raises(PromptError, match="templates_dir: there is no folder 'my_templates'"):
        build_condition("C4", templates_dir="my_templates", ctx=CONLL)
    (tmp_path / "my_templates").mkdir()
    (tmp_path / "my_templates" / "json_base.j2").write_text("MINE {{ input_text }}")
    assert build_condition("C4", templates_dir="my_templates", ctx=CONLL).prompt.startswith("MINE Ada")


def test_no_goal_is_a_plain_one():
    """``ctx`` without ``task_goal``: no heading over nothing."""
    ctx = {"task_id": "sums", "task_kind": "reasoning", "input_text": "1 + 1"}
    assert "Goal:\nAnswer what is asked" in build_condition("C1", ctx=ctx).prompt


@pytest.mark.parametrize(
    "kind", ["structured_extraction", "classification", "mcq", "verification", "truthfulness"]
)
def test_task_kind_takes_every_kind(kind):
    """``task_kind: "structured_extraction"`` (and the kinds above)."""
    assert build_condition("C3", ctx=CONLL | {"task_kind": kind}).meta["template"] == "json_base.j2"
    assert (
        build_condition("C3", ctx=CONLL | {"task_kind": "reasoning"}).meta["template"] == "reasoning_base.j2"
    )
    with pytest.raises(PromptError, match=r"ctx\['task_kind'\] is 'mqc' \(did you mean 'mcq'"):
        build_condition("C3", ctx=CONLL | {"task_kind": "mqc"})


def test_exemplars_are_input_and_output():
    """Exemplars as ``{"input","output"}``."""
    prompt = build_condition("C5", ctx=CONLL).prompt
    assert "Bo saw Oslo ." in prompt
    assert '{"entities":[{"text":"Bo","type":"PER"}]}' in prompt


def test_no_checklist_is_a_sensible_one():
    """No checklist (a sensible default one)."""
    for ctx in (CONLL, {key: value for key, value in CONLL.items() if key != "verifier_checklist"}):
        assert (
            "Is the answer one JSON object with every required field?"
            in build_condition("C4", ctx=ctx).prompt
        )
    reasoning = CONLL | {"task_kind": "reasoning", "schema_text": ""}
    assert "Does the last line answer what was asked?" in build_condition("C4", ctx=reasoning).prompt
    own = build_condition("C4", ctx=CONLL | {"verifier_checklist": "- Is it so?\n- Is it not?"}).prompt
    assert "Is it so?" in own
    assert "required field" not in own


def test_the_schema_may_be_text():
    """Schema as text."""
    schema = json.loads(CONLL["schema_text"])
    assert '"type": "object"' in build_condition("C3", ctx=CONLL).prompt
    assert json.loads(build_condition("C6", ctx=CONLL).constraint["value"]) == schema
    assert (
        json.loads(build_condition("C6", ctx=CONLL | {"schema_text": schema}).constraint["value"]) == schema
    )


def test_constraint_and_react_are_mappings_or_absent():
    """``.constraint`` and ``.react`` are mappings (``.react["max_steps"]``) or absent."""
    c6, c7 = (build_condition(name, ctx=CONLL) for name in ("C6", "C7"))
    assert c6.constraint["kind"] == c6.constraint.kind == "json_schema"
    assert dict(c6.constraint)["backend"] == "auto"
    assert c6.react is None
    assert c7.react["max_steps"] == 5
    assert c7.constraint is None
    assert not build_condition("C0", ctx=CONLL).react


def test_decoding_is_read_by_get_by_key_and_by_attribute():
    """``decoding.get("temperature")``, ``decoding["top_p"]`` and attributes."""
    decoding = Decoding("D1", 0.7, 0.95, 64)
    assert (decoding.get("temperature"), decoding["top_p"], decoding.max_tokens) == (0.7, 0.95, 64)
    assert decoding.get("stop") is None
    assert decoding.get("stop", "x") == "x"
    assert dict(decoding) == {"id": "D1", "temperature": 0.7, "top_p": 0.95, "max_tokens": 64}
    assert {**decoding, "id": "D0"}["id"] == "D0"
    with pytest.raises(KeyError):
        decoding["hashed"]
    assert pickle.loads(pickle.dumps(decoding)) == decoding
    assert hash(decoding) == hash(Decoding("D1", 0.7, 0.95, 64))


class Parrot(ModelAdapter):
    """An adapter as the specification writes one: ``generate`` and nothing else."""

    def generate(self, prompt, decoding, seed):
        label = ("World", "Sports")[int(decoding.get("temperature") > 0 and decoding["top_p"] < 1)]
        text = json.dumps({"label": label, "confidence": 0.5, "rationale": "so"})
        usage = {
            "prompt_tokens": len(prompt.split()),
            "completion_tokens": 5,
            "total_tokens": len(prompt.split()) + 5,
        }
        return {"text": text, "finish_reason": "stop", "latency_ms": 0.1, "usage": usage}


class Forcing(ConstraintEngine):
    """A constraint engine as the specification writes one. What it is to force is the schema's own ``const``."""

    def generate_constrained(self, adapter, prompt, decoding, schema_or_grammar, seed):
        assert decoding["max_tokens"] > 0
        answer = {}
        for name, kind in schema_or_grammar["properties"].items():
            answer[name] = kind.get("const", kind.get("enum", [None])[0])
            if answer[name] is None:
                answer[name] = 0.5 if kind.get("type") == "number" else "because"
        return {"text": json.dumps(answer), "finish_reason": "stop"}


class Labels(TaskEvaluator):
    """An evaluator as the specification writes one."""

    def parse(self, text):
        found = re.search(r'"label":\s*"([^"]+)"', text)
        return {"label": found[1] if found else None}

    def score(self, parsed, truth, extra):
        right = float(parsed["label"] == truth["label"])
        assert extra["item_id"]
        return {
            "task_score": right,
            "exact_match": right,
            "abstained": False,
            "read": parsed["label"] is not None,
        }


@pytest.fixture
def registered(monkeypatch):
    for registry, name, target in (
        (ADAPTERS, "parrot", Parrot),
        (CONSTRAINTS, "forcing", Forcing),
        (EVALUATORS, "labels", Labels),
    ):
        monkeypatch.setattr(registry, "_targets", {**registry._targets, name: target})


@pytest.mark.slow
def test_an_adapter_a_constraint_engine_and_an_evaluator_run_a_task(registered, tmp_path):
    """``ModelAdapter``, ``ConstraintEngine`` and ``TaskEvaluator`` plugged in as they are, together."""
    (tmp_path / "tasks.yaml").write_text(
        "tasks:\n  agnews_json: {kind: classification, dataset: ag_news, evaluator: labels, evaluator_options: {}}\n"
    )
    (tmp_path / "conditions.yaml").write_text(
        "conditions:\n  C0: []\n  C6: [SCHEMA, {TYPE_CONSTRAIN: {engine: forcing}}]\n"
    )
    suite = {"models_ref": "models.yaml", "tasks_ref": "tasks.yaml", "conditions_ref": "conditions.yaml"}
    models = {"parrot": {"provider": "parrot", "family": "bird", "size": "1B"}}
    profile = write_profile(tmp_path, models, conditions=("C0", "C6"), items=4, suite=suite)
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    rows = list(iter_newest_rows(tmp_path / "outputs" / "runs" / "t.jsonl"))
    assert {row.condition.id for row in rows} == {"C0", "C6"}
    free = [row for row in rows if row.condition.id == "C0"]
    forced = [row for row in rows if row.condition.id == "C6"]
    assert {(row.decoding.id, json.loads(row.generation.text)["label"]) for row in free} == {
        ("D0", "World"),
        ("D1", "Sports"),
    }
    assert {row.generation.constraint_backend for row in forced} == {"forcing"}
    assert all(row.metrics["read"] for row in rows)
    assert {row.metrics["task_score"] for row in rows} <= {0.0, 1.0}


@pytest.mark.slow
def test_a_constraint_engine_that_enforces_nothing_is_found_out(monkeypatch, tmp_path):
    class Idle:
        def generate_constrained(self, adapter, prompt, decoding, schema_or_grammar, seed):
            return adapter.generate(prompt, decoding, seed)

    monkeypatch.setattr(CONSTRAINTS, "_targets", {**CONSTRAINTS._targets, "idle": Idle})
    monkeypatch.setattr(ADAPTERS, "_targets", {**ADAPTERS._targets, "parrot": Parrot})
    assert backend_named("idle").label() == "idle"
    (tmp_path / "conditions.yaml").write_text(
        "conditions:\n  C0: []\n  C6: [SCHEMA, {TYPE_CONSTRAIN: {engine: idle}}]\n"
    )
    suite = {"models_ref": "models.yaml", "conditions_ref": "conditions.yaml"}
    models = {"parrot": {"provider": "parrot", "family": "bird", "size": "1B"}}
    profile = write_profile(tmp_path, models, conditions=("C0", "C6"), items=2, suite=suite)
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    rows = iter_newest_rows(tmp_path / "outputs" / "runs" / "t.jsonl")
    assert {row.condition.id for row in rows} == {"C0"}


@pytest.mark.slow
def test_a_task_evaluator_in_a_file_beside_the_profile(tmp_path):
    """A ``TaskEvaluator`` without a package: ``evaluator: mine.py:Labels``; the simulated model answers by it."""
    (tmp_path / "mine.py").write_text(
        "import json\n"
        "class Labels:\n"
        "    def parse(self, text):\n"
        "        try:\n"
        "            return json.loads(text)\n"
        "        except ValueError:\n"
        "            return {}\n"
        "    def score(self, parsed, truth, extra):\n"
        "        return {'accuracy': float(parsed.get('label') == truth['label'])}\n"
    )
    (tmp_path / "tasks.yaml").write_text(
        "tasks:\n  agnews_json:\n    kind: classification\n    dataset: ag_news\n"
        "    evaluator: mine.py:Labels\n    evaluator_options: {}\n"
    )
    suite = {"models_ref": "models.yaml", "tasks_ref": "tasks.yaml"}
    sure = {
        "sim": SIMULATED | {"base_accuracy": 0.99, "operator_effects": {"SCHEMA": 9.0}, "json_validity": 0.99}
    }
    profile = write_profile(tmp_path, sure, conditions=("C3",), regimes=("D0",), items=6, suite=suite)
    assert build_plan(load_suite(profile)).calls == 6
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    rows = list(iter_newest_rows(tmp_path / "outputs" / "runs" / "t.jsonl"))
    assert sum(row.metrics["task_score"] for row in rows) >= 4
    assert all(row.metrics["accuracy"] == row.metrics["task_score"] for row in rows)


def test_a_plugged_evaluator_travels_to_another_process(registered):
    evaluator = evaluator_named("labels")
    again = pickle.loads(pickle.dumps(evaluator))
    assert type(again) is type(evaluator)
