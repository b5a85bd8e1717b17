"""Section "Profile" of the specification: keys and ids as a reader of it writes them."""

import json
import shutil
import threading
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from pcsuite.cli import main
from pcsuite.config.load import bundled_configs, load_suite
from pcsuite.engines import ADAPTERS
from pcsuite.engines.adapters.base import ModelAdapter
from pcsuite.errors import ConfigError, Exit
from pcsuite.integrations.helm.process import parse_scenarios
from pcsuite.logging.log import iter_newest_rows
from pcsuite.retrieval.bm25_local import Bm25Retriever
from pcsuite.runners.plan import build_plan
from support.profiles import SIMULATED, write_profile

AS_WRITTEN = """
version: "1.0"
run: {name: "profile_A", output_dir: "outputs", overwrite: false, cache_dir: ".cache", log_level: "INFO"}
repro:
  global_seed: 1337
  deterministic_hash_seed: "pcsuite-v1"
  seeds: {d0_greedy: [0], d1_sampled: [1, 2]}
  seeds_per_task: {default: 2}
  num_workers: 8
  max_inflight: 16
suite:
  tasks_ref: "configs/tasks_v1.yaml"
  models_ref: "configs/models_v1.yaml"
  operators_ref: "configs/operators_v1.yaml"
  conditions_ref: "configs/conditions_v1.yaml"
  decoding_ref: "configs/decoding_v1.yaml"
  metrics_ref: "configs/metrics_v1.yaml"
selection:
  tasks: ["agnews_json", "fever_json"]
  models: ["simulated"]
  conditions: ["C0", "C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8"]
  decoding_regimes: ["D0", "D1"]
limits: {max_items_per_task: 2, truthfulqa_mode: "full", stop_on_error_rate: 0.02}
integrations:
  helm: {enabled: false, scenarios: ["mmlu", "truthfulqa"], helm_output_dir: "outputs/helm"}
  promptbench: {enabled: true, tasks: ["agnews_json"], conditions_subset: ["C2"], attack_types: ["reorder"], max_items: 300}
  retrieval: {enabled_for_tasks: ["fever_json"], backend: "bm25_local", wiki_index_path: ".cache/wiki_bm25"}
optimization:
  dspy: {enabled: true, conditions_target: ["C8"], dev_items: {agnews_json: 4}, iterations: 40}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project as the specification lays it out: ``configs/`` below the root, where commands are run."""
    shutil.copytree(bundled_configs(), tmp_path / "configs")
    (tmp_path / "configs" / "profile_A.yaml").write_text(AS_WRITTEN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_profile_as_the_specification_writes_it_runs(project):
    assert main(["run", "--quiet", "--config", "configs/profile_A.yaml"]) == Exit.DONE
    rows = list(iter_newest_rows(project / "outputs" / "runs" / "profile_A.jsonl"))
    assert {row.decoding.id for row in rows} == {"D0", "D1"}
    assert {row.condition.id for row in rows if row.task.id == "fever_json"} == {f"C{n}" for n in range(8)}


@pytest.mark.slow
def test_decoding_regimes_are_d0_and_d1_in_file_flags_log_and_tables(tmp_path):
    """``selection.decoding_regimes: ["D0","D1"]``; the long names are keys of ``repro.seeds`` and accepted as ids."""
    profile = write_profile(
        tmp_path, conditions=("C0",), items=2, repro={"seeds": {"d0_greedy": [0], "d1_sampled": [1, 2]}}
    )
    long = yaml.safe_load(profile.read_text())
    long["selection"]["decoding_regimes"] = ["d0_greedy", "d1_sampled"]
    other = tmp_path / "long.yaml"
    other.write_text(yaml.safe_dump(long))
    short_suite, long_suite = load_suite(profile), load_suite(other)
    assert short_suite.profile.selection == long_suite.profile.selection
    assert short_suite.config_hash == long_suite.config_hash
    assert short_suite.seeds("D1", "agnews_json") == (1, 2)
    for spelling in ("D1", "d1_sampled"):
        name = f"by-{spelling}"
        words = ["run", "--quiet", "--config", str(profile), "--regimes", spelling, "--name", name]
        assert main(words) == Exit.DONE
        rows = list(iter_newest_rows(tmp_path / "outputs" / "runs" / f"{name}.jsonl"))
        assert {row.decoding.id for row in rows} == {"D1"}
    manifest = json.loads((tmp_path / "outputs" / "runs" / "by-d1_sampled.manifest.json").read_text())
    assert list(manifest["regimes"]) == ["D1"]


def test_two_names_of_one_regime_are_refused_and_overridden_as_one(tmp_path):
    profile = write_profile(tmp_path, conditions=("C0",), repro={"seeds": {"d0_greedy": [0], "D0": [1]}})
    with pytest.raises(ConfigError, match="are one regime: give one of them"):
        load_suite(profile)
    profile = write_profile(tmp_path, conditions=("C0",), repro={"seeds": {"d0_greedy": [0]}})
    assert load_suite(profile, {"repro.seeds.D0": [7]}).profile.repro.seeds == {"D0": (7,)}


@pytest.mark.slow
def test_c8_that_is_not_compiled_is_not_applicable_with_the_command(tmp_path, capsys):
    """``selection.conditions`` C0…C8: C8 is reported with the command that compiles it, and runs when it is compiled."""
    profile = write_profile(tmp_path, conditions=("C0", "C8"), regimes=("D0", "D1"), items=2)
    plan = build_plan(load_suite(profile))
    (entry,) = plan.not_applicable
    output = tmp_path / "outputs"
    command = f"pcsuite optimize --config {profile} --output-dir {output} --task agnews_json --model sim"
    assert entry.reason == f"no prompt is compiled yet: {command}"
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    assert command in capsys.readouterr().out
    words = [*command.split()[1:], "--method", "blocks", "--candidates", "4", "--limit", "4", "--quiet"]
    assert main(words) == Exit.DONE
    plan = build_plan(load_suite(profile))
    assert plan.not_applicable == ()
    assert {cell.condition.id for cell in plan.cells} == {"C0", "C8"}


def test_refs_are_found_from_the_profiles_folder_and_from_the_projects_root(project):
    """``suite.*_ref`` paths given from the project's root ("configs/tasks_v1.yaml") or from the profile's folder."""
    from_root = load_suite("configs/profile_A.yaml")
    text = AS_WRITTEN.replace('_ref: "configs/', '_ref: "')
    Path("configs/beside.yaml").write_text(text)
    Path("studies/2026").mkdir(parents=True)
    Path("studies/2026/deep.yaml").write_text(AS_WRITTEN)
    beside, deep = load_suite("configs/beside.yaml"), load_suite("studies/2026/deep.yaml")
    assert from_root.sources["tasks_ref"].path.resolve() == beside.sources["tasks_ref"].path.resolve()
    assert from_root.sources["tasks_ref"].path.resolve() == deep.sources["tasks_ref"].path.resolve()
    with pytest.raises(ConfigError, match=r"no file 'configs/nope.yaml' \(tried .*configs/nope.yaml"):
        load_suite("configs/profile_A.yaml", {"suite.tasks_ref": "configs/nope.yaml"})


def test_num_workers_max_inflight_and_log_level_are_read(project):
    """``repro.num_workers`` (preprocessing and evaluation), ``repro.max_inflight``, ``run.log_level``."""
    profile = load_suite("configs/profile_A.yaml").profile
    assert (profile.repro.num_workers, profile.repro.max_inflight, profile.run.log_level) == (8, 16, "INFO")


class Counted(ModelAdapter):
    """A server that is asked how long a prompt is: nobody gets an answer before three ask at once."""

    counts_remotely = True
    max_concurrency = 16
    threads: ClassVar[set[str]] = set()
    together = threading.Barrier(3)

    def generate(self, prompt, decoding, seed):
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return {"text": "{}", "finish_reason": "stop", "latency_ms": 0.1, "usage": usage}

    def count_tokens(self, text):
        name = threading.current_thread().name
        if name not in self.threads:
            self.threads.add(name)
            self.together.wait(timeout=60)
        return len(text.split())


@pytest.mark.slow
def test_num_workers_prepare_prompts_whose_length_a_server_counts(tmp_path, monkeypatch):
    """``repro.num_workers``: as many at once, and no more."""
    monkeypatch.setattr(ADAPTERS, "_targets", {**ADAPTERS._targets, "counted": Counted})
    model = {"provider": "counted", "family": "f", "size": "7B"}
    profile = write_profile(
        tmp_path, {"m": model}, conditions=("C0",), regimes=("D0",), items=9, repro={"num_workers": 3}
    )
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    assert len(Counted.threads) == 3


@pytest.mark.slow
def test_run_all_does_what_the_integrations_enable(tmp_path, capsys):
    """``integrations.helm.enabled``, ``.promptbench.enabled``: what ``run --all`` does."""
    block = {
        "enabled": True,
        "tasks": ["agnews_json"],
        "conditions_subset": ["C0"],
        "attack_types": ["reorder"],
    }
    for enabled in (True, False):
        folder = tmp_path / str(enabled)
        folder.mkdir()
        profile = write_profile(
            folder,
            conditions=("C0",),
            regimes=("D0",),
            items=2,
            integrations={"promptbench": {**block, "enabled": enabled}, "helm": {"enabled": False}},
        )
        assert main(["run", "--all", "--quiet", "--config", str(profile)]) == Exit.DONE
        rows = list(iter_newest_rows(folder / "outputs" / "runs" / "t.jsonl"))
        assert ({row.perturbation.type for row in rows} == {None, "reorder"}) == enabled
        assert list((folder / "outputs").rglob("index.html"))
        assert ("helm" in capsys.readouterr().out) is False


@pytest.mark.slow
def test_run_all_says_why_an_integration_could_not_run_and_reports_all_the_same(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("PCS_INTEGRATIONS_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    profile = write_profile(
        tmp_path, conditions=("C0",), regimes=("D0",), items=2, integrations={"helm": {"enabled": True}}
    )
    assert main(["run", "--all", "--quiet", "--config", str(profile)]) == Exit.DONE
    out = capsys.readouterr().out
    assert "helm: left out: HELM asks models, and those selected are simulated" in out
    assert "[ ] helm: HELM asks models" in out
    assert "[x] table of effects" not in out  # one condition: there is nothing to compare
    assert list((tmp_path / "outputs").rglob("index.html"))


def test_helm_scenarios_may_be_named_mmlu_and_truthfulqa(project):
    scenarios = parse_scenarios(load_suite("configs/profile_A.yaml").profile.integrations.helm.scenarios)
    assert [scenario.name for scenario in scenarios] == [*["mmlu"] * 5, "truthful_qa"]
    assert all("subject" in scenario.arguments for scenario in scenarios[:5])


def test_promptbench_takes_300_items_in_profile_a():
    assert load_suite("profile_A").profile.integrations.promptbench.max_items == 300


def test_wiki_index_path_is_where_index_build_writes_and_loops_read(project):
    """``integrations.retrieval.wiki_index_path: .cache/wiki_bm25``."""
    assert main(["index", "build"]) == Exit.DONE
    settings = load_suite("configs/profile_A.yaml").profile.integrations.retrieval
    assert settings.wiki_index_path == ".cache/wiki_bm25"
    built = [path for path in Path(".cache/wiki_bm25").iterdir() if path.is_dir()]
    opened = Bm25Retriever.open(settings, "fever", Path(".cache"))
    assert opened.index.search("capital of Karvenia", 1)[0].page in ("Karvenia", "Lorvik")
    assert [path for path in Path(".cache/wiki_bm25").iterdir() if path.is_dir()] == built
    by_default = settings.model_copy(update={"wiki_index_path": None})
    assert Bm25Retriever.version(by_default, "fever", Path(".cache")) == Bm25Retriever.version(
        settings, "fever", Path(".cache")
    )


def test_pages_of_ones_own_are_searched_for_the_dataset_they_were_indexed_for(project):
    pages = {"page": "Old_Man", "sentences": ["Ernest Hemingway wrote The Old Man and the Sea."]}
    Path("mine.jsonl").write_text(json.dumps(pages) + "\n")
    assert main(["index", "build", "--pages", "mine.jsonl", "--dataset", "natural_questions"]) == Exit.DONE
    settings = load_suite("configs/profile_A.yaml").profile.integrations.retrieval
    found = Bm25Retriever.open(settings, "nq_open", Path(".cache")).search(
        "who wrote the old man and the sea"
    )
    assert [passage.page for passage in found] == ["Old_Man"]
    elsewhere = Bm25Retriever.open(settings, "fever", Path(".cache")).search("capital of Karvenia", 1)
    assert elsewhere[0].page != "Old_Man"


def test_model_ids_small_local_medium_local_large_api_exist():
    """hf 7–8B, hf 13–34B, an OpenAI-compatible model."""
    models = load_suite("profile_A").models
    small, medium, large = (models[name] for name in ("small_local", "medium_local", "large_api"))
    assert (small.provider, medium.provider, large.provider) == ("hf", "hf", "openai")
    assert 7 <= small.params_b < 10 < 13 <= medium.params_b <= 34
    assert small.provider_options()["path"] == "Qwen/Qwen3-8B"
    assert SIMULATED["provider"] not in (small.provider, medium.provider)
