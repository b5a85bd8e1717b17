"""The models HELM is to ask, and the files by which it learns of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pcsuite.config.load import digest
from pcsuite.errors import IntegrationError

BUILT_IN = "simple/model1"
"""HELM's own toy model, which repeats the prompt's last word: it shows that the pipeline works, nothing else."""
ORGANISATION = "pcsuite"
TOKENIZER = "simple/tokenizer1"
"""HELM's tokenizer without files: one token for each character. It only serves to cut prompts that are too long."""
CHARACTERS_PER_TOKEN = 3
"""How many characters of English a token holds at least, for a window that is known in tokens."""
WIDEST_WINDOW = 1_000_000
"""Characters, where the model's window is not known: the server then refuses what is too long."""


@dataclass(frozen=True, slots=True)
class HelmModel:
    """One model of the suite as HELM sees it."""

    id: str
    """Its id in the suite."""
    base_url: str
    """Address of the server HELM asks."""
    remote_name: str
    """Its name on that server."""
    identity: Mapping[str, str]
    """What determines its answers."""
    context_tokens: int | None = None
    params_b: float | None = None
    timeout_s: float = 600.0

    @property
    def name(self) -> str:
        """HELM's name of the model."""
        return helm_name(self.id)

    @property
    def deployment(self) -> str:
        """HELM's name of the deployment; another identity is another one, with a request cache of its own."""
        return f"{ORGANISATION}-{digest(dict(self.identity))[:8]}/{_plain(self.id)}"


def helm_name(model_id: str) -> str:
    """HELM's name of one of our models."""
    return BUILT_IN if model_id == BUILT_IN else f"{ORGANISATION}/{_plain(model_id)}"


def _plain(model_id: str) -> str:
    """HELM splits names at slashes, and run entries at commas, colons and equals signs."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", model_id)


def write_model_files(models: Iterable[HelmModel], folder: Path) -> None:
    """Write ``model_metadata.yaml``, ``model_deployments.yaml`` and ``tokenizer_configs.yaml``.

    Models of earlier runs stay in them: HELM's summary of a suite asks for all that ran in it.
    """
    listed = list(models)
    files = {
        "model_metadata.yaml": ("models", [_metadata(model) for model in listed]),
        "model_deployments.yaml": ("model_deployments", [_deployment(model) for model in listed]),
        "tokenizer_configs.yaml": ("tokenizer_configs", [_tokenizer()]),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, (key, entries) in files.items():
            known = {entry["name"]: entry for entry in [*_earlier(folder / name, key), *entries]}
            text = yaml.safe_dump({key: list(known.values())}, sort_keys=False)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise IntegrationError(
            f"{folder}: HELM's files cannot be written ({error.strerror or error})"
        ) from error


def _earlier(path: Path, key: str) -> list[dict[str, Any]]:
    """Entries of a file that an earlier run wrote; none where it cannot be read."""
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))[key]
        return [entry for entry in entries if isinstance(entry, dict) and "name" in entry]
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        return []


def _metadata(model: HelmModel) -> dict[str, Any]:
    known = {} if model.params_b is None else {"num_parameters": round(model.params_b * 1e9)}
    return {
        "name": model.name,
        "display_name": model.id,
        "description": f"Model '{model.id}' of the suite's profile.",
        "creator_organization_name": ORGANISATION,
        "access": "open",
        "release_date": None,
        "tags": ["TEXT_MODEL_TAG", "FULL_FUNCTIONALITY_TEXT_MODEL_TAG", "INSTRUCTION_FOLLOWING_MODEL_TAG"],
        **known,
    }


def _deployment(model: HelmModel) -> dict[str, Any]:
    window = WIDEST_WINDOW if model.context_tokens is None else model.context_tokens * CHARACTERS_PER_TOKEN
    return {
        "name": model.deployment,
        "model_name": model.name,
        "tokenizer_name": TOKENIZER,
        "max_sequence_length": window,
        "client_spec": {
            "class_name": "helm.clients.vllm_client.VLLMChatClient",
            "args": {
                "base_url": model.base_url,
                "vllm_model_name": model.remote_name,
                "timeout": model.timeout_s,
                "max_retries": 0,
            },
        },
    }


def _tokenizer() -> dict[str, Any]:
    return {
        "name": TOKENIZER,
        "tokenizer_spec": {"class_name": "helm.tokenizers.simple_tokenizer.SimpleTokenizer"},
        "end_of_text_token": "</s>",
        "prefix_token": "<s>",
    }
