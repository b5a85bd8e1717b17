"""HELM itself: one run that does everything, its scorers as oracles, and an interrupt."""

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pcsuite.cli import main
from pcsuite.data.items import SAMPLES, read_items
from pcsuite.engines.weights import catalogue_entry, weights_path
from pcsuite.evaluation.base import exact_match, quasi_exact_match, token_f1
from pcsuite.integrations.environments import HELM, environment_python, environment_variables
from pcsuite.integrations.helm.results import FAILURES, read_helm_runs
from support.loopback import LoopbackServer
from support.profiles import SIMULATED, write_profile

EMBEDDED = {
    "provider": "llamacpp",
    "family": "smollm2",
    "size": "135M",
    "weights": "smollm2-135m-instruct-q4_1",
    "workers": 1,
}
INSTANCES = 3


def write_truthful_qa(folder: Path) -> Path:
    """The bundled sample in the published file's form, short enough for a quick run."""
    with (folder / "TruthfulQA.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(
            ["Type", "Category", "Question", "Best Answer", "Correct Answers", "Incorrect Answers", "Source"]
        )
        for item in read_items(SAMPLES / "truthful_qa_validation.jsonl")[:12]:
            truth = item.truth
            answers = [truth["best_answer"], "; ".join(truth["correct_answers"])]
            writer.writerow(["", "", item.input_text, *answers, "; ".join(truth["incorrect_answers"]), ""])
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory, helm_environment):
    """Two models and two scenarios, one of which cannot be read, by one command."""
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    if not weights_path(catalogue_entry(EMBEDDED["weights"])).is_file():
        pytest.skip("the embedded model is not here: pcsuite models pull smollm2-135m")
    folder = tmp_path_factory.mktemp("helm")
    data = write_truthful_qa(folder)
    for split in ("train", "test"):
        (folder / f"{split}.jsonl").write_text("{torn\n", encoding="utf-8")
    profile = write_profile(folder, {"tiny": EMBEDDED})
    chosen = ["--scenarios", "truthful_qa,gsm", "--models", "simple/model1,tiny", "-m", str(INSTANCES)]
    status = main(["helm", "--config", str(profile), "--data", str(data), *chosen])
    return folder / "outputs", status


@pytest.mark.model
def test_imported_figures_equal_helms_own(run):
    output, status = run
    assert status == 4  # the torn scenario
    with (output / "tables" / "helm_metrics.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["metric"] == "exact_match"]
    assert [(row["model"], row["n_instances"]) for row in rows] == [
        ("tiny", str(INSTANCES)),
        ("simple/model1", str(INSTANCES)),
    ]
    for row in rows:
        model = {"tiny": "pcsuite_tiny"}.get(row["model"], "simple_model1")
        (folder,) = (output / "helm" / "runs" / row["suite"]).glob(f"truthful_qa*model={model}*")
        own = [
            stat["mean"]
            for stat in json.loads((folder / "stats.json").read_text())
            if stat["name"] == {"name": "exact_match", "split": "valid"}
        ]
        assert own == [pytest.approx(float(row["value"]))]
        assert float(row["value_low"]) <= own[0] <= float(row["value_high"])
    assert (output / "helm" / "runs" / rows[0]["suite"] / "summary.json").is_file()
    assert not (output / "runs").exists()  # nothing goes into the run log


@pytest.mark.model
def test_a_failed_scenario_is_one_line_with_helms_reason(run):
    output, _ = run
    failed = [one for one in read_helm_runs(output / "helm") if one.status == "unfinished"]
    assert [(one.scenario, one.model) for one in failed] == [
        ("gsm", "pcsuite/tiny"),
        ("gsm", "simple/model1"),
    ]
    for one in failed:
        assert one.reason.startswith("JSONDecodeError: Expecting property name")


@pytest.mark.model
def test_the_same_import_from_the_folder_alone(run, tmp_path, capsys):
    output, _ = run
    profile = write_profile(tmp_path, {"tiny": EMBEDDED})
    assert main(["helm", "--config", str(profile), "--import-only", str(output / "helm")]) == 4
    assert "no results: gsm on tiny: JSONDecodeError" in capsys.readouterr().out
    for name in ("helm_runs.csv", "helm_metrics.csv", "helm_instances.csv"):
        assert (tmp_path / "outputs/tables" / name).read_text() == (output / "tables" / name).read_text()


PAIRS = [
    ("The Eiffel Tower", "Eiffel tower!"),
    ("Paris", " Paris "),
    ("Paris", "paris"),
    ("a dog and a dog", "dog dog cat"),
    ("the the the", "an"),
    ("", ""),
    ("", "x"),
    ("x", ""),
    ("x", "  "),
    ("Mary W. Shelley", "Mary Shelley"),
    ("no, no, no", "no"),
    ("An answer: 42.", "answer 42"),
    ("Zürich", "zürich."),
    ("rock-and-roll", "rock and roll"),
]
ORACLE = """
import json, sys
from helm.benchmark.metrics.evaluate_reference_metrics import exact_match, f1_score, quasi_exact_match
scores = [[f(gold, answer) for f in (exact_match, quasi_exact_match, f1_score)] for gold, answer in json.load(sys.stdin)]
print("SCORES" + json.dumps(scores))
"""


def test_scorers_agree_with_helms_by_name_and_differ_under_another(helm_environment):
    done = subprocess.run(
        [str(environment_python(HELM)), "-c", ORACLE],
        input=json.dumps(PAIRS),
        capture_output=True,
        text=True,
        env=environment_variables(HELM),
        check=True,
    )
    scores = json.loads(done.stdout.partition("SCORES")[2])
    assert len(scores) == len(PAIRS)
    assert {row[0] for row in scores} == {row[1] for row in scores} == {0, 1}
    differing = []
    for (gold, answer), (exact, quasi, set_f1) in zip(PAIRS, scores, strict=True):
        assert exact_match(answer, gold) == bool(exact), (gold, answer)
        assert quasi_exact_match(answer, gold) == bool(quasi), (gold, answer)
        if token_f1(answer, gold) != pytest.approx(set_f1):
            differing.append((gold, answer))
    # HELM's F1 is of sets, ours of bags as SQuAD's; and HELM gives nothing for nothing where both are empty.
    assert differing == [
        ("a dog and a dog", "dog dog cat"),
        ("the the the", "an"),
        ("", ""),
        ("no, no, no", "no"),
    ]


def test_an_interrupt_ends_helm_and_leaves_one_line(tmp_path, helm_environment):
    write_truthful_qa(tmp_path)
    with LoopbackServer(delay_s=600) as server:
        model = {"provider": "openai", "family": "x", "size": "1B", "base_url": server.base_url}
        profile = write_profile(tmp_path, {"slow": model})
        # A job in the background ignores the interrupt, and its children inherit that.
        code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        code += "from pcsuite.cli import main; sys.exit(main())"
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                code,
                "helm",
                "--config",
                str(profile),
                "--data",
                str(tmp_path),
                "-m",
                "2",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            deadline = time.monotonic() + 300
            while not server.bodies and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
            assert server.bodies, "HELM asked nothing"
            children = children_of(process.pid)
            assert len(children) == 1
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=120)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 130
    assert err.strip().splitlines() == [
        "pcsuite: interrupted; finished work is kept, the same command goes on from here"
    ]
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert server.bodies[0]["messages"][0]["content"].startswith("Question: ")
    (one,) = read_helm_runs(tmp_path / "outputs" / "helm")
    assert (one.status, one.reason) == ("unfinished", "interrupted")
    assert (one.folder.parent / FAILURES).is_file()
    assert "interrupted" in (tmp_path / "outputs" / "tables" / "helm_runs.csv").read_text()


def children_of(parent: int) -> list[int]:
    """Ids of a process's children."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if entry.name.isdigit() and int(fields[1]) == parent:
            found.append(int(entry.name))
    return found


def one_line(capsys):
    told = capsys.readouterr().err.strip()
    assert "\n" not in told
    return told


def test_what_cannot_run_is_told_before_anything_starts(tmp_path, capsys, helm_environment):
    profile = str(write_profile(tmp_path, {"sim": SIMULATED}))
    assert main(["helm", "--config", profile]) == 2
    assert "needs TruthfulQA.csv, and no folder with published files was named (give --data DIR" in one_line(
        capsys
    )
    assert main(["helm", "--config", profile, "--data", str(tmp_path / "none")]) == 2
    assert "the folder of published files is not there" in one_line(capsys)
    write_truthful_qa(tmp_path)
    assert main(["helm", "--config", profile, "--data", str(tmp_path)]) == 2
    assert "model 'sim' is simulated" in one_line(capsys)
    assert main(["helm", "--config", profile, "--models", "simm"]) == 2
    assert "did you mean 'sim'?" in one_line(capsys)
    assert main(["helm", "--config", profile, "--import-only", str(tmp_path)]) == 2
    assert one_line(capsys).endswith("holds no HELM run (run pcsuite helm, or name another folder)")


def test_helm_not_installed_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PCS_CACHE_DIR", str(tmp_path / "cache"))
    assert main(["helm", "--config", str(write_profile(tmp_path)), "--models", "simple/model1"]) == 2
    assert one_line(capsys) == "pcsuite: HELM is not installed (pcsuite integrations install helm)"
