"""Section "Commands" of the specification: every command as it is written there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pcsuite.cli import main
from pcsuite.config.bundled import bundled_tasks
from pcsuite.config.spellings import DATASETS
from pcsuite.data.export import EXPORTERS
from pcsuite.data.export.pipeline import exported_as, exported_datasets
from pcsuite.errors import DataError, Exit
from pcsuite.logging.log import iter_newest_rows
from support.profiles import SIMULATED, write_profile

ROOT = Path(__file__).resolve().parents[2]


def rows_of(folder, name="t"):
    return list(iter_newest_rows(folder / "outputs" / "runs" / f"{name}.jsonl"))


def test_python_m_pcsuite_cli_run_promptbench_helm_report_config(tmp_path):
    """``python -m pcsuite.cli run|promptbench|helm|report --config configs/profile_A.yaml``, in a process of its own."""
    profile = write_profile(
        tmp_path,
        tasks=("csqa_json",),
        conditions=("C0", "C2"),
        regimes=("D0",),
        items=2,
        integrations={
            "promptbench": {"tasks": ["csqa_json"], "conditions_subset": ["C2"], "attack_types": ["reorder"]}
        },
    )
    for command in ("run", "promptbench", "report"):
        more = ["--quiet"] if command != "report" else ["--no-plots"]
        words = [sys.executable, "-m", "pcsuite.cli", command, "--config", str(profile), *more]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == Exit.DONE, done.stderr
    assert {row.perturbation.type for row in rows_of(tmp_path)} == {None, "reorder"}
    assert list((tmp_path / "outputs").rglob("index.html"))
    # HELM's own environment is not there in every test: its command says so in one line, and how to install it.
    words = [sys.executable, "-m", "pcsuite.cli", "helm", "--config", str(profile), "--import-only", "none"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.BAD_INPUT
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--task", "gsm8k", "--model", "other"], ["gsm8k", "--models", "other"]])
def test_run_task_takes_the_task_by_flag_or_in_first_place(tmp_path, words):
    """``run-task --config … --task gsm8k --model medium_local`` (the task also positional)."""
    models = {"sim": SIMULATED, "other": SIMULATED}
    profile = write_profile(tmp_path, models, tasks=("agnews_json", "gsm8k"), conditions=("C0",), items=2)
    assert main(["run-task", "--config", str(profile), "--quiet", *words]) == Exit.DONE
    assert {(row.task.id, row.model.id) for row in rows_of(tmp_path)} == {("gsm8k", "other")}


def test_run_task_that_names_two_tasks_or_none_is_refused(tmp_path, capsys):
    profile = write_profile(tmp_path, tasks=("agnews_json", "gsm8k"), conditions=("C0",))
    assert main(["run-task", "--config", str(profile)]) == Exit.BAD_INPUT
    assert "name one task" in capsys.readouterr().err
    assert main(["run-task", "gsm8k", "--task", "agnews_json", "--config", str(profile)]) == Exit.BAD_INPUT
    assert "two tasks" in capsys.readouterr().err


SPELLED = {
    "conll": "conll2003", "ag": "ag_news", "gsm8k": "gsm8k", "csqa": "commonsense_qa", "truthfulqa": "truthful_qa",
    "truthfulqa_mc": "truthful_qa_mc", "fever": "fever", "agnews": "ag_news", "commonsenseqa": "commonsense_qa",
    "truthful_qa_mc": "truthful_qa_mc",
}  # fmt: skip


def test_export_hf_datasets_takes_every_name_of_a_dataset_and_every_task_id():
    """``scripts/export_hf_datasets.py --cache-dir .cache --only conll,ag,…``; every dataset and task id."""
    assert {name: exported_as(name) for name in SPELLED} == SPELLED
    for name in EXPORTERS:
        assert exported_as(name) == name
    for name, task in bundled_tasks().items():
        if task.dataset in EXPORTERS:
            assert exported_as(name) == task.dataset
    with pytest.raises(DataError, match=r"unknown dataset 'conl' \(did you mean 'conll'"):
        exported_as("conl")


def test_export_hf_datasets_writes_what_only_names(tmp_path):
    originals = tmp_path / "originals" / "gsm8k"
    originals.mkdir(parents=True)
    for split in ("train", "test"):
        (originals / f"{split}.jsonl").write_text(
            "".join(f'{{"question": "{split} {n}+1?", "answer": "so\\n#### {n + 1}"}}\n' for n in range(1200))
        )
    words = [sys.executable, str(ROOT / "scripts" / "export_hf_datasets.py"), "--cache-dir", ".cache"]
    words += ["--only", "gsm", "--from", "originals", "--allow-partial"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.DONE, done.stderr
    assert (tmp_path / ".cache" / "datasets" / "gsm8k_test.jsonl").is_file()
    assert exported_datasets(tmp_path / ".cache") == {"gsm8k"}


def test_download_datasets_takes_the_same_names(tmp_path):
    """``scripts/download_datasets.sh`` with the same names."""
    script = ROOT / "scripts" / "download_datasets.sh"
    text = script.read_text(encoding="utf-8")
    cases = re.findall(r"^ {4}([\w| ]+)\) echo (\w+) ;;$", text, re.MULTILINE)
    folders = {name.strip(): folder for names, folder in cases for name in names.split("|")}
    wanted = {*SPELLED, *(name for names in DATASETS.values() for name in names)}
    wanted |= {name for name, task in bundled_tasks().items() if task.dataset in EXPORTERS}
    for name in wanted:
        assert folders.get(name) in EXPORTERS.get(exported_as(name)).folders, name
    words = ["bash", str(script), "--dry-run", "--only", "csqa,agnews_json,truthful_qa_mc"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    fetched = {line.split()[2].split("/")[0] for line in done.stdout.splitlines() if line.startswith("would")}
    assert fetched == {"commonsenseqa", "ag_news", "truthfulqa"}
    assert list(tmp_path.iterdir()) == []


def test_build_wiki_index_writes_where_loops_read(tmp_path):
    """``scripts/build_wiki_index.py``."""
    words = [sys.executable, str(ROOT / "scripts" / "build_wiki_index.py")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / ".cache" / "wiki_bm25").is_dir()


@pytest.mark.parametrize("letter", ["A", "B"])
def test_run_profile_exports_runs_perturbs_reports_and_goes_on(tmp_path, letter):
    """``scripts/run_profile_A.sh``, ``_B.sh``: export where needed, run, promptbench, report; resumable; arguments on.

    On the simulated model; the profile's own models and conditions are the real ones.
    """
    script = ROOT / "scripts" / f"run_profile_{letter}.sh"
    out = ["--output-dir", str(tmp_path / "outputs"), "--set", f"run.cache_dir={tmp_path / 'cache'}"]
    few = ["--limit", "1", "--models", "simulated", "--tasks", "csqa_json,gsm8k", "--conditions", "C0,C2,C8"]
    words = ["bash", str(script), "--quiet", *few, *out, "--set", "repro.seeds_per_task.default=1"]
    words += ["--set", "repro.seeds_per_task.gsm8k=2"]
    environment = {
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "src"),
        "PATH": "/usr/bin:/bin",
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "stood in for by bundled samples" in done.stderr
    assert "not applicable: C8" in done.stdout
    rows = rows_of(tmp_path, f"profile_{letter}")
    assert {row.task.id for row in rows if row.perturbation.type} == {"csqa_json"}
    assert {row.perturbation.type for row in rows} > {None, "injection", "reorder", "distractor"}
    assert list((tmp_path / "outputs").rglob("index.html"))
    again = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert again.returncode == 0, again.stderr
    assert len(rows_of(tmp_path, f"profile_{letter}")) == len(rows)
    assert f"profile_{letter}: 0 rows" in again.stdout


def test_install_road_needs_no_further_extra():
    """``pip install -e ".[hf,eval]"``, then export, run and report of profile A."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

    def of(extra):
        listed = re.search(rf"^{extra} = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL)[1]
        return {re.match(r"[\w.-]+", entry)[0].lower() for entry in re.findall(r'"([^"]+)"', listed)}

    road = of("hf") | of("eval")
    assert of("stats") <= road  # the report
    assert of("hub") <= road  # the export
    assert of("retrieval") <= road  # C7 on FEVER
    assert of("outlines") <= road  # C6 on a transformers model
    assert {"rouge-score", "sacrebleu"} <= road  # TruthfulQA
    rehearsal = re.search(r"^hf = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL)[1]
    assert '"prompt-control-suite[local]"' in rehearsal  # --models smollm2-135m in place of the big ones
