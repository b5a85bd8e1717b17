"""The local executor: rows go out as they are finished, and models stay open over several plans."""

import asyncio

from pcsuite.config.load import load_suite
from pcsuite.engines.limits import RetryPolicy
from pcsuite.logging.log import RunLog, RunPaths, iter_rows
from pcsuite.prompts.prompt import fit
from pcsuite.runners import pipeline
from pcsuite.runners.edits import registered_perturbation
from pcsuite.runners.executors import ExecutorChoice
from pcsuite.runners.executors.local import LocalExecutor
from pcsuite.runners.pipeline import Work
from pcsuite.runners.plan import build_plan
from pcsuite.runners.run_suite import run_into, run_plan
from support.profiles import write_profile


def test_rows_of_a_model_that_answers_at_once_are_written_on_the_way(tmp_path, monkeypatch):
    log = RunPaths.of(tmp_path / "outputs", "t").log
    written = []

    def watching(*arguments):
        written.append(log.read_bytes().count(b"\n"))
        return fit(*arguments)

    monkeypatch.setattr(pipeline, "fit", watching)
    run_plan(build_plan(load_suite(write_profile(tmp_path, items=20))), quiet=True)
    assert len(written) == 20 * 3  # prompts are made once for all replicates
    assert written[0] == 0
    # 16 calls are in flight at most, so all but the last few rows before a prompt are in the file by then.
    assert written[-1] > 20 * 3 * 3 - 2 * 16 - 3


def test_one_executor_can_carry_out_several_plans(tmp_path):
    path = write_profile(tmp_path, items=4)
    plans = [build_plan(load_suite(path, {"selection.conditions": [name]})) for name in ("C0", "C3")]
    work = Work(plans[0], RetryPolicy(), registered_perturbation, False, None)
    paths = RunPaths.of(tmp_path / "outputs", "both")

    async def main():
        async with LocalExecutor(work, ExecutorChoice(), quiet=True) as executor:
            with RunLog(paths) as log:
                return [(await run_into(log, plan, executor, quiet=True)).tally.done for plan in plans]

    assert asyncio.run(main()) == [12, 12]
    rows = list(iter_rows(paths.log))
    assert len({row.run_id for row in rows}) == len(rows) == 24
    assert {row.condition.id for row in rows} == {"C0", "C3"}
