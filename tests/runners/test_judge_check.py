"""Asking a judge again: what it said before is in the log, what it says now comes from the model."""

import itertools

import pytest

from pcsuite.analysis.judging import draw_sample
from pcsuite.config.load import load_suite
from pcsuite.logging.labels import Labels, write_sample
from pcsuite.logging.manifest import read_manifest
from pcsuite.runners.judge_check import check_judge
from pcsuite.runners.run_suite import run_suite
from support.judged import write_judged_profile
from support.loopback import LoopbackServer


def judged_run(folder, server):
    known = {"provider": "openai", "family": "f", "size": "7B", "model": "m", "structured": "none"}
    models = {name: known | {"base_url": server.base_url} for name in ("remote", "judge")}
    suite = load_suite(write_judged_profile(folder, items=10, models=models, conditions=("C0",)))
    log = run_suite(suite, quiet=True).paths.log
    sample = draw_sample(log, read_manifest(log), items=10)
    write_sample(log, sample)
    for unit in sample.units:
        Labels(log).add(unit, "pass_fail", "pass")
    return suite


@pytest.mark.parametrize(("steady", "kept"), [(True, 1.0), (False, 0.0)])
def test_self_consistency_is_measured_by_new_calls(tmp_path, steady, kept):
    verdicts = itertools.chain(["pass"] * 10, itertools.repeat("pass" if steady else "fail"))
    numbers = itertools.count()

    def answer(body):
        if "Rubric:" in body["messages"][-1]["content"]:
            return f'{{"verdict": "{next(verdicts)}"}}'
        return f"Open box {next(numbers)}."

    with LoopbackServer(answer=answer) as server:
        suite = judged_run(tmp_path, server)
        calls = len(server.bodies)
        found = check_judge(suite, again=6)
        assert len(server.bodies) == calls + 6
        whole = found.check.records[0]
        assert (whole["self_consistency"], whole["n_again"]) == (kept, 6)
        check_judge(suite, again=0)
        assert len(server.bodies) == calls + 6
        assert "self_consistency" not in check_judge(suite, again=0).check.records[0]
