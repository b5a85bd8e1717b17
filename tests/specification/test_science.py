"""Section "Science" of the specification: what it defines, asked of whole runs and of the tables they make.

The statistics themselves are held to worked-out values where they are written; here each line of the section is seen to
reach the user.
"""

import json
from collections import Counter

import numpy as np
import pytest

from pcsuite.analysis.metrics import bundled_metrics
from pcsuite.cli import main
from pcsuite.config.bundled import bundled_tasks
from pcsuite.config.load import load_suite
from pcsuite.config.profile import AnalysisSection
from pcsuite.errors import Exit
from pcsuite.logging.log import iter_newest_rows
from pcsuite.perturbations import variants
from pcsuite.prompts.conditions.conditions import build_condition
from pcsuite.runners.plan import build_plan
from pcsuite.stats.voting import self_consistency
from support.analysed import tables_of
from support.profiles import SIMULATED, write_profile
from support.synthetic_log import Design, design_rows, make_row

MODELS = {"s": ("fam", "7B"), "m": ("fam", "24B"), "api": ("gpt", "frontier")}
"""One family in two sizes and one API model: family is nested in size."""


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """Tables of a grid over three sizes, both regimes, four conditions."""
    rows = list(design_rows(Design(items=10, models=MODELS, conditions=("C0", "C3", "C4", "C6"))))
    return tables_of(tmp_path_factory.mktemp("grid"), rows)


def statement_of(grid, name):
    (row,) = (row for row in grid["hypotheses"] if row["id"] == name)
    return row["statement"]


@pytest.mark.slow
def test_hypotheses_h1_to_h4_each_get_a_verdict(grid):
    """H1 structure blocks, H2 hard constraints against retry, H3 closed loop, H4 invariant operators."""
    found = {row["id"]: row["verdict"] for row in grid["hypotheses"]}
    assert {"H1", "H2", "H3", "H4"} <= set(found)
    assert set(found.values()) <= {"supported", "contradicted", "inconclusive", "not tested"}
    assert found["H3"] == "not tested"  # no loop was run


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("H1", ("structure blocks", "schema", "constraint", "raise task success")),
        ("H1V", ("structure blocks", "variance", "over seeds and prompts")),
        (
            "H2",
            ("hard constraints", "entropy of unsupported content", "validation and retry", "token budget"),
        ),
        ("H3", ("closed loop", "unsupported content", "open loop", "grounded tasks")),
        (
            "H4",
            (
                "stable positive effect at every model size",
                "others depend on it",
                "operator × size interaction",
            ),
        ),
        ("P1", ("at least 3 domains", "3 model sizes")),
        ("P2", ("lower entropy and raise validity", "price")),
        ("P3", ("closed loop beats the open loop",)),
        ("P4", ("small set of operators", "80% of the gain", "invariant")),
    ],
)
def test_each_hypothesis_and_criterion_says_what_the_specification_says(grid, name, words):
    said = statement_of(grid, name)
    assert all(word in said for word in words), said


@pytest.mark.slow
def test_h1_lowers_the_variance_over_seeds_and_prompts(tmp_path):
    """SCHEMA makes every answer right, whatever the seed and the prompt; without it both move the score."""
    rows = []
    for k in range(40):
        for kind in ("none", "paraphrase"):
            for seed in (1, 2):
                common = {"item": f"{k}", "decoding": "D1", "seed": seed, "answer": "a", "perturbation": kind}
                # Half of the items are right under one seed only, the others under one prompt only.
                free = float(seed == 1) if k % 2 else float(kind == "none")
                rows.append(make_row(condition="C2", score=free, **common))
                rows.append(make_row(condition="C3", score=1.0, **common))
    found = tables_of(tmp_path, rows)
    measures = {row["measure"]: row for row in found["structure"] if row["operator"] == "SCHEMA"}
    assert measures["variance over seeds"]["verdict"] == "supported"
    assert measures["variance over prompts"]["verdict"] == "supported"
    verdicts = {row["id"]: row["verdict"] for row in found["hypotheses"]}
    assert (verdicts["H1"], verdicts["H1V"]) == ("supported", "supported")


@pytest.mark.slow
def test_h2_is_about_unsupported_content_against_retry_at_a_comparable_budget(tmp_path):
    rows = []
    retried = ("ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "VERIFIER", "RETRY_ON_FAIL")
    for k in range(16):
        for seed in (1, 2, 3):
            common = {
                "item": f"{k}",
                "decoding": "D1",
                "seed": seed,
                "score": 0.0,
                "metrics": {"unsupported_rate": 1.0},
            }
            rows.append(make_row(condition="C4", answer=f"x{seed}", **common))
            rows.append(make_row(condition="C4R", operators=retried, answer=f"x{seed}", **common))
            rows.append(make_row(condition="C6", answer="x", **common))
    found = tables_of(tmp_path, rows)
    second = {row["id"]: row for row in found["hypotheses"]}["H2"]
    assert (second["verdict"], second["effect"]) == ("supported", pytest.approx(-1.0))
    (compared,) = found["constraint_vs_retry"]
    assert compared["unsupported_delta"] == pytest.approx(-1.0)


def test_publishable_when_its_criteria_hold(grid):
    """Replication in ≥ 3 domains and sizes; entropy and validity; the loop; a small invariant basis."""
    criteria = [row["id"] for row in grid["hypotheses"] if row["id"].startswith("P")]
    assert sorted(set(criteria)) == ["P1", "P2", "P3", "P4"]


@pytest.mark.slow
def test_a_small_set_of_operators_is_read_off_the_attribution_table(tmp_path):
    """A carries all of the gain at both sizes: the shares are the attribution's, and invariance is tested."""
    bundles, rng = {"C0": (), "A": ("A",), "B": ("B",), "AB": ("A", "B")}, np.random.default_rng(19)
    rows = [
        make_row(
            item=f"{k}", model=model, size=size, condition=name, operators=own,
            score=0.2 + 0.5 * ("A" in own) + rng.normal(0, 0.05),
        )
        for model, size in (("m1", "8B"), ("m2", "70B"))
        for k in range(120)
        for name, own in bundles.items()
    ]  # fmt: skip
    found = tables_of(tmp_path, rows)
    fourth = {row["id"]: row for row in found["hypotheses"]}["P4"]
    assert fourth["verdict"] == "supported"
    assert "A (1 of 2 operators)" in fourth["evidence"]
    assert {row["method"] for row in found["attribution"]} >= {"shapley", "least squares"}
    (tmp_path / "one").mkdir()
    alone = tables_of(tmp_path / "one", [row for row in rows if row.model.id == "m1"])
    assert {row["id"]: row["verdict"] for row in alone["hypotheses"]}["P4"] == "inconclusive"


def test_size_is_a_factor_s_m_l_beside_the_literal_size(grid):
    """S (~7B), M (13–34B), L (70B and API)."""
    levels = {(row["size"], row["size_class"]) for row in grid["summary_by_condition"]}
    assert levels == {("7B", "S"), ("24B", "M"), ("frontier", "L")}
    classes = AnalysisSection().size_classes
    assert list(classes) == ["S", "M", "L"]
    assert {row["level"] for row in grid["by_size"]} == {"S", "M", "L"}
    for size, level in ((7, "S"), (13, "M"), (34, "M"), (70, "L")):
        (low, high) = classes[level]
        assert low <= size
        assert high is None or size < high


def test_tasks_carry_a_domain_and_an_archetype_has_two():
    """Tasks carry a domain; at least two domains an archetype."""
    tasks = bundled_tasks()
    assert all(task.domain for task in tasks.values())
    archetypes = {
        "extraction": ("ner", "relations", "extraction", "buildingspec"),
        "classification": ("classification",),
        "choice": ("choice",),
        "reasoning": ("number", "sql"),
        "grounded": ("fever", "short_answer", "truthfulqa"),
    }
    for name, evaluators in archetypes.items():
        assert len({task.domain for task in tasks.values() if task.evaluator in evaluators}) >= 2, name


@pytest.mark.slow
def test_c7_runs_with_and_without_retrieval_on_grounded_tasks(tmp_path):
    """C7 with and without retrieval (the loop alone) on FEVER and Natural Questions, off/on on TruthfulQA."""
    grounded = ("fever_json", "nq_open", "truthfulqa_gen")
    profile = write_profile(
        tmp_path,
        tasks=grounded,
        conditions=("C3", "C7", "C7L"),
        regimes=("D0",),
        items=2,
        integrations={"retrieval": {"enabled_for_tasks": list(grounded)}},
    )
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    rows = list(iter_newest_rows(tmp_path / "outputs" / "runs" / "t.jsonl"))
    searched = {(row.task.id, row.condition.id): row.metrics["retrieval"] for row in rows}
    assert searched == {
        (task, condition): condition == "C7" for task in grounded for condition in ("C3", "C7", "C7L")
    }


def test_natural_questions_and_fever_share_the_index_machinery(tmp_path):
    folder = tmp_path / "cache" / "datasets"
    folder.mkdir(parents=True)
    page = {"page": "Mercury", "sentences": ["Mercury has the shortest year."]}
    (folder / "fever_pages.jsonl").write_text(json.dumps(page) + "\n")
    profile = write_profile(
        tmp_path,
        tasks=("fever_json", "nq_open"),
        conditions=("C7",),
        regimes=("D0",),
        integrations={"retrieval": {"enabled_for_tasks": ["fever_json", "nq_open"]}},
    )
    assert {cell.task.id for cell in build_plan(load_suite(profile)).cells} == {"fever_json", "nq_open"}


def test_decompose_is_shown_or_hidden(tmp_path):
    """DECOMPOSE shown or hidden."""
    (tmp_path / "conditions.yaml").write_text(
        "conditions:\n  C0: []\n  shown: [DECOMPOSE]\n  hidden: [{DECOMPOSE: {mode: hidden}}]\n"
    )
    suite = {"models_ref": "models.yaml", "conditions_ref": "conditions.yaml"}
    profile = write_profile(
        tmp_path, conditions=("C0", "shown", "hidden"), regimes=("D0",), items=1, suite=suite
    )
    plan = build_plan(load_suite(profile))
    prompts = {cell.condition.id: cell.tree(cell.task.items[0]).assemble() for cell in plan.cells}
    assert len(set(prompts.values())) == 3
    assert (
        build_condition("C0", ctx={"task_id": "t", "task_kind": "reasoning", "input_text": "1"}).react is None
    )


def test_interventions_are_wording_structure_and_scope():
    """Interventions: wording, structure, scope."""
    kinds = Counter(variant.kind for variant in variants(["paraphrase", "reorder", "scope"], None))
    assert set(kinds) == {"paraphrase", "reorder", "scope"}
    assert min(kinds.values()) >= 2


@pytest.mark.slow
def test_relation_extraction_is_a_structured_task(tmp_path):
    """Relation extraction as a structured task."""
    tasks = [name for name, task in bundled_tasks().items() if task.evaluator == "relations"]
    assert len(tasks) >= 2
    profile = write_profile(tmp_path, tasks=tuple(tasks), conditions=("C0", "C3", "C6"), items=2)
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    rows = list(iter_newest_rows(tmp_path / "outputs" / "runs" / "t.jsonl"))
    assert not any(row.errors for row in rows)
    assert {row.condition.id for row in rows} == {"C0", "C3", "C6"}


@pytest.mark.slow
def test_variance_in_key_fields_has_a_table(tmp_path):
    """Variance in key fields."""
    rows = [
        make_row(
            item=f"{k}", decoding="D1", seed=seed, fields={"label": "a", "confidence": 0.1 * seed}, answer="a"
        )
        for k in range(3)
        for seed in (1, 2, 3)
    ]
    found = {row["field"]: row for row in tables_of(tmp_path, rows)["key_fields"]}
    assert found["label"]["disagreement"] == 0.0
    assert found["confidence"]["variance"] == pytest.approx(0.01)


@pytest.mark.slow
def test_figures_ladder_worst_case_interaction_and_confusion(tmp_path):
    """Ladder by size with intervals; worst-case robustness; interaction by regime; abstention confusion as a matrix."""
    models = {
        name: SIMULATED | {"size": size, "params_b": b}
        for name, size, b in (("s", "7B", 7), ("l", "70B", 70))
    }
    profile = write_profile(
        tmp_path,
        models,
        tasks=("truthfulqa_gen",),
        conditions=("C0", "C2"),
        items=40,
        integrations={
            "promptbench": {
                "enabled": True,
                "tasks": ["truthfulqa_gen"],
                "conditions_subset": ["C0", "C2"],
                "attack_types": ["reorder"],
                "variants": 1,
            }
        },
    )
    assert main(["run", "--all", "--quiet", "--config", str(profile)]) == Exit.DONE
    drawn = {path.stem for path in (tmp_path / "outputs").rglob("*.png")}
    for name in (
        "perf_condition_ladder__truthfulqa_gen__grid",
        "robustness_worst_case__truthfulqa_gen__grid",
        "interaction_condition_size__truthfulqa_gen",
        "abstain_confusion__truthfulqa_gen__s",
    ):
        assert name in drawn, sorted(drawn)


def test_the_mixed_model_covers_every_metric_and_each_condition_has_its_mean(grid):
    """The mixed model for every metric of the table, marginal means also where family is nested in size."""
    varied = {"score", "json_valid", "total_tokens"}
    assert {row["metric"] for row in grid["mixed_model"]} >= varied
    assert bundled_metrics().compared_in("mixed_model") == bundled_metrics().compared_in("effects")
    means = [row for row in grid["marginal_means"] if row["metric"] == "score" and row["over"] == "condition"]
    assert {row["condition"] for row in means} == {"C0", "C3", "C4", "C6"}
    assert all(row["mean"] is not None for row in means)
    by_class = [row for row in grid["marginal_means"] if row["over"] == "condition × size class"]
    assert {row["size_class"] for row in by_class} == {"S", "M", "L"}


def test_summary_by_condition_has_entropy_for_closed_answers(grid):
    """`metrics.entropy_cat` is null in a row and filled in summaries."""
    sampled = [row for row in grid["summary_by_condition"] if row["decoding"] == "D1"]
    assert sampled
    assert all(row["entropy_cat"] is not None for row in sampled)
    assert all(row["entropy_cat"] is None for row in grid["summary_by_condition"] if row["decoding"] == "D0")


def test_self_consistency_breaks_ties_by_verifier_score():
    """Self-consistency ties by verifier score, an unreadable verdict leaves out that verdict alone."""
    nan, rng = float("nan"), np.random.default_rng(0)
    answers, correct = [["a", "a", "b", "b"]] * 2, [[1, 1, 0, 0]] * 2

    def accuracy(verdicts):
        by_k = {
            vote.k: vote
            for vote in self_consistency(answers, correct, rng=rng, ks=[4], verifier=[verdicts] * 2)
        }
        return by_k[4].accuracy.value

    assert accuracy([0.9, 0.9, 0.1, 0.1]) == 1.0
    assert accuracy([nan, 0.6, 0.9, 0.1]) == 1.0  # "a" by its one readable verdict, "b" by the mean of two
    assert accuracy([nan, 0.4, 0.9, 0.1]) == 0.0
