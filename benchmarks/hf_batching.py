"""How fast the hf provider answers: as commonly written, in batches, and beside continuous batching.

    python benchmarks/hf_batching.py                                        a small model of random weights, CPU
    python benchmarks/hf_batching.py --device cuda --params 7b --dtype bfloat16 --batches 1,8,32,128 \\
        --prompts 128 --prompt-tokens 420 --tokens 120 --plain 4 --continuous

The weights are random and the tokenizer is made on the spot, so nothing is fetched: speed does not depend on what
a model has learnt. "plain" is `model.generate` on one prompt after the other with transformers' own sampling;
"batch" is the provider; "continuous" is transformers' `generate_batch` over all prompts at once (its own sampling: it
has no seed per row, so the provider does not use it). "in order of arrival" (`--arrival`) is the provider with batches
that are filled as rows come, whatever their lengths. "same_as_alone" says for how many prompts the batch gave the text
that the prompt gives alone.
"bandwidth_share" is the share of the memory bandwidth, measured by a copy in the same run, that reading weights and
cache once per step needs; prefill counts as lost time.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace

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
    "qwen-0.5b": {
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "vocab_size": 151_936,
    },
    "qwen-1.5b": {
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "vocab_size": 151_936,
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
    sizes = {"vocab_size": VOCABULARY, "max_position_embeddings": 4096} | SHAPES[shape]
    config = transformers.LlamaConfig(**sizes)
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


def prompts_of(count: int, mean_length: int, shared: float = 0.0) -> list[str]:
    """Prompts of numbered words, from half to one and a half times the mean length; a share of it begins them all."""
    common = int(shared * mean_length // 2)
    return [
        " ".join(
            f"w{2 + (place * 31 if place < common else number * 7919 + place * 104729) % (VOCABULARY - 2)}"
            for place in range(length)
        )
        for number in range(count)
        for length in [mean_length // 2 + number % mean_length]
    ]


def settle(device: str) -> None:
    """Wait for the GPU; its work is queued, not done, when a call returns."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def copy_bandwidth(device: str) -> float:
    """Bytes per second that a large copy within the device reads and writes."""
    size = 2**31 if device.startswith("cuda") else 2**27
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    settle(device)
    started = time.perf_counter()
    for _ in range(10):
        target.copy_(source)
    settle(device)
    return 2 * 10 * size / (time.perf_counter() - started)


def bytes_per_step(loaded, rows: int, context: float) -> float:
    """What one decoding step must read: every weight once, and the cache of every row."""
    weights = sum(parameter.numel() * parameter.element_size() for parameter in loaded.model.parameters())
    config = loaded.model.config
    heads = config.num_key_value_heads * config.hidden_size // config.num_attention_heads
    width = next(loaded.model.parameters()).element_size()
    return weights + rows * context * 2 * config.num_hidden_layers * heads * width


def run_plain(loaded, prompts: list[str], tokens: int) -> int:
    """One prompt after the other through `generate`, as scripts commonly do."""
    made = 0
    for prompt in prompts:
        encoded = loaded.tokenizer(prompt, return_tensors="pt").to(loaded.model.device)
        out = loaded.model.generate(
            input_ids=encoded["input_ids"],
            attention_mask=encoded["attention_mask"],
            max_new_tokens=tokens,
            do_sample=True,
            temperature=0.7,
            top_p=0.95,
            pad_token_id=0,
        )
        made += out.shape[1] - encoded["input_ids"].shape[1]
    return made


def run_continuous(loaded, prompts: list[str], tokens: int) -> int:
    """All prompts through transformers' continuous batching."""
    config = transformers.GenerationConfig(
        max_new_tokens=tokens, do_sample=True, temperature=0.7, top_p=0.95, eos_token_id=0, pad_token_id=0
    )
    inputs = [loaded.tokenizer(prompt)["input_ids"] for prompt in prompts]
    results = loaded.model.generate_batch(inputs, generation_config=config, progress_bar=False)
    failed = [result.error for result in results.values() if result.error]
    if failed or len(results) != len(inputs):
        raise SystemExit(f"continuous batching failed: {failed[:1] or 'answers are missing'}")
    return sum(len(result.generated_tokens) for result in results.values())


def run_batches(loaded, calls, size: int, device: str, in_order: bool = False):
    """All calls through the provider, after one batch that warms up; answers and seconds."""
    options = HfOptions(path="random", batch_size=size, batch_wait_ms=20)
    adapter = LocalHfAdapter("m", options, loaded=loaded)
    if in_order:
        adapter._thread._choose = lambda waiting, size: range(size)
    try:
        for future in [adapter.submit(*call) for call in calls[:size]]:
            future.result()
        settle(device)
        started = time.perf_counter()
        waiting = [adapter.submit(*call) for call in calls]
        answers = [future.result() for future in waiting]
        return answers, time.perf_counter() - started
    finally:
        adapter.close()


def timed(run, device: str) -> tuple[int, float]:
    """Tokens made and seconds taken, after one run that warms up."""
    run(True)
    settle(device)
    started = time.perf_counter()
    made = run(False)
    settle(device)
    return made, time.perf_counter() - started


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--params", choices=SHAPES, default="small", help="shape of the model")
    parser.add_argument("--device", default="cpu", help="torch device")
    parser.add_argument("--dtype", default="float32", help="precision of the weights")
    parser.add_argument("--batches", default="1,4,16", help="batch sizes, the first one is the reference")
    parser.add_argument("--prompts", type=int, default=16, help="prompts per batch size")
    parser.add_argument("--alone", type=int, default=8, help="prompts of batch size 1")
    parser.add_argument("--prompt-tokens", type=int, default=64, help="mean length of a prompt")
    parser.add_argument(
        "--shared", type=float, default=0.0, help="share of the shortest prompt that all begin with"
    )
    parser.add_argument("--tokens", type=int, default=16, help="longest answer")
    parser.add_argument("--uneven", action="store_true", help="answers from a fifth of that to all of it")
    parser.add_argument("--arrival", action="store_true", help="measure batches in the order of arrival too")
    parser.add_argument("--plain", type=int, default=4, help="prompts for plain generate (0: leave it out)")
    parser.add_argument("--continuous", action="store_true", help="measure continuous batching too")
    return parser.parse_args()


def main() -> None:
    """Measure and print one JSON line per way and batch size."""
    args = arguments()
    loaded = random_model(args.params, args.device, args.dtype)
    count = sum(parameter.numel() for parameter in loaded.model.parameters())
    bandwidth = copy_bandwidth(args.device)
    facts = {"parameters_m": round(count / 1e6), "device": loaded.device, "dtype": loaded.dtype}
    print(json.dumps(facts | {"copy_gb_per_s": round(bandwidth / 1e9)}), flush=True)
    prompts = prompts_of(args.prompts, args.prompt_tokens, args.shared)
    context = args.prompt_tokens + args.tokens / 2

    def show(way: str, rows: int, made: int, seconds: float, **more: object) -> None:
        needed = made / rows * bytes_per_step(loaded, rows, context) / bandwidth
        line = {"way": way, "rows": rows, "tokens": made, "tokens_per_s": round(made / seconds, 1)}
        print(json.dumps(line | {"bandwidth_share": round(needed / seconds, 3)} | more), flush=True)

    if args.plain:
        chosen = prompts[: args.plain]
        made, seconds = timed(
            lambda warm: run_plain(loaded, chosen[:1] if warm else chosen, args.tokens), args.device
        )
        show("plain", 1, made, seconds)
    decoding = Decoding("d1", 0.7, 0.95, args.tokens)
    alone: list[str] = []
    for size in (int(text) for text in args.batches.split(",")):
        lengths = [
            args.tokens * (1 + number * 3 % 5) // 5 if args.uneven else args.tokens
            for number in range(len(prompts))
        ]
        calls = [
            (prompt, replace(decoding, max_tokens=length), number)
            for number, (prompt, length) in enumerate(zip(prompts, lengths, strict=True))
        ]
        calls = calls[: args.alone] if size == 1 else calls
        for in_order in (False, True) if args.arrival else (False,):
            answers, seconds = run_batches(loaded, calls, size, args.device, in_order)
            texts = [answer["text"] for answer in answers]
            alone = alone or texts
            same = sum(text == single for text, single in zip(texts, alone, strict=False))
            show(
                "in order of arrival" if in_order else "batch",
                size,
                sum(answer["usage"]["completion_tokens"] for answer in answers),
                seconds,
                same_as_alone=f"{same}/{min(len(texts), len(alone))}",
                seed_honoured=answers[0]["seed_honoured"],
            )
    if args.continuous:
        made, seconds = timed(
            lambda warm: run_continuous(loaded, prompts[:2] if warm else prompts, args.tokens), args.device
        )
        show("continuous", len(prompts), made, seconds)


if __name__ == "__main__":
    main()
