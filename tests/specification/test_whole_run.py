"""The documents' commands in their order, in a fresh folder with their own files; then what they promise is there.

Only what a machine without their models needs is changed: the three models are simulated, and two items are asked of each
task.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pcsuite.cli import main
from pcsuite.errors import Exit
from support.specification_blocks import SEEDS, SPECIFICATION, blocks
from support.specification_modules import execute
from support.specification_runs import write_files

BLOCKS = [block for block in blocks() if block.document == SPECIFICATION]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.subprocess,
    pytest.mark.skipif(not BLOCKS, reason=f"the documents are not in {SEEDS}"),
]
RUN = "profile_A_2026-02-22"
SIZES = {"small_local": 7, "medium_local": 13, "large_api": None}


def commands() -> list[str]:
    """Every command of the suite that the specification gives, in its order, each once."""
    lines = [
        line
        for block in BLOCKS
        if block.kind == "shell"
        for line in block.text.replace("\\\n", " ").splitlines()
        if "pcsuite.cli" in line and line.endswith((".yaml", "medium_local"))
    ]
    return list(dict.fromkeys(lines))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which all the commands were run, and what each of them said."""
    root = tmp_path_factory.mktemp("specification")
    write_files(root)
    models = yaml.safe_load((root / "configs" / "models_v1.yaml").read_text(encoding="utf-8"))
    for name, entry in models["models"].items():
        kept = {key: entry[key] for key in ("family", "size")}
        models["models"][name] = {**kept, "provider": "simulated"} | (
            {"params_b": SIZES[name]} if SIZES[name] else {}
        )
    (root / "configs" / "models_v1.yaml").write_text(yaml.safe_dump(models), encoding="utf-8")
    profile = root / "configs" / "profile_A.yaml"
    text = profile.read_text(encoding="utf-8")
    profile.write_text(re.sub(r"max_items_per_task: \d+", "max_items_per_task: 2", text), encoding="utf-8")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PCS_INTEGRATIONS_DIR": str(root / "none")}
    said = {}
    for command in commands():
        line = command.replace("python -m", f"{sys.executable} -m").replace("D:/", f"{root}/")
        done = subprocess.run(
            ["bash", "-c", line], cwd=root, env=environment, capture_output=True, text=True, check=False
        )
        said[command] = (done.returncode, done.stdout + done.stderr)
    (root / "said.yaml").write_text(yaml.safe_dump(said), encoding="utf-8")
    return root


@pytest.fixture
def said(folder):
    return yaml.unsafe_load((folder / "said.yaml").read_text(encoding="utf-8"))


def test_every_command_runs(said):
    assert len(said) == 6
    for command, (status, words) in said.items():
        if " helm " in command:  # neither the tool nor its files are here: one line that says what to do
            assert status == Exit.BAD_INPUT
            assert "pcsuite integrations install helm" in words or "integrations.helm.data_dir" in words, (
                words
            )
        else:
            assert status == Exit.DONE, (command, words[-2000:])


def test_every_file_that_is_named_is_there(folder):
    for block in BLOCKS:
        name = block.text.split()[0]
        if block.kind != "path" or name.startswith(".cache/datasets"):
            continue
        name = name if "/" in name else f"outputs/plots/{name}"
        pattern = re.sub(r"<\w+>|pid\d+_\d+", "*", name)
        base = (
            folder / "pcsuite_cache"
            if "cache_stats" in name and not (folder / ".cache" / "cache_stats").is_dir()
            else folder
        )
        assert list(base.glob(pattern)) or list(folder.glob(pattern)), pattern


def test_listed_seeds_are_run_and_conditions_differ(folder):
    import duckdb

    runs = folder / "outputs" / "tables" / "runs.parquet"
    counted = duckdb.sql(
        f"select condition_id, count(distinct seed) from '{runs}' where decoding_id = 'D1' and task_id = 'gsm8k'"
        " and kind = 'main' and perturbation_type is null group by all"
    ).fetchall()
    assert dict(counted) == dict.fromkeys(("C0", "C1", "C2", "C3", "C4", "C5", "C6"), 10)
    texts = duckdb.sql(
        f"select count(distinct prompt_hash), count(distinct condition_id) from '{runs}' where task_id = 'fever_json'"
        " and model_id = 'small_local' and kind = 'main' and perturbation_type is null and item_id ="
        f" (select min(item_id) from '{runs}' where task_id = 'fever_json') and condition_id <> 'C6'"
    ).fetchall()
    assert texts == [(7, 7)]
    searched = duckdb.sql(f"select min(tool_calls) from '{runs}' where condition_id = 'C7'").fetchall()
    assert searched == [(1,)]


def test_their_own_plots_and_aggregation_run_on_our_files(folder, monkeypatch):
    pytest.importorskip("pandas")
    copied = folder / "copy"
    shutil.copytree(folder / "outputs", copied / "outputs")  # links become files of their own
    shutil.copytree(folder / "configs", copied / "configs")
    monkeypatch.chdir(copied)
    by_line = {block.line: block for block in BLOCKS}
    execute(by_line[4276])["make_plots"]("outputs", RUN)
    drawn = sorted(Path("outputs/plots").glob("perf_condition_ladder__gsm8k__*__D0.png"))
    assert [path.name for path in drawn] == [
        f"perf_condition_ladder__gsm8k__{name}__D0.png" for name in sorted(SIZES)
    ]
    # Transcripts of loops hold lists of mixed types, which the Parquet writer behind their code does not take.
    log = Path("outputs/runs") / f"{RUN}.jsonl"
    closed_rows = [
        line for line in log.read_text().splitlines() if '"agnews_json"' in line or '"csqa_json"' in line
    ]
    log.write_text(
        "\n".join(line for line in closed_rows if '"kind":"main"' in line and '"type":null' in line) + "\n"
    )
    assert execute(by_line[5286])["aggregate_run"]("configs/profile_A.yaml") == (RUN, "outputs")
    import pandas as pd

    theirs = pd.read_csv("outputs/tables/entropy_by_condition.csv")
    ours = pd.read_csv(folder / "outputs" / "tables" / "entropy_by_condition.csv")
    keys = ["task.id", "model.id", "condition.id", "decoding.id"]
    both = theirs.merge(ours, on=keys, suffixes=("", "_ours"))
    closed = both[both["task.id"].isin(["agnews_json", "csqa_json"])]
    assert len(closed) == 2 * 3 * 7
    # They leave out what could not be read; where all was read the plain entropies are the same.
    whole = closed[closed["readable"] == 1]
    assert len(whole) >= 2 * 3  # under the hard constraint everything is
    assert (whole["metrics.entropy_cat"] - whole["metrics.entropy_cat_ours"]).abs().max() < 1e-9


def test_one_command_does_the_whole_protocol_and_prints_its_checklist(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PCS_INTEGRATIONS_DIR", str(tmp_path / "none"))
    words = [
        "--config",
        "profile_A",
        "--models",
        "simulated",
        "--limit",
        "2",
        "--tasks",
        "gsm8k,truthfulqa_gen,fever_json",
    ]
    assert main(["run", "--all", "--quiet", *words]) == Exit.DONE
    lines = capsys.readouterr().out.partition("what the protocol promises\n")[2].splitlines()
    missing = [line.partition(":")[0].removeprefix("[ ] ") for line in lines if line.startswith("[ ]")]
    assert missing == [
        "table of worst case over perturbations",
        "table of loss by kind of perturbation",
        "figure of effects by model size",
        "figure of loss by kind of perturbation",
        "figure of worst case over perturbations",
        "promptbench",
        "helm",
        "compiled prompt (C8)",
    ]
    assert sum(line.startswith("[x] verdict ") for line in lines) == 15
    assert any(line.startswith("[x] contradiction rate") for line in lines)
    assert any(line.startswith("[x] tie-breaks by verifier score") for line in lines)
