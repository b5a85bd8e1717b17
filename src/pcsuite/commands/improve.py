"""``pcsuite improve``: a better extraction prompt, guarded by held-out evals."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from pcsuite._util.text import limits_text, signed, text_table
from pcsuite.commands import DIR, FILE, options
from pcsuite.commands.options import Group, flag, several, switch
from pcsuite.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from pcsuite.verifier.improve.engine import ImproveOutcome


IMPROVE = (
    Group("", [
        options.one("model", "model of the profile's models file", default="smollm2-135m"),
        flag("--condition", "condition to extract under (default C4)", default="C4", metavar="C"),
        flag("--iterations", "changes to try in all (default 10)", type=int, default=10, metavar="N"),
        several("--held-out", "evals that only decide (default: a third, by hash)", metavar="ID,ID"),
        flag("--start", "instruction to start from (default: the task's, or one made of a mapping that is not about"
             " buildings)", **FILE),
        switch("--propose-only", "write the next draft and stop, so that you can edit it"),
        flag("--out", "folder of the loop (default: EVALS_DIR/improve)", **DIR),
        switch("--json", "print the summary as JSON instead of a table"),
    ]),
    Group("the change", [
        flag("--method", "who drafts a change: a catalogue of rules (default), or the model itself",
             choices=("rules", "model"), default="rules"),
        flag("--rules", "catalogue of rules (default: the bundled one)", **FILE),
        flag("--accept",
             "which changes are kept: margin=F1, how far the held-out interval may reach below no change (0.02);"
             " min_gain=F1, the training gain a change must exceed (0); patience=N, rejected changes in a row before"
             " the loop stops (3)", action="append", default=[], metavar="KEY=X"),
    ]),
    Group("the extraction", [
        options.one("task", "task (default buildingspec_json)", default="buildingspec_json"),
        flag("--regime", "decoding regime (default D0)", default="D0", metavar="ID"),
        flag("--seed", "seed of the extractions", type=int, default=0),
        flag("--mapping", "mapping file (default: EVALS_DIR/mapping.yaml, the task's or the bundled one)", type=Path),
        flag("--extractor", "extract by your own command, which prints a JSON object: 'CMD {prompt} {document}'",
             metavar="CMD"),
        flag("--extractor-timeout", "seconds one call of the extractor may take (default 600)", type=float,
             default=600.0, metavar="S"),
    ]),
    Group("the profile", [options.CONFIG, options.SET]),
    options.CALLS,
)  # fmt: skip


ACCEPT = {"margin": 0, "min_gain": 0, "patience": 1}
"""What ``--accept`` states, and the least of each."""


def configure_improve(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite improve``.

    The same command goes on where a killed or stopped loop ended; nothing is asked twice.

    examples:
      pcsuite verify-all evals --copy-samples
      pcsuite improve evals --model simulated --iterations 3         # a rehearsal
      pcsuite improve evals --model smollm2-135m --condition C6
      pcsuite improve evals --model qwen3-8b --method model --held-out copper-hill,otter-barn
      pcsuite improve evals --propose-only                           # then edit the draft and run again
      pcsuite improve evals --extractor 'python extract.py {prompt} {document}'    # your own, for PDFs
    """
    about = "EVALS_DIR/<id>/{ground_truth.*,document.*}"
    parser.add_argument("evals_dir", type=Path, metavar="EVALS_DIR", help=about)
    options.add_flags(parser, *IMPROVE)


def execute_improve(args: argparse.Namespace) -> int:
    """Run the improvement loop, or go on with it, and print its steps and the best prompt.

    Raises ``DataError`` for a number below its least, an empty instruction to start from, or evals that cannot be used.
    """
    from pcsuite.verifier.cells import read_text
    from pcsuite.verifier.improve.engine import SUMMARY, ImproveSettings, run_improvement

    if args.iterations < 1:
        raise DataError(f"--iterations {args.iterations}: it must be at least 1")
    accepted = options.key_values(args.accept, "--accept", "margin=0.02")
    for name, value in accepted.items():
        if name not in ACCEPT:
            raise DataError(f"--accept: unknown '{name}'", hint=did_you_mean(name, ACCEPT))
        if not isinstance(value, int if name == "patience" else (int, float)):
            raise DataError(f"--accept {name}={value}: a {'whole ' * (name == 'patience')}number is wanted")
        if value < ACCEPT[name]:
            raise DataError(f"--accept {name}={value:g}: it must be at least {ACCEPT[name]}")
    instruction = None
    if args.start is not None:
        instruction = read_text(args.start).strip()
        if not instruction:
            raise DataError(f"{args.start}: the instruction to start from is empty")
    settings = options.settings_from(
        ImproveSettings,
        args,
        folder=args.out,
        held_out=tuple(args.held_out or ()),
        instruction=instruction,
        **accepted,
    )
    outcome = run_improvement(options.suite_from(args, check_selection=False), settings, quiet=args.quiet)
    if args.json:
        print(json.dumps(json.loads((outcome.folder / SUMMARY).read_text(encoding="utf-8")), indent=1))
    else:
        _print_improvement(outcome)
    return 0


def _print_improvement(outcome: ImproveOutcome) -> None:
    from pcsuite.verifier.improve.engine import BEST_PROMPT

    result, best = outcome.result, outcome.result.best
    rows = []
    for step in result.steps:
        change = "" if step.decision == "baseline" else signed(step.held_out_change, 3)
        if change and step.held_out_low is not None and step.held_out_high is not None:
            change += limits_text(step.held_out_low, step.held_out_high, 3)
        gap = signed(step.train_f1 - step.held_out_f1, 3)
        scores = (f"{step.train_f1:.3f}", f"{step.held_out_f1:.3f}", gap, change)
        rows.append([str(step.iteration), f"v{step.prompt_version:03d}", *scores, step.decision, step.reason])
    headings = ("training F1", "held-out F1", "gap", "held-out change", "decision", "why")
    print(text_table(["iteration", "prompt", *headings], rows))
    print(f"\nstarted from: {outcome.started_from}")
    print(f"held out: {', '.join(outcome.held_out)}")
    if result.stopped == "proposed":
        print(f"draft: {outcome.folder / 'prompts' / f'v{result.prompt.version:03d}.txt'}")
        print("edit it if you like; the same command without --propose-only tries it")
        return
    why = {
        "plateau": "no change helped any more",
        "max_iterations": "all iterations are done",
        "perfect": "the training evals are perfect",
    }[result.stopped]
    print(f"stopped: {why}")
    print(
        f"best: iteration {best.iteration}, prompt v{best.prompt_version:03d}, training F1 {best.train_f1:.3f},"
        f" held-out F1 {best.held_out_f1:.3f}, gap {signed(result.gap, 3)}"
    )
    print(f"prompt: {outcome.folder / BEST_PROMPT}")
    cost = f", ${outcome.spent_cost_usd:.4f}" if outcome.spent_cost_usd else ""
    print(f"spent now: {outcome.spent_tokens:,} tokens{cost}")
