"""HELM's scenarios: how they are named, which task of ours they share a benchmark with, where their data goes."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pcsuite.errors import ConfigError, DataError

SCENARIOS_FOLDER = "scenarios"
"""Folder of HELM's output where it looks for data before it fetches any."""
MMLU_SPLITS = ("dev", "val", "test")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One HELM run entry without its model: ``truthful_qa:task=mc_single``."""

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)

    @property
    def entry(self) -> str:
        """As HELM writes it."""
        listed = ",".join(f"{key}={value}" for key, value in self.arguments.items())
        return f"{self.name}:{listed}" if listed else self.name

    def for_model(self, model: str, deployment: str) -> str:
        """The run entry for a model. HELM wants ``model`` beside ``model_deployment``."""
        more = f"model={model}" + ("" if deployment == model else f",model_deployment={deployment}")
        return f"{self.entry},{more}" if self.arguments else f"{self.name}:{more}"


def parse_scenarios(text: str | Iterable[str]) -> list[Scenario]:
    """Scenarios from a list, or from text with commas both between entries and between an entry's arguments.

    A piece such as ``method=x`` can only go on with the entry before it.
    """
    entries: list[str] = []
    pieces = (
        text.split(",") if isinstance(text, str) else [part for entry in text for part in entry.split(",")]
    )
    for piece in (piece.strip() for piece in pieces):
        if piece and entries and "=" in piece and ":" not in piece:
            entries[-1] += ("," if ":" in entries[-1] else ":") + piece
        elif piece:
            entries.append(piece)
    return [_scenario(entry) for entry in dict.fromkeys(entries)]


def _scenario(entry: str) -> Scenario:
    name, _, rest = entry.partition(":")
    arguments: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        key, sep, value = part.partition("=")
        if not sep or not key or not value:
            raise ConfigError(f"scenario '{entry}': '{part}' is not KEY=VALUE")
        if key in ("model", "model_deployment"):
            raise ConfigError(f"scenario '{entry}': models are chosen by --models, not in the scenario")
        arguments[key] = value
    if name == "truthful_qa":
        arguments.setdefault("task", "mc_single")
    if name == "mmlu" and "subject" not in arguments:
        raise ConfigError("scenario 'mmlu' needs a subject", hint="for example mmlu:subject=econometrics")
    return Scenario(name, arguments)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file HELM reads, and where published copies of it may stand in the user's folder."""

    target: str
    """Below HELM's ``scenarios`` folder."""
    places: tuple[str, ...]


def data_files(scenario: Scenario) -> tuple[DataFile, ...]:
    """What a scenario needs locally; nothing for scenarios whose data HELM fetches itself."""
    if scenario.name == "truthful_qa":
        name = "TruthfulQA.csv"
        places = (f"truthfulqa/v1/{name}", f"truthfulqa/{name}", f"truthful_qa/{name}", f"v1/{name}", name)
        return (DataFile(f"truthful_qa/data/{name}", places),)
    if scenario.name == "gsm":
        return tuple(
            DataFile(
                f"gsm/gsm_data_{split}", (f"gsm8k/{split}.jsonl", f"gsm/{split}.jsonl", f"{split}.jsonl")
            )
            for split in ("train", "test")
        )
    if scenario.name == "mmlu":
        files = []
        for split in MMLU_SPLITS:
            name = f"{split}/{scenario.arguments['subject']}_{split}.csv"
            found = (f"mmlu/data/{name}", f"mmlu/{name}", f"data/{name}", name)
            files.append(DataFile(f"mmlu/data/{name}", found))
        return tuple(files)
    return ()


def place_data(scenarios: Iterable[Scenario], data_dir: Path | None, output: Path) -> str:
    """Put the scenarios' files where HELM looks, and return a hash of them.

    Files that HELM's folder has already stay; those of ``data_dir`` replace them.
    """
    digest = hashlib.sha256()
    for scenario in scenarios:
        for wanted in data_files(scenario):
            target = output / SCENARIOS_FOLDER / wanted.target
            source = _source(wanted, data_dir)
            if source is not None:
                _copy(source, target)
            if not target.is_file():
                raise _missing(scenario, wanted, data_dir)
            digest.update(wanted.target.encode())
            digest.update(hashlib.sha256(target.read_bytes()).digest())
    return digest.hexdigest()


def _source(wanted: DataFile, data_dir: Path | None) -> Path | None:
    if data_dir is None:
        return None
    return next((data_dir / place for place in wanted.places if (data_dir / place).is_file()), None)


def _copy(source: Path, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    except OSError as error:
        raise DataError(
            f"{source} cannot be placed for HELM at {target}: {error.strerror or error}"
        ) from error


def _missing(scenario: Scenario, wanted: DataFile, data_dir: Path | None) -> DataError:
    name = Path(wanted.places[-1]).name
    if data_dir is None:
        return DataError(
            f"scenario '{scenario.entry}' needs {name}, and no folder with published files was named",
            hint="give --data DIR, or integrations.helm.data_dir",
        )
    return DataError(
        f"scenario '{scenario.entry}': {data_dir} has no {name}",
        hint="looked for " + ", ".join(wanted.places),
    )
