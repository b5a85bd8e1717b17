"""Loading transformers models: a folder, a hub name, or a catalogue GGUF file converted once.

transformers reads GGUF by dequantising every tensor, which takes half a minute; the result is kept beside the
file as float32 safetensors (exact: no rounding is added), which load in well under a second.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcsuite._util.files import building_folder
from pcsuite._util.hashing import sha256_hex
from pcsuite.engines.weights import cached_sha256, catalogue_entry, pulled_path
from pcsuite.errors import EngineError, require

CONVERTED = "safetensors-float32"
STAMP = "pcsuite.json"


@dataclass(slots=True)
class LoadedModel:
    """A model with its tokenizer, and what identifies them."""

    model: Any
    tokenizer: Any
    weights_sha256: str
    stop_tokens: frozenset[int]
    pad_token: int
    context_tokens: int | None
    dtype: str
    device: str
    first_token: int | None = None
    """Token that must begin a plain prompt and that the tokenizer does not put there by itself."""


def require_stack() -> tuple[Any, Any]:
    """torch and transformers, or the error that names the extra."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return require("torch", "hf"), require("transformers", "hf")


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Loading without progress bars and advice on standard error."""
    from transformers.utils import logging as verbosity

    level = verbosity.get_verbosity()
    bars = verbosity.is_progress_bar_enabled()
    verbosity.set_verbosity_error()
    verbosity.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        verbosity.set_verbosity(level)
        if bars:
            verbosity.enable_progress_bar()


def converted_folder(weights_id: str, cache_dir: Path | None = None) -> Path:
    """The safetensors folder of a catalogue file, converted now if it is not there yet (half a minute, once).

    A file that was not pulled, or cannot be converted, is an ``EngineError`` with the remedy.
    """
    entry = catalogue_entry(weights_id)
    source = pulled_path(entry, cache_dir)
    folder = source.parent / CONVERTED
    if (folder / STAMP).is_file():
        return folder
    torch, transformers = require_stack()
    require("gguf", "hf")
    require("accelerate", "hf")
    try:
        with building_folder(folder, STAMP) as scratch, quiet_libraries():
            file = {"gguf_file": source.name}
            tokenizer = transformers.AutoTokenizer.from_pretrained(source.parent, **file)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                source.parent, dtype=torch.float32, **file
            )
            # The tensors are plain numbers now; what says "quantised" would make saving refuse or mislead.
            model.hf_quantizer = None
            model.is_quantized = False
            if hasattr(model.config, "quantization_config"):
                del model.config.quantization_config
            model.save_pretrained(scratch)
            tokenizer.save_pretrained(scratch)
            stamp = {
                "source_sha256": entry.sha256,
                "first_token": _first_token(source),
                "transformers": transformers.__version__,
                "dtype": "float32",
            }
            (scratch / STAMP).write_text(json.dumps(stamp), encoding="utf-8")
    except (OSError, ValueError, RuntimeError) as error:
        raise EngineError(f"{source}: cannot be converted to safetensors: {error}") from error
    return folder


def load_model(
    source: str | Path, *, dtype: str, device_map: str | Mapping[str, Any], revision: str | None = None
) -> LoadedModel:
    """Load a model folder or hub name for generation, quietly.

    ``dtype`` and ``device_map`` are transformers' (``auto`` is the CPU where there is no GPU), ``revision`` a
    branch, tag or commit of the hub. What cannot be loaded is an ``EngineError``, a missing library names its
    extra.
    """
    torch, transformers = require_stack()
    precision = getattr(torch, dtype) if dtype != "auto" else "auto"
    placement: Any = dict(device_map) if isinstance(device_map, Mapping) else device_map
    # "auto" needs accelerate, which a CPU alone can do without.
    if device_map == "auto" and not torch.cuda.is_available():
        placement = "cpu"
    if placement not in ("cpu", "cuda"):
        require("accelerate", "hf")
    extra = {} if revision is None else {"revision": revision}
    try:
        with quiet_libraries():
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, padding_side="left", **extra)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                source, dtype=precision, device_map=placement, **extra
            )
    except (OSError, ValueError, KeyError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EngineError(
            f"cannot load model '{source}': {first}",
            hint="give a folder of safetensors or a reachable hub name",
        ) from error
    return prepare_model(model, tokenizer, str(source))


def prepare_model(model: Any, tokenizer: Any, source: str) -> LoadedModel:
    """Make a loaded model decode by our sampler alone: its own generation defaults are dropped, padding goes left.

    ``source`` names it in errors; the weights of a folder are identified by their hash, of a hub model by its commit.
    """
    _, transformers = require_stack()
    model.eval()
    stop_tokens = _stop_tokens(model, tokenizer)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token_id = min(stop_tokens) if stop_tokens else 0
    tokenizer.padding_side = "left"
    tokenizer.clean_up_tokenization_spaces = False
    # A model's own defaults (top_k, repetition penalty, …) would be merged into every call.
    model.generation_config = transformers.GenerationConfig(
        pad_token_id=tokenizer.pad_token_id, eos_token_id=None, do_sample=False
    )
    limit = getattr(model.config, "max_position_embeddings", None)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        weights_sha256=_weights_identity(model, source),
        stop_tokens=stop_tokens,
        pad_token=int(tokenizer.pad_token_id),
        context_tokens=int(limit) if limit else None,
        dtype=str(model.dtype).removeprefix("torch."),
        device=str(model.device.type),
        first_token=_read_stamp(source).get("first_token"),
    )


def _stop_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    stops: set[int] = set()
    for owner in (model.generation_config, model.config, tokenizer):
        value = getattr(owner, "eos_token_id", None)
        stops.update([value] if isinstance(value, int) else value or [])
    # Chat models end their turn with a token of its own, which some files do not name as the end of text.
    unknown = getattr(tokenizer, "unk_token_id", None)
    for name in ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>"):
        token = tokenizer.convert_tokens_to_ids(name)
        if isinstance(token, int) and token != unknown and token >= 0:
            stops.add(token)
    return frozenset(stops)


def _first_token(file: Path) -> int | None:
    """The token that a GGUF file puts before every text, which the tokenizer converted from it leaves out."""
    from gguf import GGUFReader

    fields = GGUFReader(file).fields
    add, token = (fields.get(f"tokenizer.ggml.{name}") for name in ("add_bos_token", "bos_token_id"))
    return int(token.contents()) if add and token and add.contents() else None


def _read_stamp(source: str) -> dict[str, Any]:
    stamp = Path(source) / STAMP
    return dict(json.loads(stamp.read_text(encoding="utf-8"))) if stamp.is_file() else {}


def _weights_identity(model: Any, source: str) -> str:
    folder = Path(source)
    if not folder.is_dir():
        return str(getattr(model.config, "_commit_hash", None) or source)
    if stamp := _read_stamp(source):
        return str(stamp["source_sha256"])
    return sha256_hex("".join(cached_sha256(path) for path in sorted(folder.glob("*.safetensors"))))
