"""Chunks: sized by pace, taken back when lost, named by their place in the plan."""

import asyncio
from dataclasses import replace

import pytest

from pcsuite.config.load import load_suite
from pcsuite.runners.edits import perturbation_refs
from pcsuite.runners.executors.ray_worker import FIRST_ROWS, MAX_ROWS, ChunkSource, UnitKeys, unit_of
from pcsuite.runners.plan import build_plan
from support.profiles import SIMULATED, write_profile


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class FakeUnit:
    def __init__(self, number):
        self.run_id = f"{number:064x}"


def source_of(rows, clock):
    return ChunkSource(iter([FakeUnit(number) for number in range(rows)]), rows, clock)


def finish(source, chunk, clock, seconds):
    clock.now += seconds
    for run_id in list(chunk.waiting):
        assert chunk.arrived(run_id)
    source.close(chunk)


def test_every_unit_has_a_key_that_leads_back_to_it(tmp_path):
    path = write_profile(
        tmp_path, {"one": SIMULATED, "two": SIMULATED}, tasks=("agnews_json", "gsm8k"), items=3
    )
    plan = build_plan(load_suite(path), perturbation_refs(["reorder", "injection"], 2))
    keys = UnitKeys(plan)
    fewer = replace(plan, cells=plan.cells[3:])  # as after proofs that dropped some
    units = [unit for model in ("one", "two") for unit in fewer.units(model)]
    assert len(units) == fewer.calls > 100
    for unit in units:
        assert unit_of(plan, keys.key_of(unit)) == unit


@pytest.mark.slow
def test_chunks_of_a_fast_model_grow_and_of_a_slow_one_shrink():
    async def sizes(seconds_a_row):
        clock = Clock()
        source = source_of(100_000, clock)
        found = []
        for _ in range(3):
            chunk = await source.take(lanes=4)
            found.append(chunk.rows)
            finish(source, chunk, clock, chunk.rows * seconds_a_row)
        return found

    # Two seconds of work each, once the pace is known.
    assert asyncio.run(sizes(0.001)) == [FIRST_ROWS, 2000, MAX_ROWS]
    assert asyncio.run(sizes(0.5)) == [FIRST_ROWS, 4, 4]


def test_the_end_is_cut_finer_so_that_workers_end_together():
    async def scenario():
        clock = Clock()
        source = source_of(1000, clock)
        finish(source, await source.take(lanes=4), clock, 0.032)  # 1000 rows a second
        assert (await source.take(lanes=4)).rows == 121  # an eighth of the 968 left
        while (chunk := await source.take(lanes=4)).rows > 100:
            pass
        assert chunk.rows == 100  # a tenth of a second is never cut

    asyncio.run(scenario())


def test_what_did_not_come_back_is_handed_out_again_and_nothing_else():
    async def scenario():
        clock = Clock()
        source = source_of(40, clock)
        lost = await source.take(lanes=1)
        first, second, *rest = list(lost.waiting)
        assert lost.arrived(first)
        assert lost.arrived(second)
        assert not lost.arrived(second)
        waiting = asyncio.create_task(drain(source, clock))
        await asyncio.sleep(0.01)
        assert not waiting.done()  # the lost chunk may yet be given back
        assert not source.finished
        source.close(lost)
        seen = await asyncio.wait_for(waiting, 60)
        assert sorted(seen) == sorted({f"{number:064x}" for number in range(40)} - {first, second})
        assert set(rest) <= set(seen)
        assert source.finished

    async def drain(source, clock):
        seen = []
        while (chunk := await source.take(lanes=1)) is not None:
            seen += chunk.waiting
            finish(source, chunk, clock, 0.1)
        return seen

    asyncio.run(scenario())
