"""Kills: commands are killed (SIGKILL) at random moments, again and again, and must lose and double nothing.

    python benchmarks/kill_campaign.py [--kills 1000] [--commands run,report,…] [--seed 1]

Each command first runs undisturbed. Then, in a folder of its own, it is started and killed until it has had its share
of kills; a command that ends before its kill begins anew in a fresh folder. After every kill what was there before must
still be there, once. At last the command runs to its end, and must have made what the undisturbed one made.

Commands that this version does not have are passed over by name.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pcsuite._util.changes import settle_changes
from pcsuite.cli import COMMANDS, main
from pcsuite.logging.audit import DOUBLED, audit_log
from pcsuite.logging.log import RunPaths, iter_rows, newest_rows
from pcsuite.logging.row import encode_row
from pcsuite.logging.segments import Beside, log_exists
from pcsuite.verifier.store import RESULTS

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))  # servers and judged tasks are made there

MODEL = {
    "provider": "simulated",
    "family": "simulated",
    "size": "7B",
    "params_b": 7,
    "base_accuracy": 0.4,
    "operator_effects": {"SCHEMA": 1.5, "ROLE": -1.0, "VERIFIER": 0.8},
    "latency_ms": 8,
}
State = dict[str, Any]
"""What must not be lost, by name."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A command and what it makes."""

    command: str
    prepare: Callable[[Path], list[str]]
    """Fill a folder and return the command's words."""
    state: Callable[[Path], State]
    """What is there now; raises where something is there twice or is damaged."""
    grows: bool = True
    """Whether everything that was there once stays."""
    ended: tuple[int, ...] = (0,)
    """Exit statuses of a whole run."""


def write_profile(folder: Path, items: int = 12) -> Path:
    """A small profile on a simulated model that takes its time, with a log that is rotated."""
    (folder / "models.yaml").write_text(yaml.safe_dump({"version": "1.0", "models": {"sim": MODEL}}))
    profile = {
        "version": "1.0",
        "run": {
            "name": "t",
            "output_dir": str(folder / "outputs"),
            "cache_dir": str(folder / "cache"),
            "rotate_log_mb": 0.02,
        },
        "repro": {
            "max_inflight": 2,
            "seeds": {"D0": [0], "D1": [1, 2]},
            "seeds_per_task": {"default": 2},
        },
        "suite": {"models_ref": "models.yaml"},
        "selection": {
            "tasks": ["agnews_json"],
            "models": ["sim"],
            "conditions": ["C0", "C3"],
            "decoding_regimes": ["D0", "D1"],
        },
        "limits": {"max_items_per_task": items},
    }
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump(profile, sort_keys=False))
    return path


def log_state(paths: RunPaths) -> State:
    """Finished rows by run id; raises where a line is foreign or altered, or a row is there twice."""
    if not paths.log.parent.exists() or not any(paths.log.parent.glob(f"{paths.log.stem}[.~]*jsonl*")):
        return {}
    audit = audit_log(paths)
    for kind, count in audit.counts.items():
        if count and not (kind == "torn" and count == 1):  # the last line may be, and is cut off on resume
            raise AssertionError(f"{count} {kind}: {audit.damaged[kind]}")
    assert not audit.broken_files, audit.broken_files
    assert audit.counts[DOUBLED] == 0
    return {
        row.run_id: (row.generation.text, row.metrics) for row in newest_rows(paths.log) if not row.errors
    }


def run_log(folder: Path) -> RunPaths:
    """The files of the profile's run."""
    return RunPaths.of(folder / "outputs", "t")


def prepare_run(folder: Path) -> list[str]:
    """``run`` on a fresh profile."""
    return ["run", "--quiet", "--no-cache", "--config", str(write_profile(folder))]


def prepare_promptbench(folder: Path) -> list[str]:
    """``promptbench`` into a fresh log."""
    path = write_profile(folder, 4)
    chosen = [
        "--tasks",
        "agnews_json",
        "--conditions",
        "C0,C3",
        "--attacks",
        "reorder,distractor",
        "--set",
        "integrations.promptbench.variants=2",
    ]
    return ["promptbench", "--quiet", "--no-cache", "--no-tables", "--config", str(path), *chosen]


def prepare_optimize(folder: Path) -> list[str]:
    """``optimize`` by blocks."""
    path = write_profile(folder)
    chosen = [
        "--task",
        "agnews_json",
        "--model",
        "sim",
        "--method",
        "blocks",
        "--candidates",
        "5",
        "--limit",
        "5",
    ]
    return ["optimize", "--quiet", "--no-cache", "--seed", "3", "--config", str(path), *chosen]


def optimize_state(folder: Path) -> State:
    """Rows of the candidates' log, and the frozen prompt once it is there."""
    log = folder / "outputs" / "optimization" / "agnews_json__sim.jsonl"
    state = log_state(RunPaths(log, log.with_suffix(".prompts.z")))
    for frozen in (folder / "outputs" / "compiled").glob("*.json"):
        state[frozen.name] = json.loads(frozen.read_text())["hash"]
    return state


def finished_run(folder: Path, items: int = 8) -> Path:
    """A profile whose run is done."""
    path = write_profile(folder, items)
    assert main(["run", "--quiet", "--no-cache", "--config", str(path)]) == 0
    return path


def prepare_report(folder: Path) -> list[str]:
    """``report`` on a finished run."""
    return ["report", "--no-plots", "--config", str(finished_run(folder))]


def report_state(folder: Path) -> State:
    """The log's rows, and every table that is there whole."""
    state = log_state(run_log(folder))
    for table in sorted((folder / "outputs" / "tables").glob("*.csv")):
        text = table.read_text()
        assert not text or text.endswith("\n"), f"{table.name} is cut off"
    for page in (folder / "outputs" / "reports").glob("**/index.html"):
        assert page.read_text().rstrip().endswith("</html>"), "the page is cut off"
    return state


def prepare_rescore(folder: Path) -> list[str]:
    """``rescore`` on a log whose scores are out of date."""
    path = finished_run(folder, 12)
    paths = run_log(folder)
    rows = list(iter_rows(paths.log))
    for file in paths.log.parent.glob("t[.~]*jsonl*"):
        file.unlink()
    stale = []
    for row in rows:
        row.metrics["task_score"] = 0.123
        stale.append(encode_row(row))
    paths.log.write_bytes(b"".join(stale))
    return ["rescore", "--config", str(path)]


def rescore_state(folder: Path) -> State:
    """Answers, which scoring leaves alone; scores are compared at the end."""
    return {run_id: text for run_id, (text, _) in log_state(run_log(folder)).items()}


def prepare_verify_all(folder: Path) -> list[str]:
    """``verify-all`` on the bundled evals."""
    main(["verify-all", str(folder / "evals"), "--copy-samples", "--no-save"])
    for extra in sorted((folder / "evals").iterdir())[5:]:
        shutil.rmtree(extra) if extra.is_dir() else extra.unlink()
    return ["verify-all", str(folder / "evals")]


def verify_state(folder: Path) -> State:
    """Every saved iteration, each of which is there as a whole."""
    state = {}
    for iteration in sorted(folder.glob("evals/*/results/iteration-*")):
        document = json.loads((iteration / RESULTS).read_text())
        state[f"{iteration.parent.parent.name}/{iteration.name}"] = document["metrics"]
    return state


def prepare_import(folder: Path) -> list[str]:
    """``import`` of a log that lm-eval could have written."""
    source = folder / "samples_sums_2026-01-01T00-00-00.000000.jsonl"
    lines = []
    for number in range(3000):
        lines.append(
            json.dumps(
                {
                    "doc_id": number,
                    "doc": {"question": f"{number} + 1?"},
                    "target": str(number + 1),
                    "arguments": [[f"What is {number} + 1?", {"until": ["\n"]}]],
                    "resps": [[str(number + 1)]],
                    "filtered_resps": [str(number + 1)],
                    "filter": "none",
                    "metrics": ["exact_match"],
                    "exact_match": float(number % 2),
                }
            )
        )
    source.write_text("\n".join(lines) + "\n")
    words = [
        "--from",
        "lm-eval",
        str(source),
        "--name",
        "t",
        "--model",
        "m",
        "--output-dir",
        str(folder / "outputs"),
    ]
    return ["import", *words]


def prepare_ablate(folder: Path, *more: str) -> list[str]:
    """``ablate`` of a prompt of four parts on a small table, with a simulated model."""
    words = write_prompt_and_table(folder)
    given = ["--margin", "0.1", "--effect", "rules=2", *more]
    return ["ablate", *words, *given, "--config", str(write_profile(folder))]


def prepare_check(folder: Path) -> list[str]:
    """``check`` of a prompt against another file."""
    words = write_prompt_and_table(folder)
    (folder / "before.md").write_text((folder / "prompt.md").read_text().replace("Be kind.", "Be stern."))
    more = ["--baseline", str(folder / "before.md"), "--name", "t"]
    return ["check", *words, *more, "--config", str(write_profile(folder))]


def prepare_groups(folder: Path) -> list[str]:
    """``ablate`` by groups of blocks, of which there have to be some."""
    words = prepare_ablate(folder, "--design", "groups")
    rules = "".join(f"- Rule {number} holds.\n" for number in range(8))
    with (folder / "prompt.md").open("a") as stream:
        stream.write(f"\n# More rules\n{rules}")
    return words


def prepare_verifier_pass(folder: Path) -> list[str]:
    """``verifier-pass`` over a finished run."""
    return ["verifier-pass", "--quiet", "--no-cache", "--config", str(finished_run(folder))]


def prepare_bundle(folder: Path) -> list[str]:
    """``view --bundle`` of a finished run over an earlier bundle."""
    profile = finished_run(folder)
    words = ["view", "t", "--bundle", str(folder / "bundle"), "--config", str(profile)]
    assert main(words) == 0
    return words


def bundle_state(folder: Path) -> State:
    """The rows, and the pages of the bundle, each whole."""
    pages = sorted((folder / "bundle").rglob("*.html"))
    for page in pages:
        assert page.read_text().rstrip().endswith("</html>"), f"{page.name} is cut off"
    return log_state(run_log(folder)) | {str(page.relative_to(folder)): True for page in pages}


def prepare_init_task(folder: Path) -> list[str]:
    """``init-task`` over files of an earlier one."""
    write_prompt_and_table(folder)
    words = [
        "init-task",
        "queues",
        "--data",
        str(folder / "tickets.csv"),
        "--input",
        "text",
        "--answer",
        "queue",
    ]
    words += ["--kind", "classification", "--out", str(folder / "made"), "--cache-dir", str(folder / "cache")]
    assert main(words) == 0
    return [*words, "--overwrite"]


def init_task_state(folder: Path) -> State:
    """The files of the task, each as it was: the table is the same."""
    settle_changes(folder / "made" / ".queues.changes", root=folder)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for place in (folder / "made", folder / "cache" / "datasets")
        for path in place.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def write_prompt_and_table(folder: Path) -> list[str]:
    """A prompt of four parts and a table of sixty rows; returns the words that name them."""
    parts = (
        "# Role\nYou are a clerk.",
        "# Rules\nName the queue.",
        "# Tone\nBe kind.",
        "# Ticket\n{{ text }}",
    )
    (folder / "prompt.md").write_text("\n\n".join(parts) + "\n")
    rows = [f"ticket {number},{('billing', 'delivery')[number % 2]}" for number in range(60)]
    (folder / "tickets.csv").write_text("text,queue\n" + "\n".join(rows) + "\n")
    return [
        str(folder / "prompt.md"), "--data", str(folder / "tickets.csv"), "--answer", "queue", "--model", "simulated",
        "--output-dir", str(folder / "outputs"), "--quiet", "--no-cache",
    ]  # fmt: skip


def any_logs_state(folder: Path) -> State:
    """Rows of all logs below the output folder, whatever they are called."""
    state: State = {}
    for log in sorted((folder / "outputs").glob("**/runs/*.jsonl")):
        if "~" not in log.name and not log.name.endswith(".spent.jsonl"):
            state |= log_state(RunPaths(log, log.with_suffix(".prompts.z")))
    return state


def ablate_state(folder: Path) -> State:
    """Rows of all logs; pages, pictures and the trimmed prompt are whole where they are there."""
    for page in folder.glob("outputs/**/ablation.html"):
        assert page.read_text().rstrip().endswith("</html>"), "the page is cut off"
    for document in folder.glob("outputs/**/ablation.json"):
        json.loads(document.read_text())
    return any_logs_state(folder)


AGENT = """
import hashlib, json, sys, time
from pathlib import Path


def answer(question):
    here = Path(question["files"]["AGENTS.md"]).parent if question["files"] else Path.cwd()
    rules = (here / "AGENTS.md").read_text() if (here / "AGENTS.md").exists() else ""
    (here / "made").mkdir()
    (here / "made" / "answer.txt").write_text(question["item"]["task"])
    time.sleep(0.02)
    lucky = hashlib.sha256((rules + question["item"]["task"]).encode()).digest()[0] < 128 + 100 * ("kind" in rules)
    return {"output": "yes" if lucky else "no", "steps": 2, "loaded": ["AGENTS.md"], "transcript": [{"tool": "write"}]}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
"""


def prepare_agent(folder: Path, *more: str) -> list[str]:
    """``ablate`` of an agent's rules: every call is a process of its own in a copy of a folder."""
    project = folder / "project"
    (project / "deep").mkdir(parents=True)
    (project / "AGENTS.md").write_text("- Be kind.\n- Be brief.\n- Ask nobody.\n")
    (project / "deep" / "big").write_bytes(b"x" * 300_000)
    (folder / "agent.py").write_text(AGENT)
    (folder / "tasks.csv").write_text("task,right\n" + "".join(f"Do {n},yes\n" for n in range(14)))
    return [
        "ablate", str(project / "AGENTS.md"), "--in", str(project),
        "--target", f"{sys.executable} -S {folder / 'agent.py'}", *more,
        "--model-option", f"copies_in={folder / 'copies'}", "--data", str(folder / "tasks.csv"), "--answer", "right",
        "--check", "test -f made/answer.txt", "--reach", "off", "--design", "leave-one-out", "--no-trim",
        "--margin", "0.4", "--name", "agent", "--quiet", "--output-dir", str(folder / "outputs"),
    ]  # fmt: skip


def prepare_agent_worker(folder: Path) -> list[str]:
    """The same with workers, which are asked line by line."""
    return prepare_agent(folder, "--worker")


def agent_state(folder: Path) -> State:
    """Rows of all logs; of the agents of a command that was killed none still runs after a moment."""
    end = time.monotonic() + 20
    while left := running_below(folder):
        assert time.monotonic() < end, f"processes are left behind: {left}"
        time.sleep(0.02)
    return ablate_state(folder)


def finished_agent_state(folder: Path) -> State:
    """The answers of a command that came to its end, each task once under each arm, and no copy of the folder left.

    Rows go by arm and task: their ids have the agent's own place in them, which is another in every folder.
    """
    agent_state(folder)
    left = [str(path) for path in (folder / "copies").rglob("*") if path.name == "AGENTS.md"]
    assert not left, f"copies of the folder are left behind: {left[:3]}"
    (log,) = (path for path in (folder / "outputs").glob("**/runs/agent.jsonl"))
    rows = newest_rows(log)
    made = {
        f"{row.condition.id} {row.task.item_id}": (row.generation.text, row.metrics["task_score"])
        for row in rows
    }
    assert len(made) == len(rows) == AGENT_ROWS, f"{len(rows)} rows, {len(made)} of them different"
    return made


AGENT_ROWS = 14 * 5
"""Fourteen tasks under the whole rules, the same again, and without each of the three."""


def running_below(folder: Path) -> list[str]:
    """Processes other than this one whose words name a folder; what has ended and was not waited for is none."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if str(folder) + "/" in words and int(entry.name) != os.getpid():
                found.append(words)
    return found


def prepare_overwrite(folder: Path) -> list[str]:
    """``run --overwrite`` over a finished run in many parts."""
    path = finished_run(folder, 12)
    return ["run", "--quiet", "--no-cache", "--overwrite", "--config", str(path)]


def overwrite_state(folder: Path) -> State:
    """Rows by log and id: the finished run is whole under one name, and no log mixes two runs."""
    rows = {}
    log_exists(run_log(folder).log)  # settles what was broken off, as every command does
    for log in sorted((folder / "outputs" / "runs").glob("t*.jsonl")):
        if "~" not in log.name and not log.name.endswith(".spent.jsonl"):
            rows[log.name] = log_state(RunPaths.beside(log))
    counts = {len(log) for log in rows.values()}
    assert FINISHED in counts, f"the finished run is in no log: {counts}"
    merged: State = {}
    for log in rows.values():
        merged |= log
    return merged


FINISHED = 12 * 2 * 3
"""Rows of the profile: twelve items, two conditions, one greedy and two sampled answers."""


def prepare_repair(folder: Path) -> list[str]:
    """``log check --repair`` of a log with a part that somebody scribbled over."""
    finished_run(folder, 12)
    paths = run_log(folder)
    with paths.log.open("ab") as stream:
        stream.write(b"what is this?\n")
    return ["log", "check", str(paths.log), "--repair"]


def repair_state(folder: Path) -> State:
    """Sound rows of the log; the scribble is there or is not, and nothing else is wrong."""
    audit = audit_log(run_log(folder))
    assert audit.counts["altered"] == audit.counts["doubled"] == audit.counts["torn"] == 0, audit.counts
    assert audit.counts["foreign"] <= 1
    assert not audit.prompts_missing
    assert audit.rows == FINISHED, f"{audit.rows} rows"
    return {}


def prepare_judge(folder: Path) -> list[str]:
    """``judge check`` of a judged run with a table of labels."""
    from support.judged import fill_in, write_judged_profile

    path = write_judged_profile(folder)
    assert main(["run", "--quiet", "--no-cache", "--config", str(path)]) == 0
    table = folder / "labels.csv"
    assert main(["judge", "sample", "--config", str(path), "--items", "10", "--out", str(table)]) == 0
    fill_in(table)
    return ["judge", "check", "--quiet", "--no-cache", "--config", str(path), "--labels", str(table)]


def judge_state(folder: Path) -> State:
    """Rows, labels once they are kept, and what was found about the judge as a whole."""
    paths = run_log(folder)
    state = log_state(paths)
    if (labels := Beside.LABELS.of(paths.log)).exists():
        for line in labels.read_bytes().split(b"\n")[:-1]:
            label = json.loads(line)
            state[f"label {label.get('unit')}"] = label.get("label")
    if (check := Beside.JUDGE_CHECK.of(paths.log)).exists():
        json.loads(check.read_text())
    return state


def prepare_improve(folder: Path) -> list[str]:
    """``improve`` on four evals with a simulated model."""
    main(["verify-all", str(folder / "evals"), "--copy-samples", "--no-save"])
    for extra in sorted((folder / "evals").iterdir())[4:]:
        shutil.rmtree(extra) if extra.is_dir() else extra.unlink()
    words = ["--model", "simulated", "--iterations", "3", "--quiet", "--no-cache"]
    return ["improve", str(folder / "evals"), *words]


def improve_state(folder: Path) -> State:
    """Every extraction and prompt that is there, each whole."""
    state: State = {}
    for path in sorted((folder / "evals" / "improve").rglob("*.json")):
        content = json.loads(path.read_text())
        if "extractions" in path.parts:
            state[str(path.relative_to(folder))] = content
    for path in (folder / "evals" / "improve" / "prompts").glob("v*.txt"):
        state[path.name] = path.read_text()
    return state


def prepare_marks(folder: Path) -> list[str]:
    """Marks as the view makes them, one after the other; what was answered is noted beside them."""
    finished_run(folder)
    return ["@mark", str(folder)]


def mark_items(folder: Path) -> int:
    """Mark items as the form of the view does, noting each once the answer would be sent."""
    from pcsuite.view.marks import Marks

    marks = Marks(run_log(folder).log)
    answered = os.open(folder / "answered.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in range(400):
        marks.add("agnews_json", f"item {number}", "interesting", f"note {number}\u2028 of two lines")
        os.write(answered, b"%d\n" % number)
    return 0


def marks_state(folder: Path) -> State:
    """The marks that were answered, each of which must be there."""
    from pcsuite.view.marks import Marks

    marks = {item: mark.note for (_, item), mark in Marks(run_log(folder).log).read().items()}
    if (answered := folder / "answered.txt").exists():
        for number in answered.read_text().split():
            assert f"item {number}" in marks, f"the mark of item {number} is lost"
    return marks


def prepare_batch(folder: Path) -> list[str]:
    """``run --batch`` against a server that answers in batches, in this process."""
    from support.batch_profiles import profile_in
    from support.batch_server import BatchServer

    if not SERVERS:
        SERVERS.append(BatchServer().__enter__())
    profile = profile_in(folder, SERVERS[0], seeds=1, items=4, max_requests=6)
    return ["run", "--quiet", "--no-cache", "--batch", "--config", str(profile)]


SERVERS: list[Any] = []


SCENARIOS = {
    scenario.command: scenario
    for scenario in (
        Scenario("run", prepare_run, lambda folder: log_state(run_log(folder))),
        Scenario("promptbench", prepare_promptbench, lambda folder: log_state(run_log(folder))),
        Scenario("optimize", prepare_optimize, optimize_state),
        Scenario("report", prepare_report, report_state),
        Scenario("rescore", prepare_rescore, rescore_state),
        Scenario("verify-all", prepare_verify_all, verify_state),
        Scenario("import", prepare_import, lambda folder: log_state(run_log(folder))),
        Scenario("ablate", prepare_ablate, ablate_state),
        Scenario(
            "ablate --design order", lambda folder: prepare_ablate(folder, "--design", "order"), ablate_state
        ),
        Scenario(
            "ablate --design repeat",
            lambda folder: prepare_ablate(folder, "--design", "repeat"),
            ablate_state,
        ),
        Scenario("ablate --design groups", prepare_groups, ablate_state),
        Scenario(
            "ablate --noise-first", lambda folder: prepare_ablate(folder, "--noise-first", "20"), ablate_state
        ),
        Scenario(
            "ablate --until --looks",
            lambda folder: prepare_ablate(folder, "--until", "decided", "--looks", "3"),
            ablate_state,
        ),
        Scenario("verifier-pass", prepare_verifier_pass, lambda folder: log_state(run_log(folder))),
        Scenario("view --bundle", prepare_bundle, bundle_state),
        Scenario("init-task", prepare_init_task, init_task_state),
        Scenario("check", prepare_check, ablate_state, ended=(0, 1)),
        Scenario("run --overwrite", prepare_overwrite, overwrite_state),
        Scenario("log check --repair", prepare_repair, repair_state, ended=(0, 1)),
        Scenario("judge check", prepare_judge, judge_state, ended=(0, 1)),
        Scenario("improve", prepare_improve, improve_state),
        Scenario("view marks", prepare_marks, marks_state),
        Scenario("ablate --target --in", prepare_agent, agent_state),
        Scenario("ablate --target --worker --in", prepare_agent_worker, agent_state),
        Scenario("run --batch", prepare_batch, lambda folder: log_state(run_log(folder))),
    )
}


def start(words: list[str], output: Path) -> int:
    """Run a command in a forked process; its words go to a file. Returns the process id."""
    child = os.fork()
    if child:
        return child
    status = 99
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        status = mark_items(Path(words[1])) if words[0] == "@mark" else main(words)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def prepared(scenario: Scenario, folder: Path) -> list[str]:
    """Fill a folder without a word, and return the command's."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        return scenario.prepare(folder)


def finish(words: list[str], output: Path, allowed: tuple[int, ...]) -> float:
    """Run a command to its end; returns its seconds."""
    started = time.monotonic()
    _, status = os.waitpid(start(words, output), 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in allowed, f"{words[0]} ended with {code}:\n{output.read_text()}"
    return time.monotonic() - started


def comparable(scenario: Scenario, folder: Path) -> State:
    """What the whole command made, for comparison with the undisturbed one."""
    if scenario.command == "rescore":
        return log_state(run_log(folder))
    if scenario.command == "verify-all":  # how many iterations there are depends on how many runs were whole
        return {name.split("/")[0]: metrics for name, metrics in verify_state(folder).items()}
    if scenario.command == "report":
        tables = sorted((folder / "outputs" / "tables").glob("*.csv"))
        return report_state(folder) | {
            table.name: table.read_bytes() for table in tables if table.name != "runs.csv"
        }
    if scenario.state is agent_state:
        return finished_agent_state(folder)
    return scenario.state(folder)


def campaign(scenario: Scenario, kills: int, rng: random.Random, root: Path) -> tuple[int, int]:
    """Kill one command so many times; returns kills that met a running process, and fresh beginnings."""
    named = scenario.command.replace(" ", "_")
    calm = root / f"{named}-calm"
    calm.mkdir()
    output = root / f"{named}.txt"
    words = prepared(scenario, calm)
    seconds = finish(words, output, scenario.ended)
    wanted = comparable(scenario, calm)
    met = begun = 0
    folder = words = None
    while met < kills:
        if folder is None:
            begun += 1
            folder = root / f"{named}-{begun}"
            folder.mkdir()
            words = prepared(scenario, folder)
            before = scenario.state(folder)
        process = start(words, output)
        # Killed early more often than late, so that a command is killed several times before it is done.
        time.sleep(seconds * rng.random() ** 2)
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        code = os.waitstatus_to_exitcode(status)
        now = scenario.state(folder)
        lost = {name for name in before if now.get(name) != before[name]}
        assert not lost, f"{scenario.command}: lost or altered after a kill: {sorted(lost)[:3]}"
        before = now
        if code == -signal.SIGKILL:
            met += 1
        else:
            assert code in scenario.ended, f"{scenario.command} ended with {code}:\n{output.read_text()}"
        if code != -signal.SIGKILL or met == kills or rng.random() < 0.05:
            finish(words, output, scenario.ended)
            made = comparable(scenario, folder)
            assert made == wanted, f"{scenario.command}: the result differs from the undisturbed one"
            shutil.rmtree(folder)
            folder = None
    return met, begun


def run_campaign(commands: list[str], kills: int, seed: int) -> dict[str, tuple[int, int]]:
    """Spread kills over commands; returns, by command, kills that met a running process and fresh beginnings."""
    known = {command.name for command in COMMANDS}
    chosen = [SCENARIOS[name] for name in commands if name.split()[0] in known]
    for name in commands:
        if name.split()[0] not in known:
            print(f"{name}: this version has no such command", file=sys.stderr)
    gc.freeze()
    results = {}
    with tempfile.TemporaryDirectory(prefix="pcsuite-kills-") as folder:
        for index, scenario in enumerate(chosen):
            share = kills // len(chosen) + (index < kills % len(chosen))
            rng = random.Random(f"{seed}|{scenario.command}")
            met, begun = results[scenario.command] = campaign(scenario, share, rng, Path(folder))
            print(f"| `{scenario.command}` | {met} | {begun} |", flush=True)
    return results


def run() -> None:
    """Parse the words, run the campaign, print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--commands", default=",".join(SCENARIOS))
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    started = time.monotonic()
    print("| command | kills | fresh beginnings |\n|---|---|---|", flush=True)
    results = run_campaign(args.commands.split(","), args.kills, args.seed)
    total = sum(met for met, _ in results.values())
    print(
        f"\n{total} kills in {time.monotonic() - started:.0f} s: nothing lost, nothing doubled, nothing altered"
    )


if __name__ == "__main__":
    run()
