"""What a word after --baseline means: a file, else a run, else a git ref, and how that is said."""

import subprocess

import pytest

from pcsuite.api.references import find_reference, prompt_file
from pcsuite.errors import ConfigError
from support.synthetic_log import make_row, write_log


def git(folder, *words):
    who = ["-c", "user.name=tester", "-c", "user.email=tester@localhost"]
    return subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A prompt in a folder of a repository, committed on main and edited since; a run called before."""
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "triage.md").write_text("Old.\r\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "tag", "v1")
    (tmp_path / "prompts" / "triage.md").write_text("New.\n")
    git(tmp_path, "commit", "-qam", "second")
    rows = [make_row(item=f"i{n}") for n in range(3)]
    write_log(tmp_path / "outputs" / "runs" / "before.jsonl", rows)
    return tmp_path


def find(name, repository):
    return find_reference(name, repository / "prompts" / "triage.md", repository / "outputs")


def test_a_git_ref_is_the_prompt_as_it_was_to_the_byte(repository):
    reference = find("v1", repository)
    assert (reference.kind, reference.text, reference.name) == ("git", b"Old.\r\n", "triage.md at v1")
    assert reference.words == f"triage.md at v1 (git, {git(repository, 'rev-parse', '--short=7', 'v1')})"
    assert find("HEAD", repository).text == b"New.\n"
    assert find("main~1", repository).text == b"Old.\r\n"


def test_a_path_behind_a_colon_is_another_file_of_the_commit(repository):
    git(repository, "mv", "prompts/triage.md", "prompts/desk.md")
    git(repository, "commit", "-qm", "renamed")
    with pytest.raises(
        ConfigError, match=r"has no desk\.md \(where it stood under another path: --baseline v1:"
    ):
        find_reference("v1", repository / "prompts" / "desk.md", repository / "outputs")
    reference = find_reference("v1:prompts/triage.md", repository / "prompts" / "desk.md")
    assert (reference.text, reference.name) == (b"Old.\r\n", "prompts/triage.md at v1")


def test_a_file_goes_before_a_run_and_a_run_before_a_ref_and_it_says_so(repository):
    git(repository, "branch", "before")
    run = find("before", repository)
    assert (run.kind, run.name) == ("run", "before")
    assert run.words.startswith("run before (")
    assert run.words.endswith("; git has a ref of that name too, refs/heads/before means it")
    (repository / "before").write_text("A prompt.\n")
    file = find("before", repository)
    assert (file.kind, file.path.name) == ("prompt", "before")
    assert file.words.startswith("the file before, a prompt; git has a ref of that name too")


def test_a_branch_that_a_fresh_clone_has_only_of_the_remote(repository, tmp_path_factory):
    clone = tmp_path_factory.mktemp("clone")
    git(clone, "clone", "-q", str(repository), "here")
    git(clone / "here", "checkout", "-q", "-b", "work")
    git(clone / "here", "branch", "-qD", "main")
    reference = find_reference("main", clone / "here" / "prompts" / "triage.md", clone / "outputs")
    assert (reference.name, reference.text) == ("triage.md at origin/main", b"New.\n")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mian", r"--baseline mian: no file, no run in .*runs and no git ref \(did you mean 'main'\?\)"),
        ("befor", r"no git ref \(did you mean 'before'\?\)"),
        ("", "--baseline: it is empty"),
        ("--upload-pack=x", "no git ref"),
        ("tickets.csv", "a table is no baseline"),
        ("v1:nowhere.md", r"has no nowhere\.md"),
    ],
)
def test_what_is_nothing_is_one_line(name, words, repository):
    (repository / "tickets.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ConfigError, match=words) as error:
        find(name, repository)
    assert "\n" not in str(error.value)


def test_a_prompt_inside_a_file_is_named_by_both(repository):
    (repository / "app.py").write_text("PROMPT = 'x'\n")
    assert prompt_file(repository / "app.py:PROMPT") == (repository / "app.py", ":PROMPT")
    assert prompt_file(repository / "prompts" / "triage.md") == (repository / "prompts" / "triage.md", "")
    assert prompt_file(repository / "nowhere.py:PROMPT") == (repository / "nowhere.py:PROMPT", "")
    git(repository, "add", "app.py")
    git(repository, "commit", "-qm", "code")
    reference = find_reference("HEAD", repository / "app.py:PROMPT", repository / "outputs")
    assert (reference.kind, reference.text) == ("git", b"PROMPT = 'x'\n")
    assert find_reference("app.py:PROMPT", repository / "prompts" / "triage.md").kind == "prompt"


def test_outside_of_git(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(ConfigError, match="is in no git repository"):
        find_reference("main", tmp_path / "triage.md", tmp_path / "outputs")
