from __future__ import annotations

import asyncio
import builtins

import numpy as np
import pytest

from pcsuite.config.definitions import ModelSpec
from pcsuite.engines.adapters import _hf_decoding, local_hf
from pcsuite.engines.adapters._hf_decoding import can_share_cache, forward, nearest
from pcsuite.engines.adapters.base import Decoding, Request
from pcsuite.engines.adapters.local_hf import HfOptions, LocalHfAdapter
from pcsuite.engines.session import check_model
from pcsuite.errors import ConfigError, EngineError, MissingExtraError
from support.hf_model import WEIGHTS, shared_hf_model
from support.tiny_hf import answer_all, tiny_adapter

D0 = Decoding("d0", 0.0, 1.0, 4)
D1 = Decoding("d1", 0.7, 0.95, 4)


def spec(**options):
    return ModelSpec(provider="hf", family="f", size="s", params_b=1, **options)


def test_a_source_is_needed_and_only_one():
    for options in ({}, {"path": "a", "weights": WEIGHTS}):
        with pytest.raises(ConfigError, match="give either 'weights'"):
            check_model("m", spec(**options))
    with pytest.raises(ConfigError, match="did you mean 'batch_size'"):
        check_model("m", spec(path="a", batchsize=3))


def test_without_the_extra_the_error_names_it(monkeypatch):
    real = builtins.__import__

    def no_torch(name, *arguments, **keywords):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("no torch", name="torch")
        return real(name, *arguments, **keywords)

    monkeypatch.setattr("importlib.import_module", lambda name, package=None: no_torch(name))
    with pytest.raises(MissingExtraError, match=r"pip install .*\[hf\]'"):
        LocalHfAdapter("m", HfOptions(path="nowhere"))


@pytest.fixture
def model():
    return shared_hf_model()


@pytest.mark.model
def test_a_row_in_a_batch_is_the_row_alone_in_float32(model):
    prompts = [f"Name {number} things {'of a kind ' * (number % 4)}you like." for number in range(32)]
    calls = [(prompt, D0 if seed == 0 else D1, seed) for prompt in prompts for seed in range(3)]
    # Without the chat template, whose tokens would be most of what is read.
    several, one = (
        LocalHfAdapter("m", HfOptions(weights=WEIGHTS, chat=False, **sizes), loaded=model.loaded)
        for sizes in ({"batch_size": 16, "batch_wait_ms": 50}, {"batch_size": 1, "batch_wait_ms": 0})
    )
    try:
        batched = answer_all(several, calls)
        alone = [one.generate(*call) for call in calls]
    finally:
        several.close()
        one.close()
    assert [answer["text"] for answer in batched] == [answer["text"] for answer in alone]
    assert all(answer["seed_honoured"] for answer in batched)
    assert (
        len({answer["text"] for answer in batched[1::3]} | {answer["text"] for answer in batched[2::3]}) > 16
    )


@pytest.mark.model
def test_a_prompt_is_read_once_for_its_rows_of_a_batch(model, monkeypatch):
    read = []

    def recorded(owner, token_ids, visible, kept):
        if kept is None:
            read.append((tuple(token_ids.shape), visible.sum(-1).tolist()))
        return forward(owner, token_ids, visible, kept)

    monkeypatch.setattr(_hf_decoding, "forward", recorded)
    prompts = ["Name one river.", "Name one river, and say in which country it meets the sea."]
    lengths = [len(model.prompt_tokens(prompt)) for prompt in prompts]
    calls = [(prompt, D1, seed) for seed in range(4) for prompt in prompts]
    answers = answer_all(model, calls)
    assert read == [((2, max(lengths) - 1), [length - 1 for length in lengths])]
    monkeypatch.undo()
    assert [answer["usage"]["prompt_tokens"] for answer in answers] == lengths * 4
    assert [answer["text"] for answer in answers] == [model.generate(*call)["text"] for call in calls]


@pytest.mark.parametrize(
    ("kind", "keeps"), [("full", True), ("window", True), ("recurrent", False), ("hybrid", False)]
)
def test_models_that_keep_their_prompts_and_some_that_cannot(kind, keeps):
    adapter = tiny_adapter(kind)
    try:
        assert can_share_cache(adapter.loaded.model) is keeps
        long = " ".join(f"w{2 + number % 60}" for number in range(30))
        decoding = Decoding("d1", 0.7, 0.95, 20)
        rows = [(prompt, decoding, seed) for prompt in (long, f"{long} w9", "w5") for seed in (1, 2)]
        batch = [answer["text"] for answer in answer_all(adapter, rows)]
        assert len(set(batch)) == len(rows)
        if keeps:  # a recurrent model reads its padding, so its batches are another matter
            assert batch == [adapter.generate(*row)["text"] for row in rows]
    finally:
        adapter.close()


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    torch = pytest.importorskip("torch")
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")
    return request.param


def test_rows_that_ramble_go_on_in_the_next_batch_where_rows_depend_on_their_batch_anyway(monkeypatch):
    passes = []

    def recorded(owner, token_ids, visible, kept):
        passes.append(tuple(token_ids.shape))
        return forward(owner, token_ids, visible, kept)

    monkeypatch.setattr(_hf_decoding, "forward", recorded)
    monkeypatch.setattr(local_hf, "reads_trees", lambda model: False)
    lengths = [40 if number % 8 == 0 else 3 for number in range(64)]
    rows = [
        (f"w{2 + number % 50} w{2 + number % 7}", Decoding("d1", 0.7, 0.95, length), number)
        for number, length in enumerate(lengths)
    ]
    answers, counts = {}, {}
    for repeatable in (True, False):
        monkeypatch.setattr(LocalHfAdapter, "repeatable", repeatable)
        adapter = tiny_adapter("full", batch_size=8, batch_wait_ms=200)
        # The limits stand for what nobody knows beforehand: how much each row writes.
        monkeypatch.setattr(adapter._thread, "_choose", nearest(lambda row: (len(row.prompt),)))
        try:
            answers[repeatable] = answer_all(adapter, rows)
        finally:
            adapter.close()
        counts[repeatable] = len(passes)
        passes.clear()
    assert counts[False] < counts[True] / 2
    for key in (
        "text",
        "finish_reason",
        "usage",
    ):  # float32: the same by luck of rounding, and by design alone
        assert [answer[key] for answer in answers[False]] == [answer[key] for answer in answers[True]]
    slow, quick = (answers[False][number]["latency_ms"] for number in (0, 1))
    assert slow > quick


def test_a_mask_holds_for_its_row_alone_and_one_that_fails_ends_it_alone(device):
    adapter = tiny_adapter("full", device)

    def only_low(tokens):
        return np.array([(1 << 10 + len(tokens) % 3) - 1, 0], dtype=np.int32)

    def broken(tokens):
        raise KeyError("no such state")

    decoding = Decoding("d1", 0.7, 0.95, 24)
    try:
        waiting = [
            adapter.submit("w5 w6", decoding, n, mask) for n, mask in enumerate([only_low, None, broken])
        ]
        low, free = ([int(word[1:]) for word in each.result()["text"].split()] for each in waiting[:2])
        with pytest.raises(EngineError, match="KeyError: 'no such state'"):
            waiting[2].result()
    finally:
        adapter.close()
    assert max(low) < 13
    assert max(free) > 20


def test_alone_a_row_repeats_whatever_came_before_it(device):
    rows = [(prompt, D1, seed) for prompt in ("w5 w6", "w7 w8 w9") for seed in range(4)]
    one, other = (tiny_adapter("full", device, "bfloat16", batch_size=1) for _ in range(2))
    try:
        assert one.repeatable
        texts = [answer["text"] for answer in answer_all(one, rows)]
        assert texts == [answer["text"] for answer in answer_all(other, rows[::-1])][::-1]
    finally:
        one.close()
        other.close()


def test_out_of_memory_is_every_rows_with_a_remedy_and_the_next_batch_goes_on(monkeypatch):
    import torch

    adapter = tiny_adapter("full", batch_size=2)

    def fail(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    try:
        with monkeypatch.context() as patched:
            patched.setattr(local_hf, "decode", fail)
            for waiting in [adapter.submit("w5", D1, seed) for seed in (1, 2)]:
                with pytest.raises(EngineError, match="out of memory with 2 rows.*lower batch_size"):
                    waiting.result()
        assert adapter.generate("w5", D1, 1)["usage"]["completion_tokens"] > 0
    finally:
        adapter.close()


@pytest.mark.parametrize("asked", [True, False])
def test_a_former_key_is_taken_with_a_line_and_stored_answers_stay_known(asked, caplog):
    plain = tiny_adapter("full")
    plain.close()
    assert not caplog.records
    adapter = tiny_adapter("full", cuda_graphs=asked)
    adapter.close()
    (said,) = caplog.messages
    assert said.startswith("model 'full': cuda_graphs does nothing any more")
    assert adapter.identity() == plain.identity()
    assert plain.identity()["cuda_graphs"] == "off: the model is not on a GPU"


@pytest.mark.model
def test_finish_reason_and_usage_are_its_own(model):
    stopped = model.generate("What is the capital of France?", Decoding("d0", 0.0, 1.0, 20), 0)
    assert stopped["text"] == "The capital of France is Paris."
    assert stopped["finish_reason"] == "stop"
    # Seven tokens of text and the token that ends the turn.
    assert stopped["usage"]["completion_tokens"] == 8
    assert stopped["usage"]["prompt_tokens"] == len(model.prompt_tokens("What is the capital of France?"))
    cut = model.generate("What is the capital of France?", Decoding("d0", 0.0, 1.0, 3), 0)
    assert (cut["text"], cut["finish_reason"]) == ("The capital of", "length")
    assert cut["usage"]["total_tokens"] == stopped["usage"]["prompt_tokens"] + 3


@pytest.mark.model
def test_rows_of_a_batch_may_differ_in_length_and_regime(model):
    long, short = Decoding("d0", 0.0, 1.0, 9), Decoding("d1", 0.7, 0.95, 2)
    answers = answer_all(model, [("Count from one to ten.", long, 0), ("Count from one to ten.", short, 5)])
    assert [answer["usage"]["completion_tokens"] for answer in answers] == [9, 2]


@pytest.mark.model
def test_calls_that_are_awaited_together_are_answered_together(model):
    async def both():
        return await asyncio.gather(*(model.agenerate(Request("Say hello.", D1, seed)) for seed in (1, 2)))

    first, second = asyncio.run(both())
    assert first["latency_ms"] == second["latency_ms"]
    assert first["text"] == model.generate("Say hello.", D1, 1)["text"]


@pytest.mark.model
def test_the_chat_template_and_tokenizer_agree_with_llama_cpp(model):
    pytest.importorskip("xllamacpp", reason="the embedded engine is not installed")
    from pcsuite.engines.adapters.llamacpp import LlamaCppAdapter, LlamaCppOptions

    question = "What is the capital of France?"
    reference = LlamaCppAdapter("m", LlamaCppOptions(weights=WEIGHTS, workers=1))
    try:
        assert reference.count_tokens(question) == model.count_tokens(question)
        usage = reference.generate(question, D0, 0)["usage"]
    finally:
        reference.close()
    assert usage["prompt_tokens"] == len(model.prompt_tokens(question))


@pytest.mark.model
def test_a_prompt_beyond_the_context_is_refused_with_the_numbers(model):
    with pytest.raises(EngineError, match=r"90\d\d tokens leaves no room to answer in its context of 8192"):
        model.generate("word " * 9000, D0, 0)


@pytest.mark.model
def test_identity_tells_precision_and_weights(model):
    facts = model.identity()
    assert facts["weights_sha256"].startswith("b179c952")
    assert (facts["dtype"], facts["device"]) == ("float32", "cpu")
    assert "batch_size" not in facts
