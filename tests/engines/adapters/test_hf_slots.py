"""Steps over a cache of fixed length: on the CPU as they are, on a GPU recorded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pcsuite.engines.adapters import _hf_slots
from pcsuite.engines.adapters._hf_sampler import Row, _draw_on_device, draw_key, sample_token
from pcsuite.engines.adapters._hf_slots import Slots, round_size, shared_beginnings, why_not_fixed
from pcsuite.engines.adapters.base import Decoding
from pcsuite.errors import ConfigError, EngineError
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


@pytest.fixture
def gpu():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")


@pytest.mark.parametrize(
    ("least", "size"), [(1, 1), (2, 2), (3, 3), (5, 6), (7, 8), (256, 256), (257, 384), (385, 512)]
)
def test_shapes_are_rounded_up_to_few_sizes(least, size):
    assert round_size(least) == size


def slotted(kind, **options):
    adapter = tiny_adapter(kind, **options)
    share = adapter.options.prefix_reuse
    adapter._slots = Slots(
        adapter.loaded.model, rows=adapter.options.batch_size, filler=adapter.loaded.filler, share=share
    )
    return adapter


SAME = " ".join(f"w{20 + number * 7 % 40}" for number in range(100))
MANY = [
    (f"{beginning} w{number} w{number + 1}", replace(decoding, max_tokens=3 + number % 9), seed)
    for number, beginning in enumerate([SAME, SAME + " w4 w4", LONG, ""] * 5, start=2)
    for decoding, seed in ((D0, 0), (D1, 1))
]


@pytest.mark.parametrize("kind", ["full", "window"])
@pytest.mark.parametrize("options", [{}, {"prefix_reuse": False}, {"batch_size": 1}, {"batch_size": 17}])
def test_slots_that_are_filled_again_give_the_texts_of_whole_batches(kind, options):
    rows = ROWS + MANY
    found = texts(slotted(kind, **options), rows)
    assert found == texts(tiny_adapter(kind), rows)
    assert len(set(found)) > len(rows) // 2


def test_a_row_that_needs_a_longer_cache_waits_until_it_can_grow():
    long = ("w5 w6 " * 20, Decoding("d", 0.0, 1.0, 300), 0)
    rows = [*ROWS[:5], long, *ROWS[5:]]
    adapter = slotted("full", batch_size=3)
    assert texts(adapter, rows) == texts(tiny_adapter("full"), rows)
    assert adapter._slots._columns == 384


def test_long_rows_share_the_memory_of_fewer_slots_and_leave_them_again(monkeypatch):
    monkeypatch.setattr(_hf_slots, "USUAL_CACHE", 256)
    long = [("w5 w6 " * 20, Decoding("d", 0.7, 0.95, 700), seed) for seed in range(3)]
    rows = [*ROWS, *long, *(ROWS * 20)]
    adapter = slotted("full", batch_size=6)
    shapes = []
    grow = adapter._slots._grow
    monkeypatch.setattr(adapter._slots, "_grow", lambda columns: (shapes.append(columns), grow(columns)))
    assert texts(adapter, rows) == texts(tiny_adapter("full"), rows)
    assert shapes[-2:] == [768, 256]
    assert (adapter._slots._rows, adapter._slots._columns) == (6, 256)


def test_an_error_fails_the_rows_on_their_way_and_frees_their_slots(monkeypatch):
    adapter = slotted("full")
    step, calls = adapter._slots._step, []

    def failing(*shape):
        calls.append(shape)
        if len(calls) == 3:
            raise RuntimeError("lost the device")
        return step(*shape)

    monkeypatch.setattr(adapter._slots, "_step", failing)
    waiting = [adapter.submit(*row) for row in ROWS[:4]]
    for future in waiting:
        with pytest.raises(RuntimeError, match="lost the device"):
            future.result(10)
    again = [adapter.submit(*row) for row in ROWS]
    assert [future.result(10)["text"] for future in again] == texts(tiny_adapter("full"))
    adapter.close()


@pytest.mark.parametrize("kind", ["full", "window"])
@pytest.mark.parametrize("method", ["_step", "_forward", "_grow"])
def test_out_of_memory_half_the_slots_go_on_where_their_rows_were(kind, method, monkeypatch, caplog):
    torch = pytest.importorskip("torch")
    rows = ROWS + MANY
    adapter = slotted(kind, batch_size=8)
    does, calls = getattr(adapter._slots, method), []

    def failing(*given):
        calls.append(given)
        if len(calls) in (1, 6, 17):
            raise torch.OutOfMemoryError("no room")
        return does(*given)

    monkeypatch.setattr(adapter._slots, method, failing)
    assert texts(adapter, rows) == texts(tiny_adapter(kind), rows)
    times = sum(len(calls) >= failed for failed in (1, 6, 17))
    assert adapter._slots._most == 8 >> times
    assert caplog.text.count("the device is out of memory; going on with up to") == times >= 1


def test_out_of_memory_with_a_single_row_is_said_with_a_remedy(monkeypatch):
    torch = pytest.importorskip("torch")
    adapter = slotted("full", batch_size=2)

    def failing(*_):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(adapter._slots, "_step", failing)
    with pytest.raises(EngineError, match="out of memory with a single row"):
        adapter.submit(*ROWS[0]).result(10)
    adapter.close()


def test_a_shared_beginning_is_read_once_and_kept_for_later_prompts(monkeypatch):
    adapter = slotted("full", batch_size=6)
    forward, read = adapter._slots._forward, []

    def counted(token_ids, beginning):
        read.append((tuple(token_ids.shape), beginning is not None))
        return forward(token_ids, beginning)

    monkeypatch.setattr(adapter._slots, "_forward", counted)
    for numbers in (range(6), range(6, 12)):
        answer_all(adapter, [(f"{SAME} w{20 + number} w9", D0, 0) for number in numbers])
    adapter.close()
    assert read == [((1, 1), False), ((1, 96), False), ((6, 5), True), ((6, 5), True)]


@pytest.mark.parametrize(
    ("prompts", "groups"),
    [
        ([], []),
        ([(1,)], [(0, [0])]),
        ([tuple(range(64)), tuple(range(64))], [(0, [0]), (0, [1])]),
        ([tuple(range(65)), (*range(64), 7)], [(64, [1, 0])]),
        ([tuple(range(200)), tuple(range(130)), (*range(100), 5)], [(96, [2, 1, 0])]),
        ([tuple(range(200)), tuple(range(180)), (*range(70), 990)], [(160, [1, 0]), (0, [2])]),
    ],
)
def test_groups_by_what_prompts_have_in_common(prompts, groups):
    assert sorted(shared_beginnings(prompts)) == sorted(groups)


@pytest.mark.parametrize(
    ("kind", "said"), [("full", None), ("window", None), ("hybrid", "conv, full_attention")]
)
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
    one_by_one = [
        sample_token(logits[index].float().cpu().numpy(), row.decoding, row.key, len(row.tokens))
        for index, row in enumerate(rows[:40])
    ]
    assert _draw_on_device(logits, rows, live) == [one_by_one[index] for index in live]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert _draw_on_device(logits.to(device), rows, list(range(40))) == one_by_one


@pytest.mark.usefixtures("gpu")
def test_recorded_steps_give_the_texts_of_launched_ones_on_a_gpu():
    recorded = tiny_adapter("full", "cuda", cuda_graphs=True)
    assert recorded.identity()["cuda_graphs"] == "on"
    found = texts(recorded)
    assert found == texts(tiny_adapter("full", "cuda", cuda_graphs=False))
    assert found == texts(tiny_adapter("full", "cuda"))


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("kind", ["full", "window"])
def test_slots_on_a_gpu_are_filled_again(kind):
    adapter = tiny_adapter(kind, "cuda", batch_size=5)
    assert adapter.identity()["cuda_graphs"] == "on"
    assert texts(adapter, ROWS + MANY) == texts(tiny_adapter(kind, "cuda", cuda_graphs=False), ROWS + MANY)


@pytest.mark.usefixtures("gpu")
def test_alone_on_a_gpu_a_row_repeats_whatever_came_before_it():
    one, other = (tiny_adapter("full", "cuda", "bfloat16", batch_size=1) for _ in range(2))
    assert one.repeatable
    assert texts(one) == texts(other, ROWS[::-1])[::-1]


@pytest.mark.usefixtures("gpu")
def test_masks_bite_in_recorded_steps():
    adapter = tiny_adapter("full", "cuda", cuda_graphs=True)

    def only_low(tokens):
        return np.array([(1 << 10 + len(tokens) % 3) - 1, 0], dtype=np.int32)

    try:
        waiting = [adapter.submit(*row, mask=only_low if row[2] == 1 else None) for row in ROWS]
        answers = [future.result()["text"].split() for future in waiting]
    finally:
        adapter.close()
    numbers = [[int(word[1:]) for word in answer] for answer in answers]
    masked = [max(found) for row, found in zip(ROWS, numbers, strict=True) if row[2] == 1]
    assert max(masked) < 13
    assert max(max(found) for row, found in zip(ROWS, numbers, strict=True) if row[2] != 1) > 20
