"""``pcsuite judge``: answers to label, drawn or ambiguous, and the judge held against the labels."""

from __future__ import annotations

import argparse

from pcsuite.commands import FILE, options
from pcsuite.commands.options import Group, flag
from pcsuite.errors import ConfigError, Exit
from pcsuite.logging.log import RunPaths
from pcsuite.logging.segments import Beside


def configure_judge(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite judge``.

    A judge must earn its place. 'sample' draws random items of a run's judged tasks and writes their answers to a
    table, blind to condition and model; fill in its column 'label', or label them in pcsuite view. 'check' holds the
    judge against the labels: agreement beyond chance, base rates, bias by condition and by length, order-swap flips,
    and whether it repeats itself. From then on the report says how good the judge is, and with labels of at least 10
    items its effects are prediction-powered: unbiased whatever the judge does.

    'ambiguous' is for tasks that rules score: answers that can be read in two ways are written to a table to label (or
    labelled in pcsuite view), or a judge is asked; their labels are the scores of these answers after pcsuite rescore.

    examples:
      pcsuite judge sample --config my_profile.yaml --items 50
      pcsuite judge check --config my_profile.yaml --labels gold.csv
      pcsuite judge check --config my_profile.yaml --again 0      # labels of pcsuite view; no call
      pcsuite judge ambiguous --config my_profile.yaml            # the table to fill in
      pcsuite judge ambiguous --config my_profile.yaml --judge openai/gpt-4.1-mini
    """
    actions = parser.add_subparsers(dest="action", required=True, metavar="sample|check|ambiguous")
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
    settling = actions.add_parser("ambiguous", help="label answers that can be read in two ways")
    flags = [
        options.CONFIG,
        flag("--labels", "the filled-in table (default: what was labelled in pcsuite view)", **FILE),
        flag("--judge", "model that labels what nobody has", metavar="ID|PROVIDER/MODEL"),
        flag("--out", "the table to fill in (default: <run>.ambiguous.csv beside the run)", **FILE),
    ]
    options.add_flags(settling, Group("", flags), options.PROFILE, options.CALLS)


def execute_judge(args: argparse.Namespace) -> int:
    """Draw a sample or check the judge of a run.

    Raises ``LogError`` where there is no run, ``AnalysisError`` where it has nothing to label or no label.
    """
    return {"sample": _sample, "check": _check, "ambiguous": _ambiguous}[args.action](args)


def _ambiguous(args: argparse.Namespace) -> int:
    from pcsuite.runners.settle_ambiguous import settle_ambiguous

    suite = options.suite_from(args, check_selection=False)
    settled = settle_ambiguous(
        suite,
        table=args.out,
        labels=args.labels,
        judge=args.judge,
        use_cache=args.use_cache,
        quiet=args.quiet,
    )
    units = settled.sample.units
    rows = sum(len(unit.run_ids) for unit in units)
    if not units:
        print("no answer of the run can be read in two ways")
        return Exit.DONE
    for task, items in settled.sample.items.items():
        print(f"{task}: {sum(unit.task == task for unit in units)} answers to {len(items)} items")
    print(
        f"{settled.labelled} of {len(units)} different answers ({rows} rows) are labelled, {settled.new} of them now"
    )
    if settled.labelled < len(units):
        words = f"{options.view_words(settled.log)}, page Ambiguous"
        print(f"label   {words}; or fill in the column 'label' of {settled.table}")
    if settled.unanswered:
        print(
            f"failed  {settled.unanswered} replies of the judge are missing or unreadable (run again to ask them)"
        )
    print(f"then    {options.run_words(args, 'rescore')}")
    return Exit.FAILED_ROWS if settled.unanswered else Exit.DONE


def _sample(args: argparse.Namespace) -> int:
    from pcsuite.runners.judge_sample import write_labelling_sheet

    if args.items < 1:
        raise ConfigError(f"--items {args.items}: at least one item is drawn")
    suite = options.suite_from(args, check_selection=False)  # the log is drawn from
    chosen = {key: getattr(args, key) or () for key in ("tasks", "models", "conditions")}
    sheet = write_labelling_sheet(suite, items=args.items, table=args.out, **chosen)
    sample = sheet.sample
    for task, items in sample.items.items():
        units = sum(unit.task == task for unit in sample.units)
        print(f"{task}: {len(items)} of {sample.frame[task]} items drawn, {units} different answers to label")
    if sheet.labelled or sheet.outside:
        outside = f"; {sheet.outside} earlier labels are outside this sample" if sheet.outside else ""
        print(f"{sheet.labelled} of them are labelled already{outside}")
    print(
        f"label   {options.view_words(sheet.log)}, page Label; or fill in the column 'label' of {sheet.table}"
    )
    print(f"then    {options.run_words(args, 'judge check', '--labels', str(sheet.table))}")
    return Exit.DONE


def _check(args: argparse.Namespace) -> int:
    from pcsuite.analysis.judging import FEWEST_LABELLED
    from pcsuite.runners.judge_check import check_judge

    if args.again < 0:
        raise ConfigError(f"--again {args.again}: a number of verdicts is not negative")
    suite = options.suite_from(args)
    result = check_judge(
        suite, labels=args.labels, again=args.again, use_cache=args.use_cache, quiet=args.quiet
    )
    for record in result.check.records:
        print(_line(record))
    for task, words in result.samples.items():
        print(f"sample  {task}: {words}")
    log = RunPaths.of(suite.profile.run.output_dir, suite.profile.run.name).log
    print(f"labels  {Beside.LABELS.of(log)}")
    print(f"saved   {result.path}")
    few = [task for task, judge in result.check.tasks.items() if judge.labels < FEWEST_LABELLED]
    if few:
        print(
            f"note    {', '.join(few)}: effects are corrected by labels from {FEWEST_LABELLED} items on, labelled under"
            " both conditions"
        )
    if result.unanswered:
        print(f"failed  {result.unanswered} questions were not answered (run again to ask them)")
    print(f"next    {options.run_words(args, 'report')}")
    return Exit.FAILED_ROWS if result.unanswered else Exit.DONE


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
