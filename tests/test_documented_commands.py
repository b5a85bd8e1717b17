"""Every command that README and docs show is run: page by page in a fresh folder, on a simulated model.

A block that cannot run here says so in the page's source, in the line above it: ``<!-- not run: why -->``. What stands
for the outside world is written down in :func:`stand_in`; commands of other tools (pip, make, jq) are not ours to run.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from pcsuite.cli import COMMANDS, main
from pcsuite.config.load import bundled_configs
from support.coding_model import CodingModel

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"(?m)^(?P<above>[^\n]*)\n(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^(?P=indent)```", re.DOTALL
)
NOT_RUN = re.compile(r"<!-- not run: (?P<why>.+?) -->")
SHELL = ("", "console", "sh", "bash")
FIXTURES = ROOT / "tests" / "fixtures" / "imports"


class Block(NamedTuple):
    """A fenced block with commands of ours."""

    page: str
    line: int
    commands: list[str]
    not_run: str | None


def blocks(page: Path) -> list[Block]:
    text, found = page.read_text(encoding="utf-8"), []
    for match in FENCE.finditer(text):
        commands = list(commands_in(match["text"])) if match["kind"] in SHELL else []
        if commands:
            why = NOT_RUN.search(match["above"])
            line = text[: match.start("text")].count("\n")
            found.append(Block(str(page.relative_to(ROOT)), line, commands, why and why["why"]))
    return found


def commands_in(text: str):
    """Lines that call ``pcsuite``, without prompt, comment and what other tools do with the output."""
    for line in text.replace("\\\n", " ").splitlines():
        words = re.sub(r"\s+[#>]\s.*$", "", line.strip().removeprefix("$ "))
        for part in re.split(r"\s&&\s|\s\|\s", words):
            if re.match(r"(\.venv/bin/)?pcsuite (?!—)", part + " ") and not part.startswith("pcsuite:"):
                yield part.removeprefix(".venv/bin/").removeprefix("pcsuite").strip()


def stand_in(command: str) -> list[str]:
    """The words that are run for a documented command: a simulated model, few items, no browser and no figures."""
    words = shlex.split(command.replace("$PWD", str(Path.cwd())))
    name = words[0] if words else ""
    for flag in ("--model", "--models"):
        if flag in words:
            words[words.index(flag) + 1] = "simulated"
    asks = name in (
        "check",
        "run",
        "run-task",
        "plan",
        "promptbench",
        "verifier-pass",
        "optimize",
        "ablate",
        "init",
        "improve",
        "init-task",
    )
    if asks and not {"--model", "--models", "--target"} & set(words):
        words += ["--model", "simulated"]
    if name in ("run", "plan", "verifier-pass") and "--limit" not in words:
        words += ["--limit", "4"]
    if "--candidates" in words:
        words[words.index("--candidates") + 1] = "3"
    if name == "promptbench":
        words += (
            ["--limit", "2", "--set", "integrations.promptbench.variants=1", "--no-tables"]
            if "--limit" not in words
            else ["--no-tables"]
        )
    if name == "improve" and "--iterations" in words:
        words[words.index("--iterations") + 1] = "1"
    elif name == "improve":
        words += ["--iterations", "1"]
    if name == "view" and "--bundle" not in words:
        words += ["--bundle", "pages"]
    if name == "report":
        words += ["--no-plots"]
    if name == "ablate" and words[1].startswith(
        "agent/"
    ):  # the tutorial's agent: half its tasks, few of its ten rules
        rules = ("you_are_a", "name_each_file", "give_every_function", "give_parameters_and")
        more = ("use_only_the", "keep_lines_shorter", "write_no_more", "check_your_work")
        kept = [rule for rule in (*rules, *more) if not any(rule in word for word in words)]
        words += ["--limit", "16", "--no-trim", "--no-controls", *(f"--keep={rule}" for rule in kept)]
    if name == "ablate" and words[1] == "example":
        words += ["--limit", "24"]
    if name == "constraint":
        words += ["--backend", "native", "--samples", "0"] if "--backend" not in words else ["--samples", "0"]
    return words


ALL = [block for page in PAGES for block in blocks(page)]


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """What the pages take for granted: your prompt, table, profile, models, logs, and some runs."""
    folder = tmp_path_factory.mktemp("desk")
    queues = ("billing", "login", "refund")
    rows = [f'"Ticket {n}: about {queues[n % 3]}",{queues[n % 3]}' for n in range(60)]
    table = "\n".join(["text,queue", *rows]) + "\n"
    prompt = (
        "You are a clerk.\n\nName the queue: billing, login or refund.\n\nOne word.\n\nTicket: {{ text }}\n"
    )
    profile = (bundled_configs() / "quickstart.yaml").read_text(encoding="utf-8")
    system = (ROOT / "docs" / "how-to" / "any-system.md").read_text(encoding="utf-8")
    folder_page = (ROOT / "docs" / "how-to" / "ablate-a-folder.md").read_text(encoding="utf-8")
    programs = {match["text"].split(maxsplit=2)[1]: match["text"] for match in FENCE.finditer(system)}
    contents = {
        "rules.md": "# Task\n\nName the queue.\n\n# Tone\n\nBe kind.\n",
        "old_rules.md": "# Task\n\nName the queue.\n",
        "tickets.csv": table, "my_table.csv": table, "triage.md": prompt, "my_prompt.md": prompt,
        "mine.yaml": profile.replace("name: quickstart", "name: own"),
        "my_profile.yaml": profile.replace("name: quickstart", "name: mine"),
        "my_schema.json": '{"type": "object", "properties": {"label": {"enum": ["a", "b"]}}, "required": ["label"]}',
        "my_scorer.py": "def score(answer, item):\n    return float(item['queue'] in answer)\n",
        "app.py": f'SYSTEM_PROMPT = """{prompt.rpartition("Ticket")[0]}"""\n' + programs["app.py"],
        **{name: programs[name] for name in ("my_agent.py", "my_worker.py")},
        "folder_agent.py": next(match["text"] for match in FENCE.finditer(folder_page) if match["kind"] == "python"),
        "tasks.csv": "task,number\n" + "".join(f"Make it {n},{n}\n" for n in range(24)),
        "prompts.ts": "export const SYSTEM = `" + prompt.replace("{{ text }}", "${text}") + "`;\n",
        "promptfooconfig.yaml": yaml.safe_dump({"prompts": [prompt], "providers": ["openai:x"]}),
        "braces.md": "Write {name} as it is.\n\n" + prompt,
        "checks.csv": "text,__expected\n" + "".join(f"Say {n},contains: {n}\n" for n in range(60)),
    }  # fmt: skip
    answers = [f"q{n},{arm},{n % 3 and 1},0.{n % 9},c{n // 2}" for arm in ("v1", "v2") for n in range(20)]
    contents["answers.csv"] = "\n".join(["id,prompt,correct,length,customer", *answers])
    contents |= dict.fromkeys(
        ("base.csv", "new.csv"), "\n".join(["id,prompt,correct,length,customer", *answers[:20]])
    )
    (folder / "project" / "docs").mkdir(parents=True)
    contents |= {
        "project/AGENTS.md": "# Rules\n- Write names in snake_case.\n- End the file with a newline.\n- Be polite.\n",
        "project/docs/RULES.md": "# Tone\n\nBe kind.\n\n# Length\n\nBe brief.\n\n# End\n\nStop.\n",
    }
    for name, text in contents.items():
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "tutorial" / "agent", folder / "agent")
    for name, results in (("base", "base"), ("new", "new"), ("results", "several")):
        shutil.copyfile(FIXTURES / "promptfoo" / f"{results}.json", folder / f"{name}.json")
    shutil.copytree(bundled_configs(), folder / "configs")
    (folder / "logs").mkdir()
    for name, log in (
        ("2026-11-15T12-40-22_sums.eval", "inspect_c0"),
        ("2026-11-15T13-02-14_sums.eval", "inspect_c1"),
    ):
        shutil.copyfile(FIXTURES / f"{log}.eval", folder / "logs" / name)
    # A prompt in a repository, edited since its commit.
    (folder / "triage.md").write_text(prompt.replace("One word", "A single word"), encoding="utf-8")
    who = ["-c", "user.name=tester", "-c", "user.email=tester@localhost"]
    for words in (["init", "-q", "-b", "main"], ["add", "triage.md"], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    (folder / "triage.md").write_text(prompt, encoding="utf-8")
    for name in ("mine", "before", "after", "quickstart"):
        words = ["--model", "simulated", "--conditions", "C0,C3", "--limit", "3", "--quiet", "--name", name]
        assert main(["run", *words, "--output-dir", str(folder / "outputs")]) == 0
    return folder


@pytest.fixture(scope="module")
def model():
    """The address of the model that the tutorial's agent asks."""
    with CodingModel() as server:
        yield f"{server.base_url}/chat/completions"


@pytest.mark.parametrize("page", sorted({block.page for block in ALL if not block.not_run}))
def test_the_commands_of_a_page_run(page, desk, model, tmp_path, monkeypatch, capsys):
    folder = shutil.copytree(desk, tmp_path / "fresh")
    monkeypatch.chdir(folder)
    monkeypatch.setattr("webbrowser.open", lambda url: True)
    monkeypatch.setenv("AGENT_URL", model)
    # Where a page says python, the one that runs the tests is meant.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for block in ALL:
        if block.page != page or block.not_run:
            continue
        for command in block.commands:
            gates = any(word in command for word in ("--fail-under", "--fail-on-regression", "--no-regress"))
            try:
                status = main(stand_in(command))
            except SystemExit as ended:
                status = ended.code
            said = capsys.readouterr()
            assert status in ((0, 1) if gates else (0,)), (
                f"{page}:{block.line}: pcsuite {command}: {said.err}"
            )


@pytest.mark.subprocess
def test_the_steps_of_the_workflow_run_in_a_repository(desk, tmp_path):
    """The workflow for GitHub in a repository of two commits, its shell steps as they stand; pip and gh are left out."""
    page = (ROOT / "docs" / "how-to" / "test-prompts.md").read_text(encoding="utf-8")
    workflow = example(page, ".github/workflows/prompts.yml")
    assert set(workflow) == {"name", True, "permissions", "jobs"}  # YAML reads the key 'on' as true
    repository = tmp_path / "checkout"
    given = ["--prompt", str(desk / "triage.md"), "--data", str(desk / "tickets.csv"), "--answer", "queue"]
    assert main(["init", str(repository), *given, "--model", "simulated", "--limit", "20"]) == 0
    with (repository / ".gitignore").open("a") as ignores:
        ignores.write("comment.md\ngate.xml\n")
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "pcsuite").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pcsuite "$@"\n')
    (commands / "pcsuite").chmod(0o755)
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    who = {
        f"GIT_{role}_{what}": "tester@localhost"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    environment = os.environ | who | {"PATH": path, "GITHUB_WORKSPACE": str(repository)}

    def shell(script):
        ran = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=repository,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, f"{script}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    base = shell("git init -q && git add -A && git commit -qm base && git rev-parse HEAD").strip()
    renew = (repository / "README.md").read_text(encoding="utf-8").splitlines()[-2]  # as the page says
    assert renew.startswith("pcsuite init . ")
    shell(f"sed -i 's/One word/A single word/' triage.md && {renew} && git commit -qam change")
    assert "operators.yaml" in shell("git diff --stat HEAD~1")
    done = []
    for step in workflow["jobs"]["compare"]["steps"]:
        script = step.get("run", "").replace("${{ github.event.pull_request.base.sha }}", base)
        if script and not script.startswith(("pip ", "gh ", "pcsuite models pull")):
            shell(script)
            done.append(step["name"])
    assert done == ["the pull request", "its base", "compare", "fail on a regression"]
    comment = (repository / "comment.md").read_text(encoding="utf-8")
    assert comment.startswith("<!-- pcsuite compare -->")
    assert "after against before: 0 regressions" in comment
    assert shell("git status --porcelain") == ""


def example(page, path):
    """The YAML of a page whose first line is a comment with the path it belongs at."""
    (text,) = (match["text"] for match in FENCE.finditer(page) if match["text"].startswith(f"# {path}\n"))
    return yaml.safe_load(text)


@pytest.mark.subprocess
def test_the_examples_for_gitlab_and_pre_commit_run_in_a_repository(desk, tmp_path):
    """A commit that needs the hook, and the job of a merge request; on a simulated model, without pip."""
    page = (ROOT / "docs" / "how-to" / "test-prompts.md").read_text(encoding="utf-8")
    repository, commands = tmp_path / "checkout", tmp_path / "bin"
    repository.mkdir()
    commands.mkdir()
    shutil.copyfile(desk / "tickets.csv", repository / "tickets.csv")
    prompt = (desk / "triage.md").read_text(encoding="utf-8")
    (repository / "triage.md").write_text(prompt, encoding="utf-8")
    (repository / ".gitignore").write_text("outputs/\n.cache/\ngate.xml\n")
    # The simulated model gives the second block a large effect: without it the prompt is worse.
    word = f"exec {shlex.quote(sys.executable)} -m pcsuite"
    simulated = "--model simulated --effect name_the_queue=4"
    (commands / "pcsuite").write_text(f'#!/bin/sh\n{word} "$@" {simulated}\n')
    (commands / "pcsuite").chmod(0o755)
    who = {
        f"GIT_{role}_{what}": "tester@localhost"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | who | {"PATH": path, "PRE_COMMIT_HOME": str(tmp_path / "pre-commit")}

    def shell(script, **more):
        words = ["bash", "-eo", "pipefail", "-c", script]
        ran = subprocess.run(words, cwd=repository, env=environment | more, capture_output=True, text=True)
        return ran.returncode, ran.stdout + ran.stderr

    hooks = example(page, ".pre-commit-config.yaml")
    (repository / ".pre-commit-config.yaml").write_text(yaml.safe_dump(hooks), encoding="utf-8")
    install = f"{shlex.quote(sys.executable)} -m pre_commit install"
    status, said = shell(f"git init -q -b main && git add -A && git commit -qm base && {install}")
    assert status == 0, said
    (repository / "triage.md").write_text(prompt.replace("One word", "A single word"), encoding="utf-8")
    status, said = shell("git commit -qam reworded")
    assert status == 0, said
    assert "triage.md is not worse than at HEAD" in said
    shorter = prompt.replace("Name the queue: billing, login or refund.\n\n", "")
    (repository / "triage.md").write_text(shorter, encoding="utf-8")
    status, said = shell("git commit -qam shorter")
    assert status == 1, said
    assert "worse than triage.md at HEAD" in said
    assert "broken: " in said
    assert shell("git commit -qam shorter --no-verify")[0] == 0
    job = example(page, ".gitlab-ci.yml")["prompts"]
    (script,) = (line for line in job["script"] if line.startswith("pcsuite check"))
    _, base = shell("git rev-parse HEAD~1")
    status, said = shell(script, CI_MERGE_REQUEST_DIFF_BASE_SHA=base.strip())
    assert status == 1, said
    assert "<failure" in (repository / job["artifacts"]["reports"]["junit"]).read_text(encoding="utf-8")
    _, same = shell("git rev-parse HEAD")
    assert shell(script, CI_MERGE_REQUEST_DIFF_BASE_SHA=same.strip())[0] == 0


def test_what_is_not_run_says_why():
    """All of it, so that a block does not drop out unseen."""
    reasons = {f"{block.page}: {block.commands[0]}": block.not_run for block in ALL if block.not_run}
    assert all(len(why.split()) >= 3 for why in reasons.values()), reasons
    assert len(reasons) <= 30, "\n".join(f"{where}: {why}" for where, why in reasons.items())


def test_documented_commands_and_flags_exist():
    """Also those that are not run: every command is one of ours, and most of ours are shown."""
    named = {shlex.split(command)[0] for block in ALL for command in block.commands if command}
    assert named <= {command.name for command in COMMANDS}
    assert len(named) >= 20
    assert len(ALL) >= 40
