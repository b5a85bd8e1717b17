"""``pcsuite improve``: change the extraction prompt, extract again, keep what does not hurt held-out evals."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pcsuite.errors import DataError

if TYPE_CHECKING:
    from pcsuite.verifier.improve.engine import ImproveOutcome
    from pcsuite.verifier.improve.state import StepRecord

NumberT = TypeVar("NumberT", int, float)


def configure_improve(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "evals_dir", type=Path, metavar="EVALS_DIR", help="EVALS_DIR/<id>/{ground_truth.csv,document.txt}"
    )
    parser.add_argument(
        "--config", "-c", default="quickstart", metavar="PROFILE", help="profile (default: quickstart)"
    )
    parser.add_argument(
        "--model", default="smollm2-135m", metavar="ID", help="model of the profile's models file"
    )
    parser.add_argument(
        "--condition", default="C4", metavar="C", help="condition to extract under (default C4)"
    )
    parser.add_argument(
        "--task", default="buildingspec_json", metavar="ID", help="task (default buildingspec_json)"
    )
    parser.add_argument(
        "--regime", default="d0_greedy", metavar="ID", help="decoding regime (default d0_greedy)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the extractions")
    parser.add_argument(
        "--start", type=Path, metavar="FILE", help="instruction to start from (default: the task's)"
    )
    parser.add_argument(
        "--method", choices=("rules", "model"), default="rules",
        help="who drafts a change: a catalogue of rules (default), or the model itself",
    )  # fmt: skip
    parser.add_argument(
        "--rules", type=Path, metavar="FILE", help="catalogue of rules (default: the bundled one)"
    )
    parser.add_argument(
        "--propose-only", action="store_true", help="write the next draft and stop, so that you can edit it"
    )
    parser.add_argument(
        "--held-out", metavar="ID,ID", help="evals that only decide (default: a third, by hash)"
    )
    parser.add_argument(
        "--iterations", type=int, default=10, metavar="N", help="changes to try in all (default 10)"
    )
    parser.add_argument(
        "--patience", type=int, default=3, metavar="N", help="rejected changes in a row (default 3)"
    )
    parser.add_argument(
        "--margin", type=float, default=0.02, metavar="F1",
        help="how far the held-out interval may reach below no change (default 0.02)",
    )  # fmt: skip
    parser.add_argument(
        "--min-gain",
        type=float,
        default=0.0,
        metavar="F1",
        help="training gain a change must exceed (default 0)",
    )
    parser.add_argument(
        "--mapping", type=Path, help="mapping file (default: the task's, else the bundled one)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of the loop (default: EVALS_DIR/improve)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE",
        help="override any profile key, e.g. limits.max_cost_usd=5",
    )  # fmt: skip
    parser.add_argument("--no-cache", action="store_true", help="do not read or write the response cache")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON instead of a table")
    parser.epilog = (
        "The same command goes on where a killed or stopped loop ended; nothing is asked twice.\n\n"
        "examples:\n"
        "  pcsuite verify-all evals --copy-samples\n"
        "  pcsuite improve evals --model simulated --iterations 3         # a rehearsal\n"
        "  pcsuite improve evals --model smollm2-135m --condition C6\n"
        "  pcsuite improve evals --model qwen3-8b --method model --held-out copper-hill,otter-barn\n"
        "  pcsuite improve evals --propose-only                           # then edit the draft and run again"
    )


def execute_improve(args: argparse.Namespace) -> int:
    """Run the command."""
    from pcsuite.commands.options import suite_from
    from pcsuite.verifier.improve.engine import SUMMARY, ImproveSettings, run_improvement

    settings = ImproveSettings(
        evals_dir=args.evals_dir,
        model_id=args.model,
        condition_id=args.condition,
        task_id=args.task,
        regime=args.regime,
        seed=args.seed,
        folder=args.out,
        held_out=tuple(part.strip() for part in (args.held_out or "").split(",") if part.strip()),
        iterations=_at_least(args.iterations, 1, "--iterations"),
        patience=_at_least(args.patience, 1, "--patience"),
        margin=_at_least(args.margin, 0, "--margin"),
        min_gain=_at_least(args.min_gain, 0, "--min-gain"),
        method=args.method,
        propose_only=args.propose_only,
        instruction=_instruction(args.start),
        mapping=args.mapping,
        rules=args.rules,
        use_cache=not args.no_cache,
    )
    outcome = run_improvement(suite_from(args), settings)
    if args.json:
        print(json.dumps(json.loads((outcome.folder / SUMMARY).read_text(encoding="utf-8")), indent=1))
    else:
        _print_outcome(outcome)
    return 0


def _at_least(value: NumberT, least: float, flag: str) -> NumberT:
    if value < least:
        raise DataError(f"{flag} {value:g}: it must be at least {least:g}")
    return value


def _instruction(path: Path | None) -> str | None:
    if path is None:
        return None
    from pcsuite.verifier.cells import decode_text, read_bytes

    text = decode_text(read_bytes(path), str(path)).strip()
    if not text:
        raise DataError(f"{path}: the instruction to start from is empty")
    return text


def _print_outcome(outcome: ImproveOutcome) -> None:
    from pcsuite.commands.options import table
    from pcsuite.verifier.improve.engine import BEST_PROMPT

    result, best = outcome.result, outcome.result.best
    headings = [
        "iteration",
        "prompt",
        "training F1",
        "held-out F1",
        "gap",
        "held-out change",
        "decision",
        "why",
    ]
    print(table(headings, [_row(step) for step in result.steps]))
    print(f"\nheld out: {', '.join(outcome.held_out)}")
    if result.stopped == "proposed":
        draft = outcome.folder / "prompts" / f"v{result.prompt.version:03d}.txt"
        print(f"draft: {draft}")
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
        f" held-out F1 {best.held_out_f1:.3f}, gap {result.gap:+.3f}"
    )
    print(f"prompt: {outcome.folder / BEST_PROMPT}")
    cost = f", ${outcome.spent_cost_usd:.4f}" if outcome.spent_cost_usd else ""
    print(f"spent now: {outcome.spent_tokens:,} tokens{cost}")


def _row(step: StepRecord) -> list[str]:
    change = f"{step.held_out_change:+.3f}"
    if step.held_out_low is not None and step.held_out_high is not None:
        change += f" [{step.held_out_low:+.3f}, {step.held_out_high:+.3f}]"
    return [
        str(step.iteration),
        f"v{step.prompt_version:03d}",
        f"{step.train_f1:.3f}",
        f"{step.held_out_f1:.3f}",
        f"{step.train_f1 - step.held_out_f1:+.3f}",
        "" if step.decision == "baseline" else change,
        step.decision,
        step.reason,
    ]
