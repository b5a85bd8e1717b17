"""The specification's import paths: resolved lazily to what the suite has, beside its own names."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys

import pytest

from pcsuite.errors import ConfigError
from pcsuite.specified import MODULES


@pytest.mark.parametrize("module", MODULES)
def test_every_module_of_the_table_has_its_names(module):
    imported = importlib.import_module(module)
    assert all(getattr(imported, name) is not None for name in MODULES[module][1])
    with pytest.raises(AttributeError, match="nonsense"):
        _ = imported.nonsense


def test_a_module_that_is_a_file_keeps_its_own_names_and_a_subject_gives_all_of_its():
    from pcsuite.config import load_profile
    from pcsuite.data import datasets, items
    from pcsuite.evaluation import fever
    from pcsuite.prompts import operators

    assert fever.canonical_label("nei") is None
    assert fever.SimpleRetriever.__module__ == "pcsuite.specified.running"
    assert datasets.load_items is items.load_items
    assert operators.Bundle is importlib.import_module("pcsuite.prompts.operators").Bundle
    assert pickle.loads(pickle.dumps(load_profile)) is load_profile


def test_importing_the_suite_imports_none_of_them():
    code = "import sys, pcsuite; print([m for m in sys.modules if m.startswith('pcsuite.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['pcsuite.specified']"


def test_an_unknown_module_is_still_unknown():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pcsuite.logging.nonsense")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pcsuite.utils.nonsense")


def test_a_registry_of_a_models_file_builds_adapters_by_their_entries(monkeypatch):
    from pcsuite.registry import ModelRegistry

    monkeypatch.setenv("OPENAI_API_KEY", "none")
    models = {
        "small": {
            "provider": "hf",
            "family": "f",
            "size": "7b",
            "model_name_or_path": "org/name",
            "device": "cuda",
        },
        "large": {"provider": "openai", "family": "g", "size": "api", "model": "gpt-4.1"},
    }
    adapters = ModelRegistry.from_models_yaml(models).adapters
    assert [(one.id, one.family, one.size, one.provider) for one in adapters.values()] == [
        ("small", "f", "7b", "hf"),
        ("large", "g", "api", "openai"),
    ]
    assert (adapters["small"].model_path, adapters["small"].device) == ("org/name", "cuda")
    with pytest.raises(ConfigError, match="unknown provider 'nobody'"):
        ModelRegistry.from_models_yaml({"x": {"provider": "nobody"}})


def test_the_loop_searches_as_it_is_told_and_answers():
    from pcsuite.runners.react_loop import run_react

    from pcsuite.engines.adapters.base import ModelAdapter
    from pcsuite.evaluation.fever import Passage, SimpleRetriever

    class Searcher(ModelAdapter):
        def __init__(self, model_id, spec):
            super().__init__(id=model_id, family=spec["family"], size="s", provider="own")
            self.prompts = []

        def generate(self, prompt, decoding, seed):
            self.prompts.append(prompt)
            text = 'RETRIEVE("oak trees")' if len(self.prompts) == 1 else '{"label": "SUPPORTS"}'
            empty = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"))
            return {"text": text, "finish_reason": "stop", "latency_ms": 1, "usage": empty}

    model = Searcher("m", {"family": "f"})
    retriever = SimpleRetriever([Passage("p1", "Oak trees are tall."), Passage("p2", "Soup.")])
    answer = run_react(
        model, "Claim: oaks are tall.", {"temperature": 0.0, "max_tokens": 20}, 1, retriever, max_steps=3
    )
    assert (answer["text"], answer["react_steps"]) == ('{"label": "SUPPORTS"}', 2)
    assert answer["react_tool_calls"] == [{"tool": "RETRIEVE", "query": "oak trees", "passage_ids": ["p1"]}]
    assert "Oak trees are tall." in model.prompts[1]


def test_operators_fill_the_blocks_of_a_template(tmp_path):
    from pcsuite.prompts.operators.operators import (
        AbstainOperator,
        ConstraintsOperator,
        ExemplarsOperator,
        GoalOperator,
        ReasoningModeOperator,
        RoleOperator,
        VerifierOperator,
    )
    from pcsuite.prompts.operators.render import make_jinja_env, render_prompt

    (tmp_path / "t.j2").write_text(
        "{{ role_block }}{{ goal_block }}{{ rules_block }}{{ abstain_instruction }}{{ exemplars_text }}{{ input_text }}"
        " {{ reasoning_mode }}\n{{ verifier_block }}"
    )
    ctx = {
        "task_goal": "count",
        "rules": ["be brief"],
        "exemplars": [{"input": "a", "output": "b"}],
        "input_text": "x",
    }
    given = [
        RoleOperator("You count {things}."), GoalOperator("Goal: {task_goal}"), ConstraintsOperator("Rules:"),
        AbstainOperator("Say so."), ExemplarsOperator(k=1), ReasoningModeOperator("full"),
        VerifierOperator(["Is it right?"], one_revision=False),
    ]  # fmt: skip
    text, meta = render_prompt(make_jinja_env(str(tmp_path)), "t.j2", ctx, given)
    assert text == (
        "You count {things}.\nGoal: count\nRules:\n- be brief\nSay so.\nInput:\na\nOutput:\nb\nx full\n"
        "Before you answer, check silently:\n- Is it right?\n"
    )
    assert (meta["operators"][0], meta["allow_abstain"], meta["reasoning_mode"]) == ("ROLE", True, "full")
    with pytest.raises(ValueError, match="none, brief or full"):
        ReasoningModeOperator("long")


def test_reports_of_the_cache_are_made_of_its_two_readings(tmp_path, monkeypatch):
    monkeypatch.delenv("PCS_CACHE_STATS_DIR", raising=False)
    from pcsuite.logging.cache_report import read_cache_db_stats, read_runtime_cache_stats, write_cache_report

    from pcsuite.evaluation.metric_cache import MetricCache

    with MetricCache(tmp_path / "metric_cache.sqlite") as cache:
        cache.put("bleu", "a", "b", 0.5, seconds=2.0)
        assert (cache.get("bleu", "a", "b"), cache.get("bleu", "a", "c")) == (0.5, None)
    database = read_cache_db_stats(tmp_path / "metric_cache.sqlite")
    runtime = read_runtime_cache_stats(tmp_path / "cache_stats")
    assert (database.exists, database.per_metric_rows, database.total_rows) == (True, {"bleu": 1}, 1)
    assert runtime == {"bleu": {"hits": 1, "misses": 1, "puts": 1, "compute_s": 2.0}}
    write_cache_report(tmp_path / "reports" / "cache_report.md", database, runtime)
    assert "| bleu | 1 | 1 | 1 | 50.0% | 1 | 2.00 |" in (tmp_path / "reports" / "cache_report.md").read_text(
        "utf-8"
    )
