"""vLLM's engine in this process' charge: a tiny model of random weights, made here. Needs a GPU and vLLM."""

from __future__ import annotations

import asyncio
import json
import random
from importlib.util import find_spec

import jsonschema
import pytest

from pcsuite.config.model_names import model_by_name
from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.engines.adapters.vllm_offline import VllmOfflineAdapter, VllmOptions
from pcsuite.errors import ConfigError, ConstraintUnavailableError, EngineError, MissingExtraError

D0 = Decoding("D0", 0.0, 1.0, 24)
D1 = Decoding("D1", 0.7, 0.95, 24)
SCHEMA = {
    "type": "object",
    "properties": {"label": {"enum": ["World", "Sports"]}, "score": {"type": "integer", "minimum": 3, "maximum": 7}},
    "required": ["label", "score"],
    "additionalProperties": False,
}  # fmt: skip


def gpu_is_there():
    if find_spec("vllm") is None or find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


needs_gpu = pytest.mark.skipif(not gpu_is_there(), reason="vLLM or a GPU is not there")


def test_a_model_needs_a_path():
    with pytest.raises(ConfigError, match="needs 'path'"):
        VllmOfflineAdapter("m")


def test_models_are_named_by_path_or_hub_name():
    entry = model_by_name("vllm-offline/Qwen/Qwen2.5-7B-Instruct")
    assert (entry.provider, entry.provider_options()["path"]) == ("vllm-offline", "Qwen/Qwen2.5-7B-Instruct")


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is there")
def test_without_vllm_the_extra_is_named():
    with pytest.raises(MissingExtraError, match="vllm"):
        VllmOfflineAdapter("m", VllmOptions(path="nowhere"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Llama of two layers whose tokenizer knows the 256 bytes."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    torch.manual_seed(0)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {"<end>": 0} | {letter: number for number, letter in enumerate(alphabet, start=1)}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")
    config = transformers.LlamaConfig(
        vocab_size=264, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=1024, eos_token_id=0, bos_token_id=None,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("tiny")
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(path)
    fast.save_pretrained(path)
    return path


@pytest.fixture(scope="module", params=[False, True], ids=["fast", "batch_invariant"])
def adapter(request, folder):
    options = VllmOptions(path=str(folder), gpu_memory=0.2, batch_invariant=request.param, batch_size=16)
    model = VllmOfflineAdapter("tiny", options)
    yield model
    model.close()


@needs_gpu
def test_usage_end_and_seeds(adapter):
    answer = adapter.generate("Hello", D1, 1)
    assert answer["usage"]["prompt_tokens"] == 5
    assert answer["finish_reason"] in ("stop", "length")
    assert answer["seed_honoured"] is adapter.options.batch_invariant
    assert adapter.generate("Hello", D1, 1)["text"] == answer["text"]
    assert adapter.generate("Hello", D1, 2)["text"] != answer["text"]
    assert adapter.count_tokens("Hello") == 5
    assert adapter.identity()["engine"].startswith("vllm ")


@needs_gpu
def test_rows_of_a_batch(adapter):
    requests = [Request(f"Question {number}?", D1, number) for number in range(40)]

    async def ask(order):
        return dict(zip(order, await asyncio.gather(*map(adapter.agenerate, order)), strict=True))

    first = asyncio.run(ask(requests))
    again = asyncio.run(ask(random.Random(0).sample(requests, len(requests))))
    same = sum(first[request]["text"] == again[request]["text"] for request in requests)
    print("same in another order:", same, "of", len(requests))
    if adapter.options.batch_invariant:
        assert same == len(requests)


@needs_gpu
def test_constraints_are_enforced(adapter):
    roomy = Decoding("D1", 0.7, 0.95, 80)
    for seed in range(6):
        constraint = Constraint("json_schema", json.dumps(SCHEMA))
        answer = adapter.generate_constrained("Classify.", roomy, seed, constraint)
        assert answer["constraint_backend"] == "native:vllm+llguidance"
        jsonschema.validate(json.loads(answer["text"]), SCHEMA)
        assert "\n" not in answer["text"]
    pattern = adapter.generate_constrained("Say.", roomy, 0, Constraint("regex", "a{3}b{2}"))
    assert pattern["text"] == "aaabb"
    grammar = adapter.generate_constrained("Say.", roomy, 0, Constraint("cfg", 'start: "yes" | "no"'))
    assert grammar["text"] in ("yes", "no")
    with pytest.raises(ConstraintUnavailableError):
        adapter.generate_constrained("Say.", roomy, 0, Constraint("cfg", "start: undefined_rule"))


@needs_gpu
def test_a_prompt_that_does_not_fit_is_told(adapter):
    with pytest.raises(EngineError, match="tiny") as caught:
        adapter.generate("x" * 2000, D0, 0)
    assert caught.value.outcome == "too_long"
