"""Settings of all tests: none may depend on how busy the computer is, and each says what it needs.

Three markers are put on here rather than in every file: ``model``, ``subprocess`` and ``slow`` tell ``make check``
what to leave out. ``make test`` runs everything.
"""

from __future__ import annotations

import gc
from types import FunctionType, ModuleType

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("patient"), max_examples=15)
settings.load_profile("patient")

MODEL_NAMES = {"tiny_adapter", "tiny_chat_adapter", "shared_hf_model", "encoder"}
"""Functions and fixtures that load a model: torch, or the sentence encoder."""
PROCESS_NAMES = {
    "subprocess",
    "multiprocessing",
    "install",
    "run_tool",
    "nodes",
    "browser",
    "tool",
    "download",
    "line_after",
    "ForkedCli",
}
PROCESS_NAMES |= {"helm_environment", "promptbench_environment", "wheel_house"}
"""Modules, functions and fixtures that start processes."""

SLOW_FILES = {
    "tests/ablation/test_ablate.py",
    "tests/analysis/tables/test_embeddings.py",
    "tests/analysis/test_simulated_truth.py",
    "tests/report/test_build.py",
    "tests/report/test_page.py",
    "tests/test_documented_commands.py",
    "tests/runners/test_batches.py",
    "tests/docs/test_notebook.py",
    "tests/test_pytest_plugin.py",
}
SLOW_TESTS = {
    "test_any_table_of_the_report_by_name",
    "test_report_writes_the_page_from_a_result_or_a_name",
    "test_a_cancelled_arun_keeps_its_rows_and_goes_on",
    "test_markdown_report",
    "test_latex_tables",
    "test_against_a_server_that_misbehaves_everything_is_answered_or_its_error_logged",
    "test_replicates_without_their_effect_are_too_sure",
    "test_intervals_cover",
    "test_interval_covers",
    "test_ece_interval_covers_for_an_overconfident_model",
    "test_worst_case_interval_covers",
    "test_worst_case_difference_covers_and_pairs",
    "test_micro_f1_difference_covers",
    "test_paired_interval_covers_on_bounded_scores",
    "test_mean_interval_covers_on_skewed_scores",
    "test_risk_coverage_interval_covers",
    "test_next_reports_on_the_run_that_was_made",
    "test_report_on_an_imported_run",
    "test_helm_names_a_run_first_and_then_its_report",
    "test_no_sentence_of_the_grammar_is_a_syntax_error",
    "test_information_about_the_truth",
    "test_rows_cover_both_tasks_four_conditions_and_all_variants",
    "test_a_search_closes_the_gap_to_the_optimum",
    "test_only_the_name_of_an_item_is_required",
    "test_a_model_redrafts_its_own_instruction",
    "test_several_event_loops_and_calls_inside_a_running_loop",
    "test_gold_scores_1_and_wrong_less",
    "test_every_operation_fails_once",
    "test_a_ray_of_our_own_listens_on_loopback_only",
    "test_an_operation_fails_while_it_resumes",
    "test_a_server_of_faults_leaves_a_row_for_every_unit",
}
"""Simulations of coverage, drawn reports and the like: 2 seconds or more each, 120 together."""

LONGEST_FILES = (
    "tests/integrations/test_helm.py",
    "tests/integrations/promptbench/test_attacks.py",
    "tests/integrations/promptbench/test_search.py",
    "tests/runners/executors/test_ray_executor.py",
    "tests/constraints/test_backends.py",
    "tests/runners/test_all_tasks.py",
    "tests/engines/adapters/test_llamacpp.py",
    "tests/engines/adapters/test_local_hf.py",
    "tests/runners/test_embedded.py",
    "tests/runners/test_kill_and_resume.py",
)
"""They start first, so that no process is left alone with one of them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a model, starts processes or is slow; put the longest files first."""
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        names = names_used(item.function, item.module) | set(item.fixturenames)
        if names & MODEL_NAMES:
            item.add_marker("model")
        if names & PROCESS_NAMES:
            item.add_marker("subprocess")
        if item.originalname in SLOW_TESTS or item.nodeid.partition("::")[0] in SLOW_FILES:
            item.add_marker("slow")
    order = {file: place for place, file in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(order)))


def names_used(function: FunctionType, module: ModuleType) -> set[str]:
    """Global names in a test and in the functions of its own module that it calls."""
    seen: set[str] = set()
    waiting = [function.hypothesis.inner_test if hasattr(function, "hypothesis") else function]
    while waiting:
        found = set(waiting.pop().__code__.co_names) - seen
        seen |= found
        helpers = (getattr(module, name, None) for name in found)
        waiting += [
            one for one in helpers if isinstance(one, FunctionType) and one.__module__ == module.__name__
        ]
    return seen


def pytest_collection_finish() -> None:
    """What the imports left on the heap stays: libraries that collect garbage at every call need not look at it."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let the interpreter end in order."""
    gc.unfreeze()
