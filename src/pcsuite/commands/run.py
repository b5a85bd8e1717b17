"""``pcsuite run``, ``run-task``, ``rescore`` and ``verifier-pass``: rows into a log."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pcsuite._util.text import commonest, limits_text, shorten, signed
from pcsuite.api import runs
from pcsuite.commands import FILE, options
from pcsuite.commands.options import Group, flag, switch
from pcsuite.config.load import Suite
from pcsuite.engines.weights import pull_missing
from pcsuite.errors import ConfigError, Exit, NotInstalledError, PcsuiteError
from pcsuite.logging.manifest import read_manifest
from pcsuite.runners.batch_files import export_requests, import_answers
from pcsuite.runners.plan import build_plan
from pcsuite.runners.rescore import rescore
from pcsuite.runners.run_suite import RunSummary
from pcsuite.runners.verifier_pass import protocol_parts, verifier_pass

if TYPE_CHECKING:
    from pcsuite.reporting.results import Result

SIMULATED = "simulated"
"""The provider whose models answer only within a run."""

RUN = (
    options.SELECTION,
    options.TARGET,
    Group("the run", [
        switch("--all", "also the verifier's pass and what the profile's integrations enable (promptbench, helm), then"
               " the report and a checklist of the protocol"),
        options.OVERWRITE,
        flag("--deviation",
             "go on although what was registered has changed since the first row; the reason goes into the manifest",
             metavar="REASON"),
        options.JSON,
    ]),
    options.PROFILE,
    options.STOPPING,
    options.EVIDENCE,
    options.MODEL_CALLS,
    Group("batches", [
        switch("--batch",
             "send the calls through the provider's batch API; the same command goes on where it was interrupted"),
        flag("--batch-export",
             "write requests of missing rows as JSON lines (OpenAI's batch format, vLLM run-batch), call nothing",
             **FILE),
        flag("--batch-import", "make rows of the answers that an offline engine wrote for exported requests", **FILE),
    ], one_of=True),
    options.CLUSTER,
)  # fmt: skip


def configure_run(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite run``.

    The same command goes on where a killed or stopped run ended; failed rows are tried again.

    examples:
      pcsuite run --config quickstart
      pcsuite run --config configs/profile_A.yaml --tasks gsm8k --conditions C0,C4 --limit 50 --name trial
      pcsuite run --config configs/profile_A.yaml --set limits.max_cost_usd=5
      pcsuite run --config configs/profile_A.yaml --until decided --margin 0.02
      pcsuite run --config tickets_profile.yaml --cluster customer
      pcsuite run --config configs/profile_B.yaml --executor ray --address auto
      pcsuite run --config quickstart --models openai/my-model --base-url http://127.0.0.1:8000/v1
      pcsuite run --config quickstart --target 'python my_agent.py' --worker
      pcsuite run --config quickstart --models openai/gpt-4.1-mini --batch     # half the price, within a day
      pcsuite run --config quickstart --models vllm/Qwen/Qwen3-8B --batch-export requests.jsonl
      pcsuite run --config quickstart --models vllm/Qwen/Qwen3-8B --batch-import answers.jsonl
      pcsuite run --config quickstart --quiet --json | jq -r .result.sentence
      pcsuite run --config configs/profile_A.yaml --all          # then promptbench, helm where enabled, and report
    """
    options.add_flags(parser, *RUN)


def execute_run(args: argparse.Namespace) -> int:
    """Run the profile and print its result.

    Returns 4 where rows failed. Raises what ends a run early: ``BudgetExceededError`` and ``ErrorRateError`` are exit
    status 3.
    """
    options.check_stopping(args)
    suite, calls = options.suite_from(args), options.calls_from(args)
    if args.batch_export is not None or args.batch_import is not None:
        return _exchange_files(args, suite)
    if args.all and args.json:
        raise ConfigError(
            "--all and --json do not go together", hint="pcsuite report --json has the report's answer"
        )
    if args.all:
        selected = {name: suite.models[name] for name in suite.profile.selection.models}
        pull_missing(selected, lambda line: print(line, flush=True))
    settings = {"as_json": args.json, "deviation": args.deviation, "batch": args.batch}
    status = _run_and_print(args, suite, calls, **settings)
    return max(status, _run_the_rest(args, suite, calls)) if args.all else status


def _run_and_print(
    args: argparse.Namespace,
    suite: Suite,
    calls: options.Calls,
    *,
    as_json: bool = False,
    **settings: Any,
) -> int:
    """Run, and print what came of it; ``settings`` are further ones of :func:`pcsuite.api.runs.run`."""
    selection = suite.profile.selection
    fewer = suite.seeds_left_out(selection.tasks, selection.decoding_regimes, selection.models)
    for line in fewer if not as_json else ():
        print(line, flush=True)
    summary = runs.run(suite, **settings, **calls).summary
    run = suite.profile.run
    assert summary is not None, "a run that was made has a summary"
    from pcsuite.reporting.results import results_at_end

    try:
        result = results_at_end(summary.paths.log, Path(run.output_dir))
        unsaid = "the log is large, and pcsuite report reads it" if result is None else ""
    except (PcsuiteError, OSError) as error:  # the run stands
        result, unsaid = None, str(error)
    if unsaid:
        print(f"pcsuite: no result table: {unsaid}", file=sys.stderr)
    if as_json:
        options.print_json(_document(summary, run.name, result) | {"seeds_left_out": fewer})
        return Exit.FAILED_ROWS if summary.tally.failed else Exit.DONE
    return print_summary(args, summary, run.name, result)


def _run_the_rest(args: argparse.Namespace, suite: Suite, calls: options.Calls) -> int:
    """What ``--all`` adds to a run: the verifier's pass, the enabled integrations, the report and its checklist.

    Returns the worst exit status of them. The words of ``run`` are read again by the flags of each, so that what they
    share reaches all of them. A part that cannot run says why in a line, and the others go on: the run's rows are there
    to be reported. A tool that is not installed, lacks its files or has no model to ask is left out and fails nothing.
    """
    from pcsuite.commands import integrations, report
    from pcsuite.integrations.promptbench.block import attacked_parts
    from pcsuite.reporting.checklist import protocol_checklist

    enabled, selection = suite.profile.integrations, suite.profile.selection
    steps: dict[str, Callable[[], int]] = {}
    not_run: dict[str, str] = {}
    chosen = vars(args) | {"models": list(selection.models)}
    judged = protocol_parts(suite)
    if judged:
        steps["verifier-pass"] = lambda: max(_judge(part, args) for part in judged)
    else:
        not_run["verifier-pass"] = "no task of the selection has answers that the protocol judges"
    if enabled.promptbench.enabled:
        tasks, conditions = attacked_parts(suite, only_selected=args.conditions is not None)
        block = argparse.Namespace(**chosen | {"tasks": tasks, "conditions": conditions})
        if tasks and conditions:
            steps["promptbench"] = lambda: integrations.perturb(block, calls)
        else:
            not_run["promptbench"] = "none of its tasks and conditions is selected"
    if enabled.helm.enabled:
        asked = [name for name in selection.models if suite.models[name].provider != SIMULATED]
        if asked:
            steps["helm"] = lambda: integrations.run_scenarios(
                argparse.Namespace(**chosen | {"models": asked})
            )
        else:
            not_run["helm"] = "HELM asks models, and those selected are simulated"
    steps["report"] = lambda: report.write_report(
        options.suite_from(args, [options.PROFILE]), config=args.config
    )
    for name, why in not_run.items():
        print(f"{name}: left out: {why}")
    worst = int(Exit.DONE)
    for name, step in steps.items():
        print(f"\n{name}", flush=True)
        try:
            worst = max(worst, step())
        except PcsuiteError as error:
            if name == "report":
                raise
            print(f"pcsuite: {name}: {error}", file=sys.stderr)
            not_run[name] = str(error)
            # What another tool lacks (itself, its published files) is for the user to bring: nothing here failed.
            if not isinstance(error, NotInstalledError) and not (
                name == "helm" and isinstance(error, ConfigError)
            ):
                worst = max(worst, error.exit_code)
    run = suite.profile.run
    print("\nwhat the protocol promises")
    for promise in protocol_checklist(Path(run.output_dir), run.name, not_run):
        print(promise)
    return worst


def _judge(suite: Suite, args: argparse.Namespace) -> int:
    """Have the answers of a part of the run judged, and say how many were."""
    summary = verifier_pass(suite, quiet=args.quiet, use_cache=args.use_cache)
    tasks = ", ".join(suite.profile.selection.tasks)
    before = f", {summary.done_before} were given before" if summary.done_before else ""
    failed = f", {summary.failed} failed (run again to retry them)" if summary.failed else ""
    print(
        f"{tasks}: {summary.asked} verdicts in {summary.seconds:.1f} s, {summary.tokens:,} tokens{before}{failed}"
    )
    return Exit.FAILED_ROWS if summary.failed else Exit.DONE


def _exchange_files(args: argparse.Namespace, suite: Suite) -> int:
    """Write requests to a file, or make rows of a file of answers; 4 where rows failed."""
    plan, exporting = build_plan(suite), args.batch_export is not None
    if exporting:
        exchanged = export_requests(plan, args.batch_export)
    else:
        exchanged = import_answers(plan, args.batch_import, quiet=args.quiet)
    tally = exchanged.tally
    status = Exit.FAILED_ROWS if tally.failed else Exit.DONE
    if args.json:
        options.print_json(
            {
                "run": suite.profile.run.name,
                "file": exchanged.path,
                "requests" if exporting else "answers": exchanged.requests,
                "log": exchanged.log,
                "rows": tally.done,
                "failed": tally.failed,
                "tokens": tally.tokens,
                "waiting": exchanged.waiting,
                "unused": exchanged.unused,
                "not_applicable": [options.not_applicable_entry(entry) for entry in exchanged.not_applicable],
            }
        )
        return status
    words = [f"{exchanged.requests} requests written to {exchanged.path}"]
    if not exporting:
        words = [f"{tally.done} rows of {exchanged.requests} answers", f"{tally.tokens:,} tokens"]
        for count, about in (
            (exchanged.waiting, "rows ask on: export again"),
            (exchanged.unused, "answers belong to no missing row"),
            (tally.failed, "failed (export again to retry them)"),
        ):
            words += [f"{count} {about}"] if count else []
    print(f"{suite.profile.run.name}: " + ", ".join(words))
    for line in options.not_applicable_lines(exchanged.not_applicable):
        print(f"  not applicable: {line}")
    if exporting:
        again = ["--models", ",".join(suite.profile.selection.models), "--batch-import", "ANSWERS"]
        print(options.next_line(args, "run", *again))
    else:
        print(f"log: {exchanged.log}")
        print(options.next_line(args, "report"))
    return status


def _document(summary: RunSummary, name: str, result: Result | None) -> dict[str, Any]:
    """What ``run --json`` prints."""
    tally = summary.tally
    return {
        "run": name,
        "log": summary.paths.log,
        "rows": tally.done,
        "done_before": summary.skipped,
        "failed": tally.failed,
        "cache_hits": tally.cache_hits,
        "tokens": tally.tokens,
        "cost_usd": None if tally.unpriced else tally.cost_usd,
        "seconds": summary.seconds,
        "not_applicable": [options.not_applicable_entry(entry) for entry in summary.not_applicable],
        "looks": [msgspec.to_builtins(look) for look in summary.looks],
        "result": None if result is None else result.document(),
    }


def print_summary(
    args: argparse.Namespace, summary: RunSummary, name: str, result: Result | None = None
) -> int:
    """Say what the run ``name`` came to, its result, and how to report on it; returns the exit status.

    4 where rows failed, else 0. A log of pooled counts that was stopped early gets a line on what the looks judged.
    """
    tally = summary.tally
    words = [f"{tally.done} rows in {summary.seconds:.1f} s", f"{tally.tokens:,} tokens"]
    if tally.cost_usd:
        words.append(f"${tally.cost_usd:.4f}")
    if tally.unpriced:
        words.append(f"the price of {tally.unpriced} rows is not known (price_in, price_out)")
    if summary.skipped:
        words.append(f"{summary.skipped} were done before")
    if tally.cache_hits:
        words.append(f"{tally.cache_hits} answers from the cache")
    if tally.failed:
        words.append(f"{tally.failed} failed (run again to retry them)")
    if tally.stopped_scorers:
        words.append(f"{tally.stopped_scorers} score 0 because their scorer ran out of time or memory")
    print(f"{name}: " + ", ".join(words))
    if tally.errors:
        print(f"  why rows failed, most often: {shorten(commonest(tally.errors), 500)}")
    for line in options.not_applicable_lines(summary.not_applicable):
        print(f"  not applicable: {line}")
    manifest = read_manifest(summary.paths.log)
    for task, note in manifest.tasks.items() if manifest is not None else ():
        if 0 < note.clusters < note.items:
            by = f" by {' and '.join(note.clustered_by)}" if note.clustered_by else " (equal inputs)"
            print(f"  {task}: {note.items} items in {note.clusters} clusters{by}: verdicts go by cluster")
    for look in summary.looks:
        end = "stopped" if look.stopped else "all items seen"
        arm = f"{look.task} × {look.model} × {look.decoding}: {look.condition} against {look.baseline}"
        print(
            f"  {arm} is {look.verdict}"
            f"{f' (margin {look.margin:g})' if look.verdict == 'no worse' else ''}"
            f" after {look.items} items{f' in {look.clusters} clusters' if 0 < look.clusters < look.items else ''},"
            f" {signed(look.effect, 3)}{limits_text(look.low, look.high, 3)} ({end}"
            f"{f', {look.missing} items lack an answer' if look.missing else ''})"
        )
    if summary.looks and manifest is not None:
        judged = {look.task for look in summary.looks if look.metric == "task_score"}
        for task in sorted(name for name in judged if manifest.tasks[name].pooling == "micro_f1"):
            print(f"  {task}: {options.BY_ITEM_MEANS}")
    print(f"log: {summary.paths.log}")
    if result is not None:
        from pcsuite.reporting.results import print_result

        print_result(result, options.output_console())
    print(options.next_line(args, "report"))
    return Exit.FAILED_ROWS if tally.failed else Exit.DONE


RUN_TASK = (
    Group("", [
        options.one("task", "the task, where it does not stand first", options.KEYS["tasks"]),
        *(entry for entry in options.SELECTION.flags if entry not in (options.TASKS, options.REGIMES)),
    ]),
    options.PROFILE,
    options.EVIDENCE,
    Group("calls", [options.NO_CACHE, options.QUIET]),
)  # fmt: skip


def configure_run_task(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite run-task``: ``run`` with the task as an argument, and the flags of every day.

    What else run takes (--json, --overwrite, early stops, batches, a cluster), it takes for one task too:
    pcsuite run --tasks TASK …

    examples:
      pcsuite run-task gsm8k --config quickstart --limit 5 --conditions C0,C4
      pcsuite run-task --config configs/profile_A.yaml --task gsm8k --model medium_local
    """
    parser.add_argument("tasks", nargs="?", metavar="TASK", help="task id")
    options.add_flags(parser, *RUN_TASK)


def execute_run_task(args: argparse.Namespace) -> int:
    """Run one task of the profile; a ``ConfigError`` where none is named, or two are."""
    names = [name for name in (args.tasks, args.task) if name]
    if len(set(names)) != 1:
        problem = "name one task" if not names else f"'{names[0]}' and --task {names[1]} are two tasks"
        raise ConfigError(f"run-task: {problem}", hint="pcsuite run-task --task gsm8k --config quickstart")
    args.task = names[0]
    return _run_and_print(args, options.suite_from(args), options.calls_from(args))


def configure_rescore(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite rescore``.

    Rows whose score changed are appended with the same run_id; the newest row counts, the old one stays.

    examples:
      pcsuite rescore --config quickstart
      pcsuite rescore --config quickstart --dry-run
    """
    dry_run = switch("--dry-run", "count what would change, write nothing")
    options.add_flags(parser, Group("", [options.CONFIG, dry_run]), options.PROFILE)


def execute_rescore(args: argparse.Namespace) -> int:
    """Score the answers of a log again, without a model call, and say how many rows changed.

    Raises ``LogError`` where the run has no log.
    """
    outcome = rescore(options.suite_from(args), dry_run=args.dry_run)
    verb = "would change" if args.dry_run else "changed"
    print(f"{outcome.rows} rows read, {outcome.changed} {verb}, {outcome.skipped} without an answer or item")
    if outcome.labelled:
        print(f"{outcome.labelled} answers that can be read in two ways have the score of their label")
    if outcome.failed:
        print(f"{outcome.failed} could not be scored and stay as they were; the first: {outcome.error}")
    return Exit.FAILED_ROWS if outcome.failed else Exit.DONE


def configure_verifier_pass(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite verifier-pass``.

    Every stored answer is put to the same model once more, at temperature 0: does it contradict itself,
    and is it right? Verdicts are rows of kind 'verifier' in the same log; main tables leave them out.
    The same command goes on where a stopped pass ended.

    examples:
      pcsuite verifier-pass --config quickstart
      pcsuite verifier-pass --config configs/profile_A.yaml --tasks truthfulqa_gen --conditions C0,C2
    """
    selection = [entry for entry in options.SELECTION.flags if entry is not options.REGIMES]
    options.add_flags(parser, Group("", selection), options.PROFILE, options.MODEL_CALLS)


def execute_verifier_pass(args: argparse.Namespace) -> int:
    """Have the answers judged and print the contradiction rates by task, model and condition.

    Returns 4 where calls failed; the same command asks them again.
    """
    summary = verifier_pass(options.suite_from(args), quiet=args.quiet, use_cache=args.use_cache)
    words = [f"{summary.asked} verdicts in {summary.seconds:.1f} s", f"{summary.tokens:,} tokens"]
    if summary.done_before:
        words.append(f"{summary.done_before} were given before")
    if summary.empty:
        words.append(f"{summary.empty} answers are empty")
    if summary.failed:
        words.append(f"{summary.failed} failed (run again to retry them)")
    print(", ".join(words))
    for (task, model, condition), rate in sorted(summary.rates.items()):
        shown = "no readable verdict" if rate.rate is None else f"contradiction rate {rate.rate:.3f}"
        unread = f", {rate.unreadable} of {rate.answers} verdicts unreadable" if rate.unreadable else ""
        print(f"  {task} × {model} × {condition}: {shown} over {rate.items} items{unread}")
    print(f"log: {summary.paths.log}")
    return Exit.FAILED_ROWS if summary.failed else Exit.DONE
