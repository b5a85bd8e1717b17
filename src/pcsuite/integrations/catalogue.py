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
    minimum_python: tuple[int, int] = (3, 10)
    """Oldest Python its pinned packages exist for."""

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
    # Its metrics look for NLTK's sentence splitter while they are imported, and would fetch it.
    data=(WheelData("llama-index-core==0.14.25", "llama_index/core/_static/nltk_cache", "nltk_data"),),
    probe="import helm.benchmark.run, helm.benchmark.metrics.basic_metrics, helm.clients.vllm_client, spacy",
    environment=(
        ("NLTK_DATA", "{env}/nltk_data"),
        ("OMP_NUM_THREADS", "1"),
    ),
    size="0.9 GB, about 2 minutes",
    minimum_python=(3, 11),
)

INTEGRATIONS: dict[str, Integration] = {tool.name: tool for tool in (PROMPTBENCH, HELM)}


def find_integration(name: str) -> Integration:
    """An integration by name."""
    if name not in INTEGRATIONS:
        raise ConfigError(f"unknown integration '{name}'", hint=did_you_mean(name, INTEGRATIONS))
    return INTEGRATIONS[name]
