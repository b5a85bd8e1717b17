"""What names a target, what it is called, and what its identity is made of."""

import pytest

from pcsuite.config.definitions import ModelSpec
from pcsuite.config.load import load_suite
from pcsuite.config.targets import TargetSpec, imported_beside, target_entries, with_identity
from pcsuite.errors import ConfigError
from support.targets import program


@pytest.mark.parametrize(
    ("text", "kind", "slug"),
    [
        ("app.py:answer", "function", "app-answer"),
        ("agents/my app.py:answer", "command", "app"),  # a blank, and no such file: words of a command
        ("app.py:app.answer", "function", "app-app-answer"),
        ("python agent.py --x=1.5", "command", "agent"),
        ("/opt/tools/agent --fast", "command", "agent"),
        ("docker run -i me/agent", "command", "docker"),
        ("https://example.org:8000/v1/chat?x=1", "http", "example-org-8000-v1-chat"),
        ("./run.sh 'two words'", "command", "run"),
    ],
)
def test_a_word_names_one_kind_of_target_and_has_a_short_name(text, kind, slug):
    spec = TargetSpec.read(text)
    assert (spec.kind, spec.slug) == (kind, slug)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("app.py", "say which function"),
        ("python 'open", "cannot be read"),
        ("http://", "no host"),
    ],
)
def test_a_word_that_names_nothing_is_one_clear_line(text, problem):
    with pytest.raises(ConfigError, match=problem):
        TargetSpec.read(text)


def test_names_go_before_what_things_are_called_and_two_of_one_name_are_refused():
    assert list(target_entries(["a=echo x", "b=echo x", "echo x"])) == ["target/a", "target/b", "target/echo"]
    with pytest.raises(ConfigError, match="two are called 'target/echo'"):
        target_entries(["echo a", "echo b"])


def identity(folder, target, **options):
    entry = {"provider": "target", "target": target, "target_folder": str(folder), **options}
    return with_identity("t", ModelSpec.model_validate(entry), ()).provider_options()["identity"]


def test_identity_follows_the_files_and_what_they_import_from_beside_them(tmp_path):
    program(
        tmp_path,
        "app.py",
        "import helpers.deep\nfrom . import late\nimport json\ndef answer(prompt): return ''\n",
    )
    program(tmp_path, "helpers/__init__.py", "")
    program(tmp_path, "helpers/deep.py", "from tools import x\n")
    program(tmp_path, "tools.py", "x = 1\n")
    program(tmp_path, "late.py", "y = 1\n")
    program(tmp_path, "unused.py", "z = 1\n")
    names = {path.relative_to(tmp_path).as_posix() for path in imported_beside(tmp_path / "app.py")}
    assert names == {"helpers/__init__.py", "helpers/deep.py", "tools.py", "late.py"}
    first = identity(tmp_path, "app.py:answer")
    assert identity(tmp_path, "app.py:answer") == first
    program(tmp_path, "unused.py", "z = 2\n")
    assert identity(tmp_path, "app.py:answer") == first
    program(tmp_path, "tools.py", "x = 2\n")
    assert identity(tmp_path, "app.py:answer") != first


def test_identity_of_a_command_follows_files_that_it_names_further_ones_and_the_version(tmp_path):
    program(tmp_path, "agent.sh", "echo hi")
    program(tmp_path, "config.toml", "a = 1")
    seen = {identity(tmp_path, "sh agent.sh"), identity(tmp_path, "sh agent.sh", version="2")}
    seen.add(identity(tmp_path, "sh agent.sh", files=["config.toml"]))
    program(tmp_path, "config.toml", "a = 2")
    seen.add(identity(tmp_path, "sh agent.sh", files=["config.toml"]))
    program(tmp_path, "agent.sh", "echo ho")
    seen.add(identity(tmp_path, "sh agent.sh"))
    assert len(seen) == 5
    with pytest.raises(ConfigError, match="files: no file .*nowhere"):
        identity(tmp_path, "sh agent.sh", files=["nowhere"])


def test_where_a_target_lies_and_how_often_it_is_asked_is_no_part_of_its_rows(tmp_path):
    for folder in ("one", "two"):
        program(tmp_path, f"{folder}/app.py", "def answer(prompt): return ''\n")
    entries = [
        with_identity(
            "t",
            ModelSpec.model_validate(
                {
                    "provider": "target",
                    "target": "app.py:answer",
                    "target_folder": str(tmp_path / folder),
                    **more,
                }
            ),
            (),
        )
        for folder, more in (("one", {}), ("two", {"concurrency": 8, "deterministic": True}))
    ]
    assert entries[0].model_dump() == entries[1].model_dump()
    assert entries[0].written() != entries[1].written()


def test_a_profile_s_targets_are_found_beside_it_and_looked_at_only_when_they_are_named(tmp_path):
    program(tmp_path, "app.py", "def answer(prompt): return ''\n")
    profile = tmp_path / "p.yaml"
    profile.write_text(
        "version: '1.0'\nrun: {name: x}\ntargets: {mine: 'app.py:answer', gone: 'nowhere.py:answer'}\n"
        "selection: {tasks: [csqa_json], models: [mine], conditions: [C0], decoding_regimes: [D0]}\n"
    )
    suite = load_suite(profile)
    assert suite.models["mine"].provider_options()["target_folder"] == str(tmp_path.resolve())
    with pytest.raises(ConfigError, match="model 'gone': target 'nowhere.py:answer': no file"):
        suite.models["gone"]
