"""The GitHub Action, the GitLab job and the shell script: their steps are run as they stand, against stand-ins of the
services' own commands (``gh``, ``curl``), which write down what they are asked."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "tests" / "fixtures" / "imports" / "promptfoo"
CI = ROOT / "docs" / "how-to" / "ci"
pytestmark = [pytest.mark.slow, pytest.mark.subprocess]

GH = """#!/bin/sh
echo "gh $*" >> "$CALLS"
case "$*" in
  "run list"*) echo "$RUN_ID" ;;
  "run download"*) mkdir -p "$RUNNER_TEMP/pcsuite-baseline" && cp "$ARTIFACT_FILE" "$RUNNER_TEMP/pcsuite-baseline/" ;;
  "api repos/"*"/comments --paginate"*) echo "$KNOWN_COMMENT" ;;
esac
"""
PYTHON = """#!/bin/sh
echo "python $*" >> "$CALLS"
"""
CURL = """#!/bin/sh
echo "curl $*" >> "$CALLS"
while [ $# -gt 0 ]; do
  if [ "$1" = "--output" ] && [ "$2" != /dev/null ]; then
    [ -n "$ARTIFACT_FILE" ] || exit 22
    cp "$ARTIFACT_FILE" "$2"
  fi
  shift
done
"""


@pytest.fixture
def workplace(tmp_path):
    """A folder to work in, with stand-ins of other commands before everything else on the path."""
    tools = tmp_path / "tools"
    tools.mkdir()
    pcsuite = f'#!/bin/sh\nexec "{sys.executable}" -m pcsuite "$@"\n'
    for name, text in (
        ("gh", GH),
        ("curl", CURL),
        ("pcsuite", pcsuite),
        ("pip", "#!/bin/sh\n"),
        ("python", PYTHON),
    ):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "CALLS": str(tmp_path / "calls"),
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "GITHUB_REPOSITORY": "acme/triage",
        "GITHUB_WORKFLOW": "prompts",
        "RUN_ID": "77",
        "KNOWN_COMMENT": "",
        "ARTIFACT_FILE": "",
    }
    (tmp_path / "calls").touch()
    return tmp_path, environment


class Action:
    """The steps of action.yml, each run in turn with its expressions filled in."""

    def __init__(self, workplace, inputs, event="pull_request"):
        self.folder, self.environment = workplace
        action = yaml.safe_load((ROOT / "action.yml").read_text())
        defaults = {name: entry.get("default", "") for name, entry in action["inputs"].items()}
        assert set(inputs) <= set(defaults)
        self.values = {f"inputs.{name}": value for name, value in (defaults | inputs).items()} | {
            "github.action_path": str(ROOT),
            "github.token": "token",
            "github.event_name": event,
            "github.event.pull_request.number": "12",
        }
        self.steps, self.said, self.status = action["runs"]["steps"], "", 0
        self.run()

    def filled(self, text):
        return re.sub(r"\$\{\{\s*(.+?)\s*\}\}", lambda match: self.values[match[1]], str(text))

    def holds(self, condition):
        for part in condition.split("&&"):
            name, sign, value = re.fullmatch(r"\s*([\w.-]+) (==|!=) '(.*)'\s*", part).groups()
            if (self.values[name] == value) != (sign == "=="):
                return False
        return True

    def run(self):
        for step in self.steps:
            if not self.holds(step.get("if", "github.token == 'token'")):
                continue
            output = Path(self.environment["GITHUB_OUTPUT"])
            output.write_text("")
            env = self.environment | {name: self.filled(text) for name, text in step.get("env", {}).items()}
            # As GitHub runs a step of shell bash.
            words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            done = subprocess.run(
                words, env=env, cwd=self.folder, capture_output=True, text=True, timeout=120
            )
            self.said += done.stdout + done.stderr
            for line in output.read_text().splitlines():
                name, _, value = line.partition("=")
                self.values[f"steps.{step.get('id')}.outputs.{name}"] = value
            if done.returncode:
                self.status = done.returncode
                return

    @property
    def calls(self):
        return Path(self.environment["CALLS"]).read_text()


def inputs(base="base.json", new="new.json", **more):
    return {"baseline": str(FIXTURES / base), "candidate": str(FIXTURES / new), **more}


def test_an_action_that_passes_writes_a_comment(workplace):
    action = Action(workplace, inputs())
    assert action.status == 0, action.said
    comment = (action.folder / "pcsuite-comment.md").read_text()
    assert comment.startswith("<!-- pcsuite compare -->\n\n### :white_check_mark: new is no worse than base")
    assert "+0.29 \\[0.04, 0.50\\]" in comment  # the interval
    assert "0 items broke, 6 items fixed." in comment
    assert "What this gate can find" in comment
    assert (action.folder / "summary").read_text() == comment
    assert f"python -m pip install --quiet {ROOT}[stats,import]\n" in action.calls
    assert "gh api --method POST repos/acme/triage/issues/12/comments --field body=@" in action.calls


def test_a_regression_fails_after_the_comment_and_renews_the_one_before(workplace):
    workplace[1]["KNOWN_COMMENT"] = "4711"
    action = Action(workplace, inputs("new.json", "base.json"))
    assert (action.status, action.values["steps.compare.outputs.passed"]) == (1, "false")
    assert "::error::a reliable regression" in action.said
    assert "gh api --method PATCH repos/acme/triage/issues/comments/4711" in action.calls
    assert "broke</summary>" in (action.folder / "pcsuite-comment.md").read_text()
    lenient = Action(workplace, inputs("new.json", "base.json", **{"fail-on-regression": "false"}))
    assert lenient.status == 0


def test_the_baseline_is_an_artifact_of_a_branch(workplace):
    workplace[1]["ARTIFACT_FILE"] = str(FIXTURES / "base.json")
    artifact = {"baseline-artifact": "results", "baseline-branch": "release"}
    action = Action(workplace, inputs() | {"baseline": "base.json"} | artifact, event="push")
    assert action.status == 0, action.said
    assert "--workflow prompts --branch release --status success" in action.calls
    assert "gh run download 77 --repo acme/triage --name results" in action.calls
    assert "comments" not in action.calls  # a push has no pull request
    workplace[1]["RUN_ID"] = ""
    missing = Action(workplace, inputs() | artifact)
    assert missing.status == 2
    assert "no successful run of prompts on release" in missing.said


def test_bad_input_is_no_verdict(workplace):
    action = Action(workplace, inputs("tests.csv"))
    assert action.status == 2
    assert "a plain table is read with --from table" in action.said
    assert "gh " not in action.calls


def test_further_words_are_passed_on(workplace):
    folder, _ = workplace
    for name, right in (("a", 1), ("b", 0)):
        rows = "".join(f"q{n},{right}\n" for n in range(12))
        (folder / f"{name}.csv").write_text(f"id,ok\n{rows}")
    words = {"arguments": "--from table --item id --score ok"}
    action = Action(workplace, {"baseline": "a.csv", "candidate": "b.csv", **words})
    assert action.status == 1
    assert "12 items broke" in (folder / "pcsuite-comment.md").read_text()


def test_the_shell_script_has_the_gates_status(workplace):
    folder, environment = workplace
    for files, status in ((("new.json", "base.json"), 1), (("x", "y"), 2)):
        named = {"BASELINE": str(FIXTURES / files[0]), "CANDIDATE": str(FIXTURES / files[1])}
        script = ["sh", str(CI / "prompt-gate.sh")]
        done = subprocess.run(script, cwd=folder, env=environment | named, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
    assert (folder / "prompt-gate.xml").is_file()


def test_gitlabs_job_compares_with_the_default_branch(workplace):
    folder, environment = workplace
    job = yaml.safe_load((CI / "gitlab-ci.yml").read_text())["prompt-gate"]
    named = {name: str(value) for name, value in job["variables"].items()} | {
        "CI_JOB_TOKEN": "t", "CI_API_V4_URL": "https://gitlab.example/api/v4", "CI_PROJECT_ID": "5",
        "CI_DEFAULT_BRANCH": "main", "CI_MERGE_REQUEST_IID": "9", "GITLAB_TOKEN": "g",
    }  # fmt: skip
    # GitLab runs the lines of a job in one shell that stops at the first failure.
    script = "set -e\n" + "\n".join(job["script"])

    def run(base, new):
        (folder / "results.json").write_bytes((FIXTURES / new).read_bytes())
        given = environment | named | {"ARTIFACT_FILE": str(FIXTURES / base) if base else ""}
        words = ["bash", "-c", script]
        return subprocess.run(words, cwd=folder, env=given, capture_output=True, text=True, timeout=120)

    assert run("base.json", "new.json").returncode == 0
    worse = run("new.json", "base.json")
    assert (worse.returncode, ":x:" in worse.stdout) == (1, True)
    assert "merge_requests/9/notes" in Path(environment["CALLS"]).read_text()
    first = run("", "new.json")
    assert (first.returncode, "no results.json of main to compare with yet" in first.stdout) == (0, True)
