"""A prompt's files at their places in a folder: each call gets a copy, checks score it, rules are followed or not."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import pcsuite as pcs
from pcsuite.ablation import AblationRequest, ablate
from pcsuite.ablation.document import document
from pcsuite.ablation.page import render_ablation, write_result
from pcsuite.ablation.picture import markdown
from pcsuite.ablation.sentences import sentences
from pcsuite.ablation.study import prepare
from pcsuite.config.targets import target_entries
from pcsuite.engines.targets.workspaces import default_folder
from pcsuite.errors import ConfigError, DataError, PromptError
from pcsuite.logging.log import iter_newest_rows

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands of a POSIX shell")

RULES = """# Rules
- Write names in snake_case.
- End the file with a newline.
- Be polite.
"""

AGENT = '''
"""An agent that does what its rules say, and is polite and ends files with a newline whatever they say."""
import re
from pathlib import Path


def answer(prompt, item, files):
    place = Path(files["AGENTS.md"]) if "AGENTS.md" in files else None
    rules = place.read_text() if place is not None else ""
    if "reach marks" in prompt:
        marks = re.findall(r"this one: (\\S+)", rules)
        return " ".join(marks)
    folder = place.parent if place is not None else Path(files["folder"])
    name = "my_value" if "snake_case" in rules else "myValue"
    (folder / "made.py").write_text(f"{name} = {item['number']}\\n")
    return {"output": "", "steps": 2}
'''


@pytest.fixture
def project(tmp_path, tmp_path_factory, monkeypatch):
    """A working folder with a project, an agent, and tasks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("temporary")))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "AGENTS.md").write_text(RULES)
    (tmp_path / "project" / "keep.txt").write_text("kept\n")
    (tmp_path / "agent.py").write_text(AGENT)
    rows = "".join(f"Make it {n},{n}\n" for n in range(16))
    (tmp_path / "tasks.csv").write_text(f"task,number\n{rows}")
    return tmp_path


SNAKE = "grep -q my_value made.py"
NEWLINE = 'test -z "$(tail -c1 made.py)"'


def request(*, target="agent.py:answer", prompts=("project/AGENTS.md",), folder="project", **settings):
    entries = target_entries([f"agent={target}"], {"in_folder": folder, "concurrency": 4} if folder else {})
    first, *more = map(Path, prompts)
    options = {"design": "leave-one-out", "controls": False, "trim": False, "margin": 0.3} | settings
    return AblationRequest(
        first, "tasks.csv", more_prompts=tuple(more), targets=entries, model="target/agent", **options
    )


def nothing_left(folder):
    return [str(path) for path in default_folder().iterdir()] if default_folder().exists() else []


def test_each_call_gets_the_arms_file_and_a_check_scores_it(project):
    result = ablate(
        request(
            check=SNAKE,
            block_checks={"write_names_in": SNAKE, "end_the_file": NEWLINE},
            calls_per_day=1000,
        ),
        quiet=True,
    )
    verdicts = {entry.block: entry.verdict for entry in result.verdicts}
    assert verdicts["write_names_in"] == "helps"
    assert verdicts["be_polite"] == verdicts["end_the_file"] == "no worse without it"
    by_arm = {arm.id: arm.score for arm in result.arms}
    assert by_arm["full"] == 1.0
    assert by_arm["-write_names_in"] == 0.0
    assert {found.reached for found in result.reach} == {"yes"}
    naming, newline = result.adherence
    assert naming.words == "followed 100 % with, 0 % without: followed because the block is there"
    assert newline.words == "followed 100 % with, 100 % without: the system does so anyway"
    assert newline.verdict.verdict == "no worse without it"
    rows = [row for row in iter_newest_rows(result.log) if row.condition.id == "full"]
    assert {file.path: file.change for file in rows[0].changed.files} == {"made.py": "added"}
    assert rows[0].checks["check"].status == 0
    assert rows[0].checks["follows end_the_file"].block == "end_the_file"
    assert nothing_left(project) == []
    assert (project / "project" / "AGENTS.md").read_text() == RULES
    assert not (project / "project" / "made.py").exists()
    words = document(result)
    assert [entry["with"] for entry in words["adherence"]] == [1.0, 1.0]
    assert words["reach"] == [{"file": "AGENTS.md", "reached": "yes", "how": "its mark was answered"}]
    assert "what calls cost is not known" in " ".join(sentences(result))
    for shown in (render_ablation(result), markdown(result)):
        assert "the system does so anyway" in shown
        assert "{{ input }}" not in shown.split("Arms")[0] or "place" not in shown.split("Arms")[0]
    assert result.trimmed == RULES
    # Going on asks nothing anew, the reach neither.
    again = ablate(
        request(check=SNAKE, block_checks={"write_names_in": SNAKE, "end_the_file": NEWLINE}), quiet=True
    )
    assert again.asked == 0
    assert [entry.with_block for entry in again.adherence] == [1.0, 1.0]
    # Another check looks at other things, and no folder is left to look at: its rows are asked.
    (project / "outputs" / "ablations" / "AGENTS").rename(project / "earlier")
    assert ablate(request(check="true"), quiet=True).arms[0].score == 1.0


COMMAND = """#!/bin/sh
# An agent as a command: it works where it is.
document=$(cat)
case "$document" in *"reach marks"*) sed -n 's/.*this one: //p' AGENTS.md; exit 0;; esac
cat keep.txt >/dev/null || exit 3
if grep -q snake_case AGENTS.md 2>/dev/null; then echo my_value=1 > made.py; else echo myValue=1 > made.py; fi
chmod 0 made.py; mkdir -p locked && chmod 0 locked
echo done
"""


def test_a_command_runs_in_its_copy_and_a_scorer_sees_the_folder_before_it_goes(project):
    (project / "agent.sh").write_text(COMMAND)
    (project / "agent.sh").chmod(0o755)
    (project / "check.py").write_text(
        "def score(answer, item):\n"
        "    made = answer.folder / 'made.py'\n"
        "    made.chmod(0o644)\n"
        "    return {'score': 'my_value' in made.read_text(), 'files': len(answer.changed.files)}\n"
    )
    asked = request(target="./agent.sh", scorer="check.py:score", name="shell")
    result = ablate(asked, quiet=True)
    assert {entry.block: entry.verdict for entry in result.verdicts}["write_names_in"] == "helps"
    row = next(iter_newest_rows(result.log))
    assert (row.metrics["files"], row.generation.text) == (1, "done")
    assert nothing_left(project) == []


def test_the_prompt_may_lie_elsewhere_and_results_in_the_folder_are_left_out(project):
    (project / "AGENTS.md").write_text(RULES)
    result = ablate(
        request(prompts=("AGENTS.md",), folder=".", check=SNAKE, output_dir="results/mine", name="here"),
        quiet=True,
    )
    assert result.arms[0].score == 1.0
    assert result.study.model.provider_options()["leave_out"] == ["results/mine"]
    assert (
        ablate(
            request(prompts=("AGENTS.md",), folder=".", check=SNAKE, output_dir="results/mine", name="here"),
            quiet=True,
        ).asked
        == 0
    )


def test_an_agent_that_lists_another_hash_ends_it_before_an_arm_is_asked(project):
    loaded = '{"output": "", "loaded": [{"source": "AGENTS.md", "sha256": "00"}]}'
    (project / "agent.py").write_text(f"def answer(prompt, item, files):\n    return {loaded}\n")
    with pytest.raises(
        ConfigError, match=r"AGENTS\.md did not reach target/agent: in the full arm it was loaded with"
    ):
        ablate(request(check="true"), quiet=True)
    log = project / "outputs" / "ablations" / "AGENTS" / "runs" / "AGENTS.jsonl"
    assert not log.exists() or not list(iter_newest_rows(log))
    assert nothing_left(project) == []
    assert ablate(request(check="true", reach="off"), quiet=True).reach == ()


@pytest.mark.parametrize(
    ("answer", "mode", "reached"),
    [
        ("'I fix code.'", "auto", "unknown"),
        ("{'output': '', 'loaded': []}", "auto", "the file is not among it"),
        ("{'output': '', 'loaded': ['AGENTS.md']}", "auto", "unknown"),
        ("{'output': '', 'loaded': ['AGENTS.md']}", "loaded", "is not known to reach"),
        ("{'output': '', 'loaded': {files['AGENTS.md']: digest}}", "auto", "yes"),
        ("{'output': '', 'loaded': {files['AGENTS.md']: digest}}", "loaded", "yes"),
        ("'I fix code.'", "answer", "its mark was not answered"),
        ("marks", "answer", "yes"),
        ("marks", "loaded", "is not known to reach"),
        ("kept(marks)", "auto", "an earlier reading is kept"),
        ("1 / 0", "auto", "unknown"),
    ],
)
def test_what_the_reach_check_can_tell(project, answer, mode, reached):
    (project / "agent.py").write_text(
        "import hashlib, re\n"
        "from pathlib import Path\n"
        "SEEN = []\n"
        "def kept(marks):\n"
        "    SEEN.append(marks)\n"
        "    return SEEN[0]\n"
        "def answer(prompt, item, files):\n"
        "    if 'reach marks' not in prompt:\n"
        "        return 'x'\n"
        "    text = Path(files['AGENTS.md']).read_text()\n"
        "    digest = hashlib.sha256(text.encode()).hexdigest()\n"
        "    marks = ' '.join(re.findall(r'this one: (\\S+)', text))\n"
        f"    return {answer}\n"
    )
    (project / "right.py").write_text("def score(answer, item):\n    return True\n")
    asked = request(scorer="right.py:score", reach=mode)
    if reached in ("yes", "unknown"):
        result = ablate(asked, quiet=True)
        assert [found.reached for found in result.reach] == [reached]
        line = " ".join(markdown(result).splitlines())
        assert ("It is not known whether AGENTS.md reached the system" in line) == (reached == "unknown")
    else:
        with pytest.raises(ConfigError, match=reached):
            ablate(asked, quiet=True)


def test_an_agent_that_runs_out_of_time_scores_0_and_follows_nothing(project):
    (project / "slow.sh").write_text("#!/bin/sh\ncat >/dev/null; sleep 30\n")
    (project / "slow.sh").chmod(0o755)
    asked = request(
        target="./slow.sh", check="true", block_checks={"be_polite": "true"}, reach="off", name="slow"
    )
    options = {**asked.targets["target/agent"], "timeout_s": 0.2, "concurrency": 8}
    (project / "tasks.csv").write_text("task,number\n" + "".join(f"t{n},{n}\n" for n in range(16)))
    result = ablate(replace(asked, targets={"target/agent": options}), quiet=True)
    row = next(iter_newest_rows(result.log))
    assert row.outcome == "out_of_time"
    assert row.metrics["task_score"] == 0.0
    assert row.checks["check"].why == "not run: the call ended as out_of_time"
    assert result.adherence[0].with_block == 0.0
    assert result.adherence[0].words.endswith("the rule is not followed")
    assert nothing_left(project) == []


def test_an_agent_that_removes_its_folder_did_not_do_its_task(project):
    (project / "agent.py").write_text(
        "import shutil\nfrom pathlib import Path\n"
        "def answer(prompt, item, files):\n"
        "    shutil.rmtree(Path(files['AGENTS.md']).parent)\n"
        "    return 'done'\n"
    )
    result = ablate(request(check="true", reach="off", name="gone"), quiet=True)
    row = next(iter_newest_rows(result.log))
    assert (row.metrics["task_score"], row.errors, row.outcome) == (0.0, [], "answered")
    assert row.checks["check"].why == "not run: the call removed its folder"
    assert row.changed.note == "the call removed its folder"


def test_several_files_a_skill_and_servers_at_their_places(project):
    folder = project / "project"
    (folder / "docs").mkdir()
    (folder / "docs" / "RULES.md").write_text(
        "# Tone\nBe kind.\n\n# Names\nUse snake_case.\n\n# End\nStop.\n"
    )
    (folder / ".mcp.json").write_text(
        '{"mcpServers": {"git": {"command": "git-mcp"}, "web": {"url": "http://x"}}}\n'
    )
    (folder / "skills" / "pdf").mkdir(parents=True)
    (folder / "skills" / "pdf" / "SKILL.md").write_text("---\nname: pdf\n---\nRead it.\n")
    (folder / "skills" / "pdf" / "run.py").write_text("print(1)\n")
    (folder / "AGENTS.md").write_text("# Rules\n- Be polite.\n- Be brief.\n")
    (project / "agent.py").write_text(
        "import json, os\n"
        "from pathlib import Path\n"
        "def answer(prompt, item, files):\n"
        "    folder = Path(files['docs/RULES.md']).parent.parent\n"
        "    (folder / 'seen.json').write_text(json.dumps(sorted(files)))\n"
        "    servers = json.loads((folder / '.mcp.json').read_text())['mcpServers']\n"
        "    good = 'snake_case' in (folder / 'docs/RULES.md').read_text() and 'git' in servers\n"
        "    return str(good and (folder / 'skills/pdf/SKILL.md').exists())\n"
    )
    (project / "check.py").write_text("def score(answer, item):\n    return answer == 'True'\n")
    asked = request(
        prompts=("project/AGENTS.md", "project/docs", "project/.mcp.json", "project/skills"),
        scorer="check.py:score",
        reach="auto",
        trim=True,
        margin=0.45,
        name="many",
    )
    (project / "tasks.csv").write_text("task,number\n" + "".join(f"t{n},{n}\n" for n in range(20)))
    result = ablate(asked, quiet=True)
    assert "What each part of `AGENTS.md and 3 more files` is worth" in markdown(result)
    verdicts = {entry.block: entry.verdict for entry in result.verdicts}
    assert verdicts["RULES.md:names"] == verdicts[".mcp.json:git"] == verdicts["pdf"] == "helps"
    assert verdicts["AGENTS.md:be_polite"] == verdicts[".mcp.json:web"] == "no worse without it"
    assert {found.reached for found in result.reach} == {"unknown"}
    assert set(result.trim.dropped) >= {
        "RULES.md:tone",
        ".mcp.json:web",
        "AGENTS.md:be_polite",
        "AGENTS.md:be_brief",
    }
    written = write_result(result)
    trimmed = project / "outputs" / "ablations" / "many" / "trimmed"
    assert json.loads((trimmed / ".mcp.json").read_text()) == {"mcpServers": {"git": {"command": "git-mcp"}}}
    assert (trimmed / "docs" / "RULES.md").read_text() == "# Names\nUse snake_case.\n\n"
    assert (trimmed / "skills" / "pdf" / "SKILL.md").read_text() == "---\nname: pdf\n---\nRead it.\n"
    assert not (trimmed / "AGENTS.md").exists()  # its heading would stand over nothing
    assert all(path.exists() for path in written)
    assert "==> docs/RULES.md" in result.trimmed


def test_several_files_without_a_folder_are_messages_of_the_system(project):
    (project / "more.md").write_text("# A\nOne.\n\n# B\nTwo.\n\n# C\nThree.\n")
    (project / "tasks.csv").write_text("task,answer\n" + "".join(f"t{n},yes\n" for n in range(20)))
    asked = replace(
        request(prompts=("project/AGENTS.md", "more.md"), folder=None), model="simulated", targets={}
    )
    study = prepare(asked)
    assert [block.name for block in study.prompt.free][:3] == [
        "AGENTS.md:write_names_in",
        "AGENTS.md:end_the_file",
        "AGENTS.md:be_polite",
    ]
    assert study.free[3:] == ("more.md:a", "more.md:b", "more.md:c")
    ablated = ablate(replace(asked, effects={"more.md:a": 4.0}, margin=0.4), quiet=True)
    assert ablated.arms[0].items == 20


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"folder": None, "check": "true"}, "no call works in one"),
        ({"folder": "nowhere", "check": "true"}, "no such folder"),
        ({"block_checks": {"nothing": "true"}, "check": "true"}, "the prompt has no block 'nothing'"),
        ({"block_checks": {"rules_heading": "true"}, "check": "true"}, "always stands"),
        ({"prompts": ("agent.py:AGENT",), "check": "true"}, "cannot stand in a folder"),
        ({"check": "true", "check_seconds": 0}, "--check-seconds 0: give a number above 0"),
        ({"check": "python ./agent.py"}, "--check 'python ./agent.py': ./agent.py is not in the folder"),
        (
            {"check": "true", "block_checks": {"be_polite": "python agent.py"}},
            "--block-check 'python agent.py'",
        ),
        ({"check": "true", "system": True}, "--system is for a prompt that is one text"),
        (
            {"prompts": ("project/AGENTS.md", "project/AGENTS.md"), "check": "true"},
            "would have the place AGENTS.md",
        ),
    ],
)
def test_mistakes_are_told_in_a_line(project, changes, problem):
    (project / "agent.py").write_text(f"AGENT = 'You are an agent.'\n{AGENT}")
    with pytest.raises((ConfigError, PromptError, DataError), match=problem) as raised:
        prepare(request(**changes))
    assert "\n" not in str(raised.value)


def test_from_python(project):
    (project / "project" / "docs").mkdir()
    (project / "project" / "docs" / "MORE.md").write_text("# A\nOne.\n\n# B\nTwo.\n\n# C\nThree.\n")
    (project / "right.py").write_text("def score(answer, item):\n    return answer == 'True'\n")

    def answer(prompt, item, files):
        """A function of a notebook."""
        folder = Path(files["AGENTS.md"]).parent
        return str("snake_case" in Path(files["AGENTS.md"]).read_text() and (folder / "keep.txt").exists())

    rows = [{"task": f"Make it {n}"} for n in range(20)]
    ablated = pcs.ablate(
        [Path("project/AGENTS.md"), "project/docs/MORE.md"],
        rows,
        target=answer,
        in_folder="project",
        scorer="right.py:score",
        name="notebook",
        reach="off",
        design="leave-one-out",
        controls=False,
        margin=0.4,
        quiet=True,
    )
    verdicts = {entry.block: entry.verdict for entry in ablated.result.verdicts}
    assert verdicts["AGENTS.md:write_names_in"] == "helps"
    assert verdicts["MORE.md:b"] == "no worse without it"
    assert nothing_left(project) == []


def test_the_template_is_part_of_rows_ids(project):
    first = prepare(request(check="true")).fingerprint()
    (project / "project" / "keep.txt").write_text("other\n")
    assert prepare(request(check="true")).fingerprint() != first


def test_the_command_line(project):
    command = [sys.executable, "-m", "pcsuite", "ablate", "project/AGENTS.md", "--in", "project"]
    command += ["--target", "agent.py:answer", "--data", "tasks.csv", "--check", SNAKE]
    command += ["--block-check", f"write_names_in={SNAKE}", "--calls-per-day", "5000", "--show"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "scored by the exit status of: grep -q my_value made.py" in shown.stdout
    wrong = subprocess.run([*command, "--in", "nowhere"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "no such folder" in wrong.stderr
    assert len(wrong.stderr.strip().splitlines()) <= 2


def test_what_is_read_when_a_task_calls_for_it_is_not_called_unreached(project):
    folder = project / "project"
    files = {
        "AGENTS.md": "- Be polite.\n",
        "api/AGENTS.md": "- Name them well.\n",
        "skills/pdf/SKILL.md": "---\nname: pdf\n---\nRead it.\n",
        "skills/pdf/run.py": "print(1)\n",
        ".cursor/rules/style.mdc": "---\nglobs: '*.ts'\nalwaysApply: false\n---\n- Be brief.\n",
        "CLAUDE.md": "- Be kind.\n",
    }
    (folder / "keep.txt").unlink()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (project / "agent.py").write_text(
        "import hashlib\n"
        "from pathlib import Path\n"
        "def answer(prompt, files):\n"
        "    own = [Path(files[name]) for name in ('AGENTS.md', 'CLAUDE.md') if name in files]\n"
        "    own = [path for path in own if path.name != SHADOWED]\n"
        "    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in own}\n"
        "    return {'output': 'x', 'loaded': hashes}\n"
        "SHADOWED = ''\n"
    )
    (project / "right.py").write_text("def score(answer, item):\n    return True\n")
    asked = request(prompts=("project",), scorer="right.py:score", reach="auto", split="files", name="some")
    found = {one.file: (one.reached, one.how) for one in ablate(asked, quiet=True).reach}
    assert {name: reached for name, (reached, _) in found.items()} == {
        "AGENTS.md": "yes",
        "CLAUDE.md": "yes",
        "api/AGENTS.md": "unknown",
        "skills/pdf/SKILL.md": "unknown",
        ".cursor/rules/style.mdc": "unknown",
    }
    assert found["api/AGENTS.md"][1].startswith(
        "rules of a folder below others, read when a task calls for it"
    )
    assert found["skills/pdf/SKILL.md"][1].startswith("part of a skill")
    assert found[".cursor/rules/style.mdc"][1].startswith("a rule for some files")
    source = (project / "agent.py").read_text()
    (project / "agent.py").write_text(source.replace("SHADOWED = ''", "SHADOWED = 'CLAUDE.md'"))
    with pytest.raises(ConfigError, match=r"CLAUDE\.md did not reach target/agent"):
        ablate(replace(asked, name="shadowed"), quiet=True)
