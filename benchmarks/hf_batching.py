"""How much faster the hf provider answers in batches than one at a time, and whether the texts agree.

    python benchmarks/hf_batching.py                                        a small model of random weights, CPU
    python benchmarks/hf_batching.py --device cuda --params 7b --dtype bfloat16 --batches 1,8,32,128

The weights are random and the tokenizer is made on the spot, so nothing is fetched: speed does not depend on what
a model has learnt. "same_as_alone" says for how many prompts the batch gave the text that the prompt gives alone.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from pcsuite.engines.adapters._hf_loading import prepare_model
from pcsuite.engines.adapters.base import Decoding
from pcsuite.engines.adapters.local_hf import HfOptions, LocalHfAdapter

SHAPES = {
    "small": {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 6, "num_attention_heads": 4},
    "1b": {
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_hidden_layers": 22,
        "num_attention_heads": 32,
    },
    "7b": {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
    },
}
VOCABULARY = 32_000


def random_model(shape: str, device: str, dtype: str):
    """A Llama of the given shape with seeded random weights, and a tokenizer of numbered words."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=4096, **SHAPES[shape])
    default = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        with torch.device(device):
            model = transformers.LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(default)
    with torch.no_grad():
        model.lm_head.weight.mul_(
            40
        )  # a trained model is sure of its words; flat scores would measure sorting
    words = {"<end>": 0, "<unknown>": 1} | {f"w{number}": number for number in range(2, VOCABULARY)}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<unknown>"))
    tokenizer.pre_tokenizer = Whitespace()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", unk_token="<unknown>"
    )
    return prepare_model(model, fast, f"random-{shape}")


def main() -> None:
    """Measure and print one JSON line per batch size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--params", choices=SHAPES, default="small", help="shape of the model")
    parser.add_argument("--device", default="cpu", help="torch device")
    parser.add_argument("--dtype", default="float32", help="precision of the weights")
    parser.add_argument("--batches", default="1,4,16", help="batch sizes, the first one is the reference")
    parser.add_argument("--prompts", type=int, default=16, help="prompts per batch size")
    parser.add_argument("--prompt-tokens", type=int, default=64, help="mean length of a prompt")
    parser.add_argument("--tokens", type=int, default=16, help="length of an answer")
    args = parser.parse_args()
    loaded = random_model(args.params, args.device, args.dtype)
    count = sum(parameter.numel() for parameter in loaded.model.parameters())
    decoding = Decoding("d1", 0.7, 0.95, args.tokens)
    prompts = [
        " ".join(f"w{2 + (number * 7919 + place * 104729) % (VOCABULARY - 2)}" for place in range(length))
        for number in range(args.prompts)
        for length in [args.prompt_tokens // 2 + number % args.prompt_tokens]
    ]
    calls = [(prompt, decoding, number) for number, prompt in enumerate(prompts)]
    alone: list[str] | None = None
    for size in (int(text) for text in args.batches.split(",")):
        adapter = LocalHfAdapter(
            "m", HfOptions(path="random", batch_size=size, batch_wait_ms=20), loaded=loaded
        )
        try:
            adapter.generate_many(calls[:size])
            started = time.perf_counter()
            answers = adapter.generate_many(calls)
            seconds = time.perf_counter() - started
        finally:
            adapter.close()
        texts = [answer["text"] for answer in answers]
        alone = texts if alone is None else alone
        made = sum(answer["usage"]["completion_tokens"] for answer in answers)
        line = {
            "parameters_m": round(count / 1e6),
            "device": loaded.device,
            "dtype": loaded.dtype,
            "batch_size": size,
            "tokens": made,
            "tokens_per_s": round(made / seconds, 1),
            "same_as_alone": f"{sum(map(str.__eq__, texts, alone))}/{len(texts)}",
            "seed_honoured": answers[0]["seed_honoured"],
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
