"""Other tools that can be installed, each in a virtual environment of its own, made whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pcsuite._util.files import file_lock, sha256_file
from pcsuite._util.hashing import digest
from pcsuite._util.processes import NETWORK, PACKAGES, child_environment
from pcsuite.engines.weights import user_cache_dir
from pcsuite.errors import ConfigError, IntegrationError, NotInstalledError, did_you_mean

_PIN = re.compile(r"^\S+==\S+(?:[^\n]*\\\n)*[^\n]*\n", re.MULTILINE)
"""A pinned version with the lines of its hashes."""


@dataclass(frozen=True, slots=True)
class InstallStep:
    """One ``pip install``: what, and whether its dependencies come along."""

    requirements: tuple[str, ...]
    dependencies: bool = True
    hashes: tuple[str, ...] = ()
    """sha256 of the files that may be installed, for a step of one requirement without dependencies."""
    unpinned: bool = False
    """Installed before the pins and not checked against a hash: its files differ by platform and by index."""


@dataclass(frozen=True, slots=True)
class WheelData:
    """A data folder inside a wheel of the package index; it is unpacked, nothing of the wheel is executed."""

    requirement: str
    member: str
    """Folder inside the wheel."""
    target: str
    """Folder inside the environment."""
    hashes: tuple[str, ...] = ()
    """sha256 of the wheels it may be taken from."""


@dataclass(frozen=True, slots=True)
class Integration:
    """A tool with its environment."""

    name: str
    title: str
    summary: str
    version: str
    steps: tuple[InstallStep, ...]
    pins: str = ""
    """File of exact versions with hashes beside this module: installed as they are, and constraints of every step."""
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

    def _pinned(self) -> dict[str, str]:
        """By pinned version (``name==version``) its block of the pins file, hashes and all."""
        folder = files("pcsuite.integrations") / "pins"
        text = (folder / self.pins).read_text(encoding="utf-8") if self.pins else ""
        return {block.split()[0]: block for block in _PIN.findall(text)}

    def hashed_pins(self) -> str:
        """Content of the pins file, as ``pip --require-hashes`` takes it, less what comes before the pins.

        Every block is a requirement with its hashes; pip refuses a file that has none of them.
        """
        before = {requirement for step in self.steps if step.unpinned for requirement in step.requirements}
        return "".join(block for version, block in self._pinned().items() if version not in before)

    def pins_text(self) -> str:
        """The pinned versions, a line each, as ``pip --constraint`` takes them."""
        return "".join(f"{version}\n" for version in self._pinned())


# Both tools read NLTK's data while they are imported (stopwords, the sentence splitter), and would fetch it.
_NLTK_DATA = WheelData(
    "llama-index-core==0.14.25",
    "llama_index/core/_static/nltk_cache",
    "nltk_data",
    (
        "4ebfdc5317f0382501fa80262d7a7382715f80741cf41a7b11a52d4335e6f696",
        "caa7d9c5ac9b13dc33400cf8d5e92e689b6d1e4497eb9bfa50d6f52ca2eb22a1",
    ),
)
PROMPTBENCH = Integration(
    name="promptbench",
    title="PromptBench",
    summary="character, word and sentence attacks on prompts (deepwordbug, checklist, stresstest, semantic)",
    version="0.0.4",
    # torch first: textattack would otherwise let pip choose one, and its resolver takes minutes over it.
    # promptbench itself asks for versions that cannot be installed together, hence without dependencies.
    steps=(
        InstallStep(("torch==2.13.0",), unpinned=True),
        InstallStep(("textattack==0.3.11", "transformers==4.57.6", "autocorrect==2.6.1")),
        InstallStep(
            ("promptbench==0.0.4",),
            dependencies=False,
            hashes=(
                "6d1341582ff59b3db73d39708e5ed55cf2955d49f76db6a9dd85f0ce37740bb8",
                "8f872e4eaa93e2cf8528bf37d3691e6c4334e44c269a7ab3093de92e93006b90",
            ),
        ),
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
"""Receives the progress of an installation, a search or a run of another tool, line by line."""

_STAMP = "pcsuite-integration.txt"
_HASHED = "hashed-pins.txt"


def environment_dir(tool: Integration) -> Path:
    """The folder of the tool's environment, one for all projects of a user, whether it exists or not.

    It lies in the user's cache folder, ``envs/<name>``, beside the models.
    """
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
    # Hashes say which files are the right ones of a version; the version is what is installed.
    steps = [(step.requirements, step.dependencies) for step in tool.steps]
    data = [(entry.requirement, entry.member, entry.target) for entry in tool.data]
    return digest([tool.name, tool.version, steps, data, tool.pins_text()])


def environment_python(tool: Integration) -> Path:
    """The environment's interpreter.

    Raises :class:`~pcsuite.errors.IntegrationError` with the installing command where it is not installed.
    """
    if not is_installed(tool):
        folder = environment_dir(tool)
        state = "is installed by another recipe" if (folder / _STAMP).is_file() else "is not installed"
        raise NotInstalledError(f"{tool.title} {state}", hint=tool.command)
    return _interpreter(environment_dir(tool))


def environment_variables(tool: Integration, folder: Path | None = None) -> dict[str, str]:
    """The variables a process of the tool gets: those of any child, proxies, and its own; no key of the shell.

    ``folder`` is the environment while it is being made, by default the finished one.
    """
    place = str(folder or environment_dir(tool))
    tool_variables = {name: value.replace("{env}", place) for name, value in tool.environment}
    return child_environment(NETWORK, tool_variables)


def install(tool: Integration, report: Report, *, force: bool = False) -> Path:
    """Make the environment unless it is there; a broken or interrupted one is made anew.

    ``report`` gets one line before each step, ``force`` makes it anew in any case. Returns its folder; raises
    :class:`~pcsuite.errors.IntegrationError` where this Python is too old or a step fails.
    """
    if sys.version_info < tool.minimum_python:
        required, present = ("{}.{}".format(*version) for version in (tool.minimum_python, sys.version_info))
        raise IntegrationError(f"{tool.title} needs Python {required} or later, this is {present}")
    folder = environment_dir(tool)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(folder.with_suffix(".lock")):
        if is_installed(tool) and not force:
            return folder
        # An environment that was broken off is not mended but made anew.
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _install_into(tool, folder, report)
        except OSError as error:
            hint = f"then {tool.command}"
            raise IntegrationError(f"{folder}: {error.strerror or error}", hint=hint) from error
        # Last: without it the environment does not count as installed.
        (folder / _STAMP).write_text(recipe_hash(tool) + "\n", encoding="utf-8")
    return folder


def _install_into(tool: Integration, folder: Path, report: Report) -> None:
    report(f"making {folder}")
    without = [] if tool.steps or tool.data else ["--without-pip"]  # most of the time of an empty environment
    _run([sys.executable, "-m", "venv", *without, str(folder)], tool)
    python = str(_interpreter(folder))
    pins = folder / "pins.txt"
    pins.write_text(tool.pins_text(), encoding="utf-8")
    pip = [python, "-m", "pip", "install", "--quiet"]
    for step in sorted(tool.steps, key=lambda step: not step.unpinned):
        if not step.unpinned and not (folder / _HASHED).exists():
            (folder / _HASHED).write_text(tool.hashed_pins(), encoding="utf-8")
            if tool.pins:
                report("installing pinned packages, each checked against its hash")
                _run([*pip, "--no-deps", "--require-hashes", "--requirement", str(folder / _HASHED)], tool)
        report("installing " + ", ".join(step.requirements))
        if step.hashes:
            (requirement,) = step.requirements
            lines = " ".join([requirement, *(f"--hash=sha256:{digest}" for digest in step.hashes)])
            (folder / "step.txt").write_text(lines + "\n", encoding="utf-8")
            _run([*pip, "--no-deps", "--require-hashes", "--requirement", str(folder / "step.txt")], tool)
            continue
        # What the pins have is there already; another platform may need a package more.
        options = ["--constraint", str(pins)] if step.dependencies else ["--no-deps"]
        _run([*pip, *options, *step.requirements], tool)
    for entry in tool.data:
        report(f"fetching {entry.target} from {entry.requirement}")
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--dest", scratch]
            _run([python, "-m", "pip", "download", *options, entry.requirement], tool)
            (wheel,) = Path(scratch).glob("*.whl")
            if entry.hashes and sha256_file(wheel) not in entry.hashes:
                raise IntegrationError(f"{wheel.name}: not the file it should be (sha256)", hint=tool.command)
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
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        reasons = [line for line in lines if "ERROR" in line or "Error" in line] or lines or ["no message"]
        why = f"'{' '.join(command[1:4])} …' said: {reasons[-1].strip()}"
        hint = f"see that the package index can be reached, then {tool.command}"
        raise IntegrationError(f"{tool.title} cannot be installed: {why}", hint=hint)


def _interpreter(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
