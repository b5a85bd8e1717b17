"""The tools that can be installed: what each environment is made of."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from pcsuite.errors import ConfigError, did_you_mean


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

    @property
    def command(self) -> str:
        """The command that installs it."""
        return f"pcsuite integrations install {self.name}"

    def pins_text(self) -> str:
        """Content of the pins file."""
        if not self.pins:
            return ""
        return (files("pcsuite.integrations") / "pins" / self.pins).read_text(encoding="utf-8")


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
    # textattack reads NLTK's stopwords and sentence splitter while it is imported.
    data=(WheelData("llama-index-core==0.14.25", "llama_index/core/_static/nltk_cache", "nltk_data"),),
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

INTEGRATIONS: dict[str, Integration] = {PROMPTBENCH.name: PROMPTBENCH}


def find_integration(name: str) -> Integration:
    """An integration by name."""
    if name not in INTEGRATIONS:
        raise ConfigError(f"unknown integration '{name}'", hint=did_you_mean(name, INTEGRATIONS))
    return INTEGRATIONS[name]
