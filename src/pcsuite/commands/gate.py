"""``pcsuite gate plan``: could a gate ever fail, could it ever pass?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcsuite.commands import options
from pcsuite.commands.foreign import FOREIGN, reading_from
from pcsuite.commands.options import Group, flag
from pcsuite.errors import AnalysisError, ConfigError

if TYPE_CHECKING:
    from pcsuite.api.runs import Run
    from pcsuite.contrasts import Gate


def configure_gate(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite gate``.

    A gate fails where the score is reliably lower and the loss seen is over the margin, and shows 'no worse' where a
    loss of the margin or more is ruled out. Runs are simulated and put to these rules: what loss it finds with which
    probability, how often it fails where nothing changed, how many items or repeats are wanted. Scores are stated
    (accuracy, correlation, noise) or those of a run: of one that is asked again, or of two that are compared.

    examples:
      pcsuite gate plan --items 40 --repeats 3 --margin 0.05
      pcsuite gate plan --items 40 --margin 0.05 --accuracy 0.9 --loss 0.1,0.2
      pcsuite gate plan before --margin 0.05                 # the run asked again, as noisy as it was
      pcsuite gate plan before after --margin 0.05 --items 200
      pcsuite gate plan base.json new.json --margin 0.05     # files of other tools
    """
    actions = parser.add_subparsers(dest="action", required=True, metavar="plan")
    plan = actions.add_parser("plan", help="what a gate can find")
    about = "a run, or two: names, logs, a baseline, or files of other tools"
    plan.add_argument("runs", nargs="*", type=Path, metavar="RUN", help=about)
    number: dict[str, Any] = {"type": int, "metavar": "N"}
    share: dict[str, Any] = {"type": float, "metavar": "X"}
    design = [
        flag("--items", "items that the gate asks (default: those of the run)", **number),
        flag("--repeats", "answers to each item (default: as many as the run has, else 1)", **number),
        flag("--margin", "smallest loss that matters (default 0.05)", default=0.05, **share),
        flag("--loss", "losses to show (default: half, one, two and four margins)", type=options.listed,
             metavar="X,Y"),
        flag("--power", "chance with which a loss is to be found (default 0.8)", default=0.8, **share),
        options.OUTPUT_DIR.but("where runs are looked up by name", default="outputs"),
        options.RELATED.but("columns of the items that say which are related, of files of other tools"),
        options.JSON,
    ]  # fmt: skip
    world = [
        flag("--accuracy", "score of the run that the gate compares with (default 0.8, or the run's)", **share),
        flag("--correlation", "of two prompts' item rates, 0 to 1 (default 0.8; 1: the same prompt again)", **share),
        flag("--noise", "share of an answer's variance that is chance, 0 to 1 (default 0.5, or the run's)", **share),
    ]  # fmt: skip
    options.add_flags(plan, Group("", design), Group("the scores, where no run says", world), FOREIGN)


def execute_gate(args: argparse.Namespace) -> int:
    """Print what a gate can find, or give it as a document; raises ``ConfigError`` where the design is not clear."""
    from dataclasses import replace

    from pcsuite.reporting.gates import GatePlan

    if not 0 < args.margin < 1:
        raise ConfigError(f"--margin {args.margin:g}: a share of the score between 0 and 1", hint="0.05")
    if not 0 < args.power < 1:
        raise ConfigError(f"--power {args.power:g}: a chance between 0 and 1", hint="0.8")
    gate = _measured_gate(args) if args.runs else _stated_gate(args)
    if args.items is not None:
        gate = replace(gate, items=args.items)
    if args.repeats is not None:
        gate = replace(gate, repeats=args.repeats)
    try:
        losses = [float(text) for text in args.loss or ()]
    except ValueError:
        raise ConfigError(f"--loss {','.join(args.loss)}: numbers are needed", hint="0.05,0.1") from None
    if args.loss and not all(0 < loss <= gate.largest_loss for loss in losses):
        raise ConfigError(f"--loss: losses above 0 and up to {gate.largest_loss:g} fit these scores")
    plan = GatePlan(gate, losses or [args.margin * times for times in (0.5, 1, 2, 4)], power=args.power)
    if args.json:
        options.print_json(plan.document())
    else:
        print(plan.text())
    return 0


def _stated_gate(args: argparse.Namespace) -> Gate:
    from pcsuite.contrasts import Gate
    from pcsuite.stats.power import BinaryWorld

    if args.items is None:
        raise ConfigError("how many items does the gate ask?", hint="--items 40, or name a run")
    world = BinaryWorld(
        0.8 if args.accuracy is None else args.accuracy,
        0.8 if args.correlation is None else args.correlation,
        0.5 if args.noise is None else args.noise,
    )
    return Gate(world, args.items, args.repeats or 1, args.margin)


def _measured_gate(args: argparse.Namespace) -> Gate:
    """The gate of a run that is asked again, or of two runs."""
    from pcsuite.api.runs import Run, compare, side_of

    if len(args.runs) > 2:
        raise ConfigError("a gate compares two runs", hint="name one run, or two")
    if any(value is not None for value in (args.accuracy, args.correlation, args.noise)):
        raise ConfigError("--accuracy, --correlation and --noise state scores where no run is named")
    reading = reading_from(args)
    sides: list[Run] = []
    for path in args.runs:
        side = side_of(
            path,
            args.output_dir,
            reading,
            cluster=args.cluster or (),
            name=path.stem,
            beside=sides[0] if sides else None,
        )
        if not isinstance(side, Run):
            if len(args.runs) == 2 and not sides:
                gates = compare(side, args.runs[1], margin=args.margin, output_dir=args.output_dir).gates
                return _smallest(gates)
            raise ConfigError(
                f"{path}: a baseline alone does not say how noisy answers are", hint="name a run too"
            )
        sides.append(side)
    if len(sides) == 2:
        return _smallest(compare(sides[0], sides[1], margin=args.margin).gates)
    return _smallest(_gates_of_repeats(sides[0], args.margin))


def _gates_of_repeats(run: Run, margin: float) -> list[Gate]:
    """What a gate finds where the same prompts are asked again: item rates are the same, answers vary as they did."""
    from pcsuite.analysis.load.item_scores import SCORE
    from pcsuite.contrasts import Gate
    from pcsuite.stats.power import world_of_means

    gates = []
    for cell in run.scores.cells.values():
        arm = run.scores.arm(cell.key, SCORE) if SCORE in cell.values else None
        if arm is None or not arm.binary or arm.scored.sum() < 2:
            continue
        means, repeats = arm.values[arm.scored], max(1, round(arm.replicates))
        gates.append(Gate(world_of_means(means, means, repeats), len(means), repeats, margin))
    return gates


def _smallest(gates: Sequence[Gate]) -> Gate:
    if not gates:
        raise AnalysisError(
            "nothing is known of how its scores vary", hint="name two runs, or state --items and --accuracy"
        )
    return min(gates, key=lambda gate: gate.items)
