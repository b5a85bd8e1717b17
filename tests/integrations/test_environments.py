"""Environments of other tools: made once, found again, and a missing one told in one line."""

import hashlib
import re
import zipfile

import pytest

from pcsuite.cli import main
from pcsuite.errors import ConfigError, IntegrationError
from pcsuite.integrations.environments import (
    HELM,
    INTEGRATIONS,
    PROMPTBENCH,
    InstallStep,
    Integration,
    environment_dir,
    environment_python,
    environment_variables,
    find_integration,
    install,
    is_installed,
    recipe_hash,
)
from support.profiles import write_profile

TINY = Integration("tiny", "Tiny", "nothing at all", "1", steps=(), probe="import json", size="a little")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PCS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_an_environment_is_made_once_and_found_again(cache):
    lines = []
    assert not is_installed(TINY)
    folder = install(TINY, lines.append)
    assert folder == cache / "envs" / "tiny" == environment_dir(TINY)
    assert is_installed(TINY)
    assert environment_python(TINY).exists()
    assert lines == [f"making {folder}", "trying Tiny"]
    install(TINY, lines.append)
    assert len(lines) == 2
    other = Integration("tiny", "Tiny", "nothing at all", "2", steps=(), probe="import json")
    with pytest.raises(
        IntegrationError, match="Tiny is installed by another recipe .pcsuite integrations install tiny."
    ):
        environment_python(other)


def test_a_failed_installation_leaves_nothing_that_looks_installed():
    broken = Integration("broken", "Broken", "", "1", steps=(), probe="import no_such_module")
    with pytest.raises(
        IntegrationError, match="Broken cannot be installed: .* No module named 'no_such_module'"
    ) as told:
        install(broken, lambda line: None)
    assert "\n" not in str(told.value)
    assert not is_installed(broken)


def test_a_python_too_old_is_told_before_anything_is_made(cache):
    future = Integration("tiny", "Tiny", "", "1", steps=(), minimum_python=(9, 1))
    with pytest.raises(IntegrationError, match=r"Tiny needs Python 9\.1 or later, this is 3\.\d+$"):
        install(future, print)
    assert not (cache / "envs").exists()


def test_variables_name_the_environment_and_no_foreign_path(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    found = environment_variables(PROMPTBENCH)
    assert found["NLTK_DATA"] == str(environment_dir(PROMPTBENCH) / "nltk_data")
    assert found["HF_HUB_OFFLINE"] == "1"
    assert "PYTHONPATH" not in found


def test_the_recipe_hash_follows_what_is_installed():
    changed = Integration("tiny", "Tiny", "another summary", "1", steps=(InstallStep(("x==1",)),))
    assert recipe_hash(TINY) != recipe_hash(changed)
    assert recipe_hash(PROMPTBENCH) == recipe_hash(INTEGRATIONS["promptbench"])


def test_pins_are_exact_and_cover_the_steps():
    pins = dict(line.split("==") for line in PROMPTBENCH.pins_text().split())
    assert pins["torch"] == "2.13.0"
    for step in PROMPTBENCH.steps[:2]:
        for requirement in step.requirements:
            name, version = requirement.split("==")
            assert pins[name] == version


@pytest.mark.parametrize("tool", [PROMPTBENCH, HELM], ids=lambda tool: tool.name)
def test_every_pin_has_its_hashes(tool):
    hashed = tool.hashed_pins()
    names = [line.split("==")[0] for line in hashed.splitlines() if not line.startswith(" ")]
    unpinned = {name.split("==")[0] for step in tool.steps if step.unpinned for name in step.requirements}
    assert set(names) | unpinned == {line.split("==")[0] for line in tool.pins_text().split()}
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", block) for block in re.split(r"\n(?=\S)", hashed))
    assert all(entry.hashes for entry in tool.data)
    for step in tool.steps:
        if not step.dependencies:
            covered = {line.split("==")[0] for line in tool.pins_text().split()}
            assert step.hashes or step.requirements[0].split("==")[0] in covered


def test_a_package_that_is_not_the_pinned_file_is_refused(tmp_path, monkeypatch):
    wheel = tmp_path / "house" / "tinypin-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as written:
        written.writestr("tinypin.py", "value = 1\n")
        info = "tinypin-1.0.dist-info"
        written.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinypin\nVersion: 1.0\n")
        written.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        written.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    right = hashlib.sha256(wheel.read_bytes()).hexdigest()
    for digest, works in (("0" * 64, False), (right, True)):
        step = InstallStep(("tinypin==1.0",), dependencies=False, hashes=(digest,))
        tool = Integration("tinypin", "Tinypin", "", "1", steps=(step,), probe="import tinypin")
        if works:
            install(tool, lambda line: None, force=True)
        else:
            with pytest.raises(IntegrationError, match="cannot be installed"):
                install(tool, lambda line: None)


def test_an_unknown_tool_gets_a_suggestion():
    with pytest.raises(ConfigError, match="unknown integration 'promtbench' .did you mean 'promptbench'"):
        find_integration("promtbench")


def test_a_missing_install_is_one_line_with_the_command(tmp_path, capsys):
    block = {"attack_types": ["promptbench:checklist"], "tasks": ["agnews_json"], "conditions_subset": ["C0"]}
    path = write_profile(tmp_path, integrations={"promptbench": block})
    assert main(["promptbench", "--config", str(path)]) == 2
    told = capsys.readouterr().err.strip()
    assert told == "pcsuite: PromptBench is not installed (pcsuite integrations install promptbench)"
    assert not (tmp_path / "outputs").exists()


def test_the_list_says_what_is_there(capsys):
    assert main(["integrations", "list"]) == 0
    shown = capsys.readouterr().out
    assert "promptbench 0.0.4" in shown
    assert "not installed: pcsuite integrations install promptbench" in shown


def test_helms_pins_cover_everything_that_is_installed():
    pins = {line.split("==")[0].lower().replace("_", "-") for line in HELM.pins_text().split()}
    asked = {
        name.split("==")[0].lower().replace("_", "-") for step in HELM.steps for name in step.requirements
    }
    assert asked <= pins
    assert not pins & {"torch", "transformers", "torchvision"}
    assert HELM.steps[-1].requirements == (f"crfm-helm=={HELM.version}",)
