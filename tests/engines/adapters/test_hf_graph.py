"""Steps over a cache of fixed length: on the CPU as they are, on a GPU recorded."""

from __future__ import annotations

import pytest

from pcsuite.engines.adapters._hf_graph import STEPS_KEPT, Recorder, round_size, why_not_fixed
from pcsuite.engines.adapters._hf_sampler import Row, _draw_on_device, _draw_row, draw_key
from pcsuite.engines.adapters.base import Decoding
from pcsuite.errors import ConfigError
from support.tiny_hf import answer_all, tiny_adapter

LONG = " ".join(f"w{2 + number % 60}" for number in range(30))
D0 = Decoding("d0", 0.0, 1.0, 20)
D1 = Decoding("d1", 0.7, 0.95, 24)
ROWS = [
    (prompt, decoding, seed)
    for prompt in (LONG, f"{LONG} w9", "w5", "w5 w6")
    for decoding, seed in ((D0, 0), (D1, 1), (D1, 2))
]


def texts(adapter, rows=ROWS):
    try:
        return [answer["text"] for answer in answer_all(adapter, rows)]
    finally:
        adapter.close()


def on_gpu():
    torch = pytest.importorskip("torch")
    return pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


@pytest.mark.parametrize(
    ("least", "size"), [(1, 1), (2, 2), (3, 3), (5, 6), (7, 8), (256, 256), (257, 384), (385, 512)]
)
def test_shapes_are_rounded_up_to_few_sizes(least, size):
    assert round_size(least) == size


def test_a_fixed_cache_gives_the_texts_of_a_growing_one():
    fixed = tiny_adapter("full")
    fixed._recorder = Recorder(fixed.loaded.model)
    found = texts(fixed)
    assert found == texts(tiny_adapter("full"))
    assert len(set(found)) > len(ROWS) // 2


def test_few_recordings_are_kept_and_the_oldest_goes():
    adapter = tiny_adapter("full", batch_size=1)
    adapter._recorder = recorder = Recorder(adapter.loaded.model)
    rows = [("w5 w6 " * 20, Decoding("d", 0.0, 1.0, new), 0) for new in (4, 300, 600, 4)]
    texts(adapter, rows)
    assert list(recorder._steps) == [(1, 768), (1, 256)]
    assert len(recorder._steps) == STEPS_KEPT


@pytest.mark.parametrize(("kind", "said"), [("full", None), ("window", "full_attention, sliding_attention")])
def test_what_cannot_have_a_fixed_cache_is_named(kind, said):
    adapter = tiny_adapter(kind)
    adapter.close()
    reason = why_not_fixed(adapter.loaded.model)
    assert reason is None if said is None else said in reason


def test_without_a_gpu_nothing_is_recorded_and_the_manifest_says_so():
    adapter = tiny_adapter("full")
    adapter.close()
    assert adapter.identity()["cuda_graphs"] == "off: the model is not on a GPU"
    with pytest.raises(ConfigError, match="cuda_graphs is not possible: the model is not on a GPU"):
        tiny_adapter("full", cuda_graphs=True)


@pytest.mark.parametrize("spread", [0.5, 3.0, 12.0])
@pytest.mark.parametrize("top_p", [0.3, 0.95, 1.0])
def test_draws_on_the_device_are_the_draws_row_by_row(spread, top_p):
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    logits = torch.randn(40, 3000) * spread
    logits[:5, 100:400] = float("-inf")
    logits[5:10] = logits[5:10].round()  # ties
    regimes = [Decoding("d1", temperature, top_p, 9) for temperature in (0.0, 0.4, 0.7, 1.3)]
    rows = [Row(regimes[number % 4], draw_key("prompt", number), tokens=[1, 2]) for number in range(40)]
    live = list(range(0, 40, 3)) + list(range(1, 40, 3))
    one_by_one = [_draw_row(logits, rows[index], index) for index in range(40)]
    assert _draw_on_device(logits, rows, live) == [one_by_one[index] for index in live]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert _draw_on_device(logits.to(device), rows, list(range(40))) == one_by_one


@on_gpu()
def test_recorded_steps_give_the_texts_of_launched_ones_on_a_gpu():
    recorded = tiny_adapter("full", "cuda", cuda_graphs=True)
    assert recorded.identity()["cuda_graphs"] == "on"
    found = texts(recorded)
    assert found == texts(tiny_adapter("full", "cuda", cuda_graphs=False))
    assert found == texts(tiny_adapter("full", "cuda"))


@on_gpu()
def test_a_window_is_launched_step_by_step_on_a_gpu():
    adapter = tiny_adapter("window", "cuda")
    assert adapter.identity()["cuda_graphs"].startswith("off: its layers are of kinds")
    assert texts(adapter) == texts(tiny_adapter("window", "cuda", cuda_graphs=False))


@on_gpu()
def test_alone_on_a_gpu_a_row_repeats_whatever_came_before_it():
    one, other = (tiny_adapter("full", "cuda", "bfloat16", batch_size=1) for _ in range(2))
    assert one.repeatable
    assert texts(one) == texts(other, ROWS[::-1])[::-1]


@on_gpu()
def test_masks_bite_in_recorded_steps():
    adapter = tiny_adapter("full", "cuda", cuda_graphs=True)

    def only_low(ids, logits):
        logits[:, 10 + ids.shape[1] % 3 :] = float("-inf")
        return logits

    try:
        waiting = [adapter.submit(*row, mask=only_low if row[2] == 1 else None) for row in ROWS]
        answers = [future.result()["text"].split() for future in waiting]
    finally:
        adapter.close()
    numbers = [[int(word[1:]) for word in answer] for answer in answers]
    masked = [max(found) for row, found in zip(ROWS, numbers, strict=True) if row[2] == 1]
    assert max(masked) < 13
    assert max(max(found) for row, found in zip(ROWS, numbers, strict=True) if row[2] != 1) > 20
