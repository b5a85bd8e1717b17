"""Everyday changes followed from outside the package: a task, a metric, a provider, an exporter of somebody's own.

Nothing of the suite is edited: one module, its entry points, and four YAML files. All is seen in the report. What is
promised of the bundled definition files is tried in a copy of the package, of which only those files are edited.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import pcsuite as installed
from pcsuite.config.load import bundled_configs
from support.profiles import SIMULATED, write_profile
from support.provider_server import ProviderServer

PLUGIN = '''
from pcsuite.engines.adapters.base import ModelAdapter
from pcsuite.data.export.base import HubTable, ItemExporter, Split
from pcsuite.data.items import Item
from pcsuite.evaluation.base import Answer, Evaluation, Evaluator, Parsed


class Parrot(ModelAdapter):
    """Repeats the input; politely where it is asked to play a role."""

    def generate(self, prompt, decoding, seed):
        word = prompt.strip().splitlines()[-1].rpartition(" ")[2]
        text = f"please, {word.upper()}" if "parrot" in prompt else word.lower()
        return {
            "text": text,
            "finish_reason": "stop",
            "latency_ms": 1.0,
            "usage": {"prompt_tokens": len(prompt), "completion_tokens": 2, "total_tokens": len(prompt) + 2},
        }


class Shouting(Evaluator):
    """Right if the word is in capitals; also counts how polite the answer is."""

    def evaluate(self, item, answer: Answer) -> Evaluation:
        word = item.truth["word"]
        score = float(word in answer.text)
        return Evaluation(
            Parsed(answer=answer.text), {"task_score": score, "politeness": float("please" in answer.text)}
        )

    def gold_answer(self, item):
        return item.truth["word"]

    def wrong_answer(self, item, rng):
        return item.truth["word"].lower()


class Words(ItemExporter):
    """Words of a published list, one a line."""

    name = "words"
    folders = ("wordlist",)
    hub = HubTable("words", "")
    splits = (Split("test", 12, ("test.jsonl",)),)
    written = ("test",)

    def item(self, row, split, position):
        word = row.text("word")
        return Item(word, word.lower(), {"word": word})
'''
ENTRY_POINTS = """
[pcsuite.adapters]
parrot = my_plugin:Parrot

[pcsuite.tasks]
shouting = my_plugin:Shouting

[pcsuite.exporters]
words = my_plugin:Words
"""
TASKS = {
    "shout": {
        "title": "Shouting",
        "kind": "reasoning",
        "dataset": "words",
        "split": "test",
        "instruction": "Say the word in capitals.",
        "role": "a parrot that shouts",
        "goal": "Be heard.",
        "rules": ["Only capitals."],
        "abstain": "Say nothing if there is no word.",
        "verifier_checklist": ["Is it loud?"],
        "input_label": "Word",
        "max_tokens": 8,
        "evaluator": "shouting",
        "primary_metric": "shouted",
    }
}
METRICS = {"politeness": {"label": "politeness of the answer", "range": [0, 1], "compared": ["effects"]}}
PROFILE = {
    "run": {"name": "outside", "output_dir": "outputs", "cache_dir": "cache"},
    "repro": {"seeds": {"D0": [0]}},
    "suite": {"tasks_ref": "tasks.yaml", "models_ref": "models.yaml", "metrics_ref": "metrics.yaml"},
    "selection": {
        "tasks": ["shout"],
        "models": ["polly"],
        "conditions": ["C0", "C1"],
        "decoding_regimes": ["D0"],
    },
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a package of one's own, its files and the published list that its dataset is exported from."""
    (tmp_path / "my_plugin.py").write_text(PLUGIN)
    info = tmp_path / "my_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    models = {"polly": {"provider": "parrot", "family": "birds", "size": "1B", "params_b": 1}}
    for name, content in (("tasks", TASKS), ("models", models), ("metrics", METRICS)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({"version": "1.0", name: content}))
    (tmp_path / "profile.yaml").write_text(yaml.safe_dump({"version": "1.0", **PROFILE}))
    originals = tmp_path / "originals" / "wordlist"
    originals.mkdir(parents=True)
    words = ["ANT", "BEE", "CAT", "DOG", "ELK", "FOX", "GNU", "HEN", "IBEX", "JAY", "KOI", "LYNX"]
    (originals / "test.jsonl").write_text("".join(json.dumps({"word": word}) + "\n" for word in words))
    return tmp_path


def pcsuite(project: Path, *arguments: str, status: int = 0, **variables: str) -> str:
    """What a command says, of one that fails on standard error."""
    paths = [str(project), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "pcsuite.cli", *arguments, "--config", "profile.yaml"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


EXPORT = ("export-datasets", "--from", "originals", "--cache-dir", "cache")


def test_an_exporter_is_known_to_the_command(project):
    assert "words" in pcsuite(project, "export-datasets", "--help").partition("--only")[2]
    misspelt = pcsuite(project, *EXPORT, "--only", "wrods", status=2)
    assert "unknown dataset 'wrods' (did you mean 'words'?)" in misspelt
    assert "words_test.jsonl       12 records" in pcsuite(project, *EXPORT, "--only", "words")
    assert "nothing is missing" in pcsuite(project, *EXPORT, "--missing")


def test_a_task_a_metric_and_a_provider_reach_the_report(project):
    pcsuite(project, *EXPORT, "--missing")
    pcsuite(project, "run", "--quiet")
    pcsuite(project, "report")
    log = (project / "outputs" / "runs" / "outside.jsonl").read_text()
    rows = [json.loads(line) for line in log.splitlines()]
    assert len(rows) == 24
    assert {row["model"]["provider"] for row in rows} == {"parrot"}
    effects = {
        (row["condition"], row["metric"]): float(row["delta"])
        for row in csv.DictReader((project / "outputs" / "tables" / "effects.csv").read_text().splitlines())
    }
    # Bare, the parrot repeats in small letters and rudely; in its role it shouts and says please.
    assert effects["C1", "score"] == effects["C1", "politeness"] == 1.0
    page = (project / "outputs" / "reports" / "outside" / "index.html").read_text()
    assert "politeness of the answer" in page
    assert "Shouting" in page
    assert "polly" in page


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    """A folder with a copy of the package, which commands run there use, and its definition files in it."""
    package = Path(installed.__file__).parent
    shutil.copytree(package, tmp_path / "pcsuite", ignore=shutil.ignore_patterns("__pycache__", "configs"))
    shutil.copytree(bundled_configs(), tmp_path / "pcsuite" / "configs")
    return tmp_path


def add_definition(fork: Path, file: str, kind: str, **entries: object) -> None:
    """Add entries to one of the copy's definition files."""
    path = fork / "pcsuite" / "configs" / file
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    content[kind] |= entries
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def logged_rows(fork: Path) -> list[dict]:
    return [json.loads(line) for line in (fork / "outputs" / "runs" / "t.jsonl").read_text().splitlines()]


def test_a_provider_of_a_known_wire_is_its_entry_in_the_providers_file(fork):
    acme = {
        "base_url": "https://api.acme.example/v1",
        "url_env": "ACME_BASE_URL",
        "key_env": "ACME_API_KEY",
        "knows": ["json_schema"],
    }
    add_definition(fork, "providers_v1.yaml", "providers", acme=acme)
    profile = write_profile(fork, conditions=("C0",), regimes=("D0",), items=2)
    profile.rename(fork / "profile.yaml")
    with ProviderServer(key="acme-key-0123456789") as server:
        address = {"ACME_BASE_URL": f"{server.origin}/v1", "ACME_API_KEY": "acme-key-0123456789"}
        pcsuite(fork, "run", "--quiet", "--model", "acme/anvil-7b", **address)
    rows = logged_rows(fork)
    assert [row["generation"]["text"] for row in rows] == ["Paris", "Paris"]
    assert {(row["model"]["provider"], row["model"]["size"]) for row in rows} == {("acme", "7B")}


def test_an_operator_in_the_operators_file_is_known_to_scores_verdicts_and_the_search(fork):
    tone = {"type": "rule", "template": "Tone:\n- Calm.", "simulated": {"effect": 60.0}}
    tone |= {"structure": "rules", "searched": True}
    add_definition(fork, "operators_v1.yaml", "operators", TONE=tone)
    add_definition(fork, "conditions_v1.yaml", "conditions", CALM=["TONE"])
    # Without the operator every answer is wrong, with it every answer is right: the logits are -30 and +30.
    model = SIMULATED | {"base_accuracy": 1e-13, "json_validity": 1 - 1e-13, "item_difficulty_sd": 0.0}
    profile = write_profile(fork, {"sim": model}, conditions=("C0", "CALM"), regimes=("D0",), items=6)
    profile.rename(fork / "profile.yaml")
    pcsuite(fork, "run", "--quiet")
    scores = {(row["condition"]["id"], row["metrics"]["task_score"]) for row in logged_rows(fork)}
    assert scores == {("C0", 0.0), ("CALM", 1.0)}
    manifest = json.loads((fork / "outputs" / "runs" / "t.manifest.json").read_text())
    assert manifest["operator_work"] == {"TONE": "rules"}
    pcsuite(fork, "report")
    with (fork / "outputs" / "tables" / "hypotheses.csv").open(encoding="utf-8", newline="") as table:
        first = next(csv.DictReader(table))
    assert (first["id"], first["verdict"], first["effect"]) == ("H1", "supported", "1")
    assert first["evidence"].startswith("TONE supported: score +1.000")
    asked = (
        "from pcsuite.config.load import load_suite; print(load_suite('quickstart').searched_operators()[-1])"
    )
    done = subprocess.run([sys.executable, "-c", asked], cwd=fork, capture_output=True, text=True, check=True)
    assert done.stdout == "TONE\n"
