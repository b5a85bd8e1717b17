"""Runner overhead: calls per second against a loopback server with a fixed latency.

Compares, in the same run and on the same prompts, a bare aiohttp loop, ``pcsuite run`` (rendering, scoring and
logging every call, response cache off and on), the request phase of lm-evaluation-harness (nothing scored, nothing on
disk) and, where it is installed, inspect_ai with a matching task. The limit is in-flight / latency. CPU is that of the
asking process alone, per call: on a busy machine it says more than the rate. All are warmed up by some calls, then
take turns; medians over the turns are shown, with the smallest and largest ratio of a turn to its own bare loop.

    python benchmarks/runner_overhead.py [--calls 3840] [--rounds 5] [--inflight 64] [--latency 0.05]

``PCS_LM_EVAL_PYTHON`` names an interpreter that has ``lm_eval[api]``; by default this one is tried.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import yaml

from pcsuite.config.load import load_suite
from pcsuite.prompts.conditions.conditions import apply_condition
from pcsuite.runners.plan import build_plan
from pcsuite.runners.run_suite import run_suite

SERVER = Path(__file__).with_name("loopback_server.py")


def profile(folder: Path, base_url: str, calls: int, inflight: int) -> Path:
    """A profile of ``calls`` rows on the bundled news items."""
    replicates = max(1, calls // (48 * 4))
    model = {
        "provider": "openai",
        "family": "f",
        "size": "7B",
        "params_b": 7,
        "base_url": base_url,
        "model": "bench",
    }
    (folder / "models.yaml").write_text(yaml.safe_dump({"version": "1.0", "models": {"bench": model}}))
    data = {
        "version": "1.0",
        "run": {"name": "bench", "output_dir": str(folder / "outputs"), "cache_dir": str(folder / "cache")},
        "repro": {
            "seeds": {"D1": [f"1..{replicates}"]},
            "seeds_per_task": {"default": replicates},
            "max_inflight": inflight,
        },
        "suite": {"models_ref": "models.yaml"},
        "selection": {
            "tasks": ["agnews_json"],
            "models": ["bench"],
            "conditions": ["C0", "C2", "C3", "C4"],
            "decoding_regimes": ["D1"],
        },
        "length_control": "off",
    }
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


class Rate(NamedTuple):
    """How fast calls were made, and what one cost the asking process."""

    calls_per_s: float
    cpu_ms: float | None = None


async def bare_loop(base_url: str, prompts: list[str], inflight: int) -> Rate:
    """Post the prompts with nothing around it."""
    import aiohttp

    waiting = iter(prompts)

    async def work(session: aiohttp.ClientSession) -> None:
        for prompt in waiting:
            body = {"model": "bench", "messages": [{"role": "user", "content": prompt}], "max_tokens": 120}
            async with session.post(f"{base_url}/chat/completions", json=body) as reply:
                answer = json.loads(await reply.read())
            assert answer["choices"][0]["message"]["content"]

    started, cpu = time.perf_counter(), time.process_time()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(work(session) for _ in range(inflight)))
    spent = (time.process_time() - cpu) / len(prompts) * 1000
    return Rate(len(prompts) / (time.perf_counter() - started), spent)


LM_EVAL = """
import json, os, sys, time
os.environ["OPENAI_API_KEY"] = "none"
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalChatCompletion
base_url, inflight, prompts = json.load(sys.stdin)
model = LocalChatCompletion(base_url=base_url + "/chat/completions", model="bench", num_concurrent=inflight,
                            tokenizer_backend=None, max_gen_toks=120)
def ask(some):
    requests = [Instance("generate_until", {}, (model.apply_chat_template([{"role": "user", "content": text}]),
                         {"until": [], "max_gen_toks": 120, "do_sample": False}), index)
                for index, text in enumerate(some)]
    return model.generate_until(requests, disable_tqdm=True)
ask(prompts[:64])
started, cpu = time.perf_counter(), time.process_time()
assert len(ask(prompts)) == len(prompts)
print(json.dumps([time.perf_counter() - started, time.process_time() - cpu]))
"""


def lm_eval_run(base_url: str, prompts: list[str], inflight: int) -> Rate | None:
    """The same prompts through lm-eval's request phase; ``None`` where no interpreter has it."""
    python = os.environ.get("PCS_LM_EVAL_PYTHON", sys.executable)
    known = subprocess.run([python, "-c", "import lm_eval"], capture_output=True, check=False)
    if known.returncode:
        return None
    # A number makes every prompt another: the harness answers equal ones from its memory.
    numbered = [f"{text} [{index}]" for index, text in enumerate(prompts)]
    done = subprocess.run(
        [python, "-c", LM_EVAL],
        input=json.dumps([base_url, inflight, numbered]),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    seconds, cpu = json.loads(done.stdout.strip().splitlines()[-1])
    return Rate(len(prompts) / seconds, cpu / len(prompts) * 1000)


def inspect_run(base_url: str, prompts: list[str], inflight: int, folder: Path) -> Rate | None:
    """The same prompts through inspect_ai; ``None`` where it is not installed."""
    if importlib.util.find_spec("inspect_ai") is None:
        return None
    os.environ |= {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "none", "INSPECT_LOG_LEVEL": "error"}
    from inspect_ai import Task
    from inspect_ai import eval as inspect_eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate

    samples = [Sample(input=prompt, target="World") for prompt in prompts]
    task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=includes())
    started = time.perf_counter()
    (log,) = inspect_eval(
        task,
        model="openai-api/bench/bench" if "BENCH_BASE_URL" in os.environ else "openai/bench",
        model_args={"responses_api": False},
        max_connections=inflight,
        max_samples=inflight,
        log_dir=str(folder / "inspect"),
        display="none",
        max_tokens=120,
    )
    assert log.status == "success", log.error
    return Rate(len(prompts) / (time.perf_counter() - started))


WARM_UP_CALLS = 640


def suite_run(folder: Path, base_url: str, calls: int, inflight: int, *, use_cache: bool) -> Rate:
    """A whole run of ``calls`` rows in a fresh folder: rendered, asked, scored and logged."""
    folder.mkdir()
    suite = load_suite(profile(folder, base_url, calls, inflight))
    cpu = time.process_time()
    summary = run_suite(suite, quiet=True, use_cache=use_cache)
    assert summary.tally.failed == 0
    spent = (time.process_time() - cpu) / summary.tally.done * 1000
    return Rate(summary.tally.done / summary.seconds, spent)


def prompts_of(folder: Path, calls: int, inflight: int) -> list[str]:
    """The prompts that a run of so many calls sends."""
    folder.mkdir()
    plan = build_plan(load_suite(profile(folder, "http://127.0.0.1:9/v1", calls, inflight)))
    return [
        apply_condition(unit.cell.condition, unit.cell.task.prompting.context(unit.item.input_text)).prompt
        for unit in plan.units("bench")
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=3840)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inflight", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument(
        "--inspect-calls", type=int, default=960, help="calls for inspect_ai, which is slower"
    )
    args = parser.parse_args()
    server = subprocess.Popen(
        [sys.executable, str(SERVER), "--latency", str(args.latency)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    assert server.stdin is not None
    base_url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    results: dict[str, list[Rate]] = {}
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            prompts = prompts_of(folder / "prompts", args.calls, args.inflight)
            number = itertools.count()
            run = partial(suite_run, base_url=base_url, inflight=args.inflight)
            contenders: dict[str, Callable[[int], Rate | None]] = {
                "bare aiohttp loop": lambda calls: asyncio.run(
                    bare_loop(base_url, prompts[:calls], args.inflight)
                ),
                "pcsuite run": lambda calls: run(folder / str(next(number)), calls=calls, use_cache=False),
                "pcsuite run, response cache on": lambda calls: run(
                    folder / str(next(number)), calls=calls, use_cache=True
                ),
                "lm-eval, requests alone": lambda calls: lm_eval_run(
                    base_url, prompts[:calls], args.inflight
                ),
                "inspect_ai": lambda calls: inspect_run(
                    base_url, prompts[: min(calls, args.inspect_calls)], args.inflight, folder
                ),
            }
            for label in list(contenders):
                if contenders[label](min(WARM_UP_CALLS, args.calls)) is None:
                    print(f"{label.partition(',')[0]} is not installed and is left out")
                    del contenders[label]
            for _ in range(args.rounds):
                for label, contender in contenders.items():
                    rate = contender(args.calls)
                    assert rate is not None
                    results.setdefault(label, []).append(rate)
    finally:
        server.stdin.close()
        server.wait(10)
    show(results, args.inflight / args.latency)


def show(results: dict[str, list[Rate]], limit: float) -> None:
    """Print the table: calls per second, share of the limit, ratio to the bare loop, CPU of a call."""
    bare = results["bare aiohttp loop"]
    print(f"limit: {limit:.0f} calls/s")
    print(
        f"{'':32} {'calls/s':>9} {'of limit':>9} {'of bare':>9} {'smallest':>9} {'largest':>9} {'CPU ms':>9}"
    )
    for name, rates in results.items():
        rate = median(each.calls_per_s for each in rates)
        ratios = [each.calls_per_s / own.calls_per_s for each, own in zip(rates, bare, strict=True)]
        known = [each.cpu_ms for each in rates if each.cpu_ms is not None]
        print(
            f"{name:32} {rate:9.0f} {rate / limit:9.2f} {median(ratios):9.2f} {min(ratios):9.2f} {max(ratios):9.2f}"
            f" {f'{median(known):.2f}' if known else '':>9}"
        )


if __name__ == "__main__":
    main()
