"""``pcsuite judge``: a sample of judged answers to label, and the judge held against the labels."""

from __future__ import annotations

import argparse
from pathlib import Path

from pcsuite._util.files import replace_atomically, write_errors
from pcsuite.commands import FILE, options
from pcsuite.commands.options import Group, flag
from pcsuite.errors import ConfigError, Exit, LogError
from pcsuite.logging.labels import Labels, read_sample, sheet_csv, write_sample
from pcsuite.logging.log import RunPaths
from pcsuite.logging.manifest import read_manifest
from pcsuite.logging.segments import Beside


def configure_judge(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite judge``.

    A judge must earn its place. 'sample' draws random items of a run's judged tasks and writes their answers to a
    table, blind to condition and model; fill in its column 'label', or label them in pcsuite view. 'check' holds the
    judge against the labels: agreement beyond chance, base rates, bias by condition and by length, order-swap flips,
    and whether it repeats itself. From then on the report says how good the judge is, and with labels of at least 10
    items its effects are prediction-powered: unbiased whatever the judge does.

    examples:
      pcsuite judge sample --config my_profile.yaml --items 50
      pcsuite judge check --config my_profile.yaml --labels gold.csv
      pcsuite judge check --config my_profile.yaml --again 0      # labels of pcsuite view; no call
    """
    actions = parser.add_subparsers(dest="action", required=True, metavar="sample|check")
    drawing = actions.add_parser("sample", help="draw random answers to label, blind to condition")
    flags = [
        options.CONFIG,
        flag("--items", "items of each judged task (default: 40)", type=int, default=40, metavar="N"),
        options.TASKS.but("only these judged tasks"),
        options.MODELS.but("only answers of these models"),
        options.CONDITIONS.but("only answers under these conditions; effects need both sides"),
        flag("--out", "the table to fill in (default: <run>.to_label.csv beside the run)", **FILE),
    ]
    options.add_flags(drawing, Group("", flags), options.PROFILE)
    checking = actions.add_parser("check", help="hold the judge against gold labels, and save what is found")
    about = "verdicts of each task to ask for again, for self-consistency; 0 makes no call (default: 30)"
    flags = [
        options.CONFIG,
        flag("--labels", "the filled-in table (default: what was labelled in pcsuite view)", **FILE),
        flag("--again", about, type=int, default=30, metavar="N"),
    ]
    options.add_flags(checking, Group("", flags), options.PROFILE, options.CALLS)


def execute_judge(args: argparse.Namespace) -> int:
    """Draw a sample or check the judge of a run.

    Raises ``LogError`` where there is no run, ``AnalysisError`` where it has nothing to label or no label.
    """
    return _sample(args) if args.action == "sample" else _check(args)


def _sample(args: argparse.Namespace) -> int:
    from pcsuite.analysis.judging import draw_sample
    from pcsuite.data.items import load_items

    if args.items < 1:
        raise ConfigError(f"--items {args.items}: at least one item is drawn")
    suite = options.suite_from(args, check_selection=False)  # the log is drawn from
    log = RunPaths.of(suite.profile.run.output_dir, suite.profile.run.name).log
    manifest = read_manifest(log)
    if manifest is None:
        raise LogError(f"{log}: no run to draw from", hint="pcsuite run --config PROFILE")
    sample = draw_sample(
        log,
        manifest,
        items=args.items,
        tasks=args.tasks or (),
        models=args.models or (),
        conditions=args.conditions or (),
    )
    earlier = read_sample(log)
    labels = Labels(log).read()
    lost = 0
    if earlier is not None:
        kept = {unit.id for unit in sample.units}
        lost = sum(unit.id in labels and unit.id not in kept for unit in earlier.units)
    write_sample(log, sample)
    inputs: dict[tuple[str, str], str] = {}
    for task in sample.items:
        spec = suite.tasks.get(task)
        if spec is not None:
            loaded = load_items(spec.dataset, spec.split, Path(suite.profile.run.cache_dir))
            inputs |= {(task, item.item_id): item.input_text for item in loaded.items}
    table = args.out or Beside.TO_LABEL.of(log)
    with write_errors(LogError, table):
        replace_atomically(table, sheet_csv(sample, inputs, labels).encode("utf-8"))
    done = sum(unit.id in labels for unit in sample.units)
    for task, items in sample.items.items():
        units = sum(unit.task == task for unit in sample.units)
        print(f"{task}: {len(items)} of {sample.frame[task]} items drawn, {units} different answers to label")
    if done or lost:
        print(
            f"{done} of them are labelled already"
            + (f"; {lost} earlier labels are outside this sample" if lost else "")
        )
    print(f"label   pcsuite view {log.stem}, page Label; or fill in the column 'label' of {table}")
    print(f"then    pcsuite judge check --config {args.config} --labels {table}")
    return Exit.DONE


def _check(args: argparse.Namespace) -> int:
    from pcsuite.analysis.judging import FEWEST_LABELLED
    from pcsuite.runners.judge_check import check_judge

    if args.again < 0:
        raise ConfigError(f"--again {args.again}: a number of verdicts is not negative")
    suite = options.suite_from(args)
    found = check_judge(
        suite, labels=args.labels, again=args.again, use_cache=args.use_cache, quiet=args.quiet
    )
    for record in found.check.records:
        print(_line(record))
    log = RunPaths.of(suite.profile.run.output_dir, suite.profile.run.name).log
    print(f"labels  {Beside.LABELS.of(log)}")
    print(f"saved   {found.path}")
    few = [task for task, judge in found.check.tasks.items() if judge.labels < FEWEST_LABELLED]
    if few:
        print(
            f"note    {', '.join(few)}: effects are corrected by labels from {FEWEST_LABELLED} items on, labelled under"
            " both conditions"
        )
    if found.unanswered:
        print(f"failed  {found.unanswered} questions were not answered (run again to ask them)")
    print(f"next    pcsuite report --config {args.config}")
    return Exit.FAILED_ROWS if found.unanswered else Exit.DONE


def _line(record: dict[str, object]) -> str:
    """One condition's figures in a line."""

    def shown(name: str, words: str, *, signed: bool = False) -> str:
        value, low, high = (record.get(f"{name}{end}") for end in ("", "_low", "_high"))
        if not isinstance(value, (int, float)):
            return f"{words} –"
        form = "+.2f" if signed else ".2f"
        limits = (
            f" [{low:{form}}, {high:{form}}]" if isinstance(low, float) and isinstance(high, float) else ""
        )
        return f"{words} {value:{form}}{limits}"

    parts = [
        f"{record['n_labels']} labels",
        shown("agreement", "agrees"),
        shown("kappa", "κ"),
        shown("alpha", "α"),
        f"passes {_rate(record['judge_rate'])}, people {_rate(record['gold_rate'])}",
        shown("bias", "bias", signed=True),
        shown("length_bias", "length bias", signed=True),
    ]
    if record.get("flips") is not None:
        parts.append(f"flips {_rate(record['flips'])} of {record['n_pairs']} pairs")
    if record.get("self_consistency") is not None:
        parts.append(shown("self_consistency", f"asked again ({record['n_again']}): the same"))
    if record.get("unreadable"):
        parts.append(f"{record['unreadable']} unreadable")
    return f"{record['task']} · {record['judge']} · {record['condition']}: " + ", ".join(parts)


def _rate(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, (int, float)) else "–"
