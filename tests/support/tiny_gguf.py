"""A model file with a few random weights behind the embedded model's own tokenizer and chat template.

For tests of what happens around a model (rows, errors, copies, tables) and of what is enforced whatever its weights are:
llama.cpp, tokens, template and masks are the real ones, only a token costs a hundredth.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pcsuite._util.files import file_lock
from pcsuite.engines.weights import CATALOGUE, pull_weights

SOURCE = "smollm2-135m-instruct-q4_1"
WIDTH, INNER, HEADS, LAYERS = 64, 128, 2, 1
SIZES = {
    "general.file_type": 1,  # float16
    "llama.block_count": LAYERS,
    "llama.embedding_length": WIDTH,
    "llama.feed_forward_length": INNER,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": HEADS,
    "llama.rope.dimension_count": WIDTH // HEADS,
}
ENDINGS = ("<|im_end|>", '"', "Ċ", "####", ".")
"""Tokens that are likelier than the others, so that free text and strings come to an end."""
ENDINGS_BONUS = 30.0


def tiny_model(**options: Any) -> dict[str, Any]:
    """A model of ``models.yaml`` that runs the tiny file; ``options`` are further keys of it."""
    sizes = {"provider": "llamacpp", "family": "smollm2", "size": "6M", "params_b": 0.006}
    return {**sizes, "path": str(tiny_gguf()), **options}


def tiny_gguf() -> Path:
    """The file, written once per user and recipe: the same bytes each time."""
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    gguf = pytest.importorskip("gguf", reason="the model file cannot be written without it: pip install gguf")
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"pcsuite-tests-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    target = folder / f"tiny-{recipe}.gguf"
    if not target.is_file():
        with file_lock(target.with_suffix(".lock")):
            if not target.is_file():
                write_tiny(gguf, pull_weights(CATALOGUE[SOURCE]), target.with_suffix(".part"))
                target.with_suffix(".part").replace(target)
    return target


def write_tiny(gguf: ModuleType, source: Path, target: Path) -> None:
    """Copy what ``source`` says about its tokenizer, and draw small weights."""
    written = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "llama")
    for name, field in written.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":  # the writer's own
            kind, *inner = field.types
            writer.add_key_value(name, SIZES.get(name, field.contents()), kind, *inner)
    for name, weights in draw_weights(written.fields["tokenizer.ggml.tokens"].contents()):
        writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def draw_weights(tokens: list[str]) -> list[tuple[str, np.ndarray]]:
    """Tensors by name. The last coordinate is constant in what is read and raises ``ENDINGS`` in what is written."""
    draw = np.random.default_rng(0)

    def matrix(rows: int, columns: int, scale: float) -> np.ndarray:
        return draw.standard_normal((rows, columns)) * scale / np.sqrt(columns)

    read, write = matrix(len(tokens), WIDTH, 8.0), matrix(len(tokens), WIDTH, 3.0)
    read[:, -1] = 1.0
    write[:, -1] = [ENDINGS_BONUS * (token in ENDINGS) for token in tokens]
    tensors = [("token_embd.weight", read), ("output.weight", write)]
    for layer in (f"blk.{number}." for number in range(LAYERS)):
        square = {name: matrix(WIDTH, WIDTH, 2.0) for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
        wide = {name: matrix(INNER, WIDTH, 2.0) for name in ("ffn_up", "ffn_gate")}
        layers = {**square, **wide, "ffn_down": matrix(WIDTH, INNER, 2.0)}
        for name in ("attn_output", "ffn_down"):
            layers[name][-1] = 0.0
        tensors += [(f"{layer}{name}.weight", weights) for name, weights in layers.items()]
        tensors += [
            (f"{layer}{name}.weight", np.ones(WIDTH, np.float32)) for name in ("attn_norm", "ffn_norm")
        ]
    # Vectors stay in full precision, as llama.cpp wants them.
    halves = [
        (name, weights.astype(np.float16) if weights.ndim == 2 else weights) for name, weights in tensors
    ]
    return [*halves, ("output_norm.weight", np.ones(WIDTH, np.float32))]
