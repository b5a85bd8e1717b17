"""``pcsuite init``: a folder of one's own that runs from anywhere."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from pcsuite.commands import DIR, FILE, options
from pcsuite.commands.options import Group, flag, switch
from pcsuite.errors import ConfigError, DataError


def configure_init(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite init``.

    The folder holds your prompt and table, the task, a profile and a README with the commands. With --prompt the
    profile asks the prompt with and without each of its blocks; without it, the ladder of bundled conditions. On a
    terminal, what is not given is asked for.

    examples:
      pcsuite init triage                                          # asks for the rest
      pcsuite init triage --prompt triage.md --data tickets.csv --answer queue --model smollm2-135m
      pcsuite init quiz --data quiz.csv --input question --answer right --model openai/gpt-5-mini --budget-usd 2
      pcsuite run --config triage/profile.yaml
    """
    parser.add_argument("folder", **DIR, help="the new folder; its name is the run's")
    prompt = "your prompt: a text with {{ column }} placeholders, or a chat as .yaml or .json"
    flags = [
        flag("--data", "your table: .csv, .tsv, .jsonl or .json", **FILE),
        flag("--prompt", prompt, **FILE),
        options.one("model", "model to ask (default: smollm2-135m)", metavar="ID|PROVIDER/MODEL"),
        flag("--budget-usd", "stop before so many dollars", type=float, metavar="X"),
        flag("--budget-tokens", "stop before so many tokens", type=int, metavar="N"),
        flag("--limit", "at most N items", type=int, metavar="N"),
        options.BASE_URL,
        switch("--append-input", "put the item after the prompt, which has no placeholder"),
        switch("--overwrite", "write into a folder that is there; files of these names are replaced"),
    ]
    options.add_flags(parser, Group("", flags), options.TABLE)


def execute_init(args: argparse.Namespace) -> int:
    """Write the folder and say what running it takes.

    What the flags leave open is asked for on a terminal; elsewhere a missing table is a ``DataError`` that names its
    flag, and everything else has a default.
    """
    from pcsuite.ablation.scaffold import ScaffoldRequest, scaffold
    from pcsuite.data.init_task import read_table
    from pcsuite.prompts.sources import PromptFile

    asking = sys.stdin.isatty() and args.data is None
    if args.data is None:
        args.data = Path(options.ask("table", "--data", example="tickets.csv"))
    known = list(read_table(args.data)[0].values)
    if asking and args.prompt is None:
        file = options.ask("prompt's file (empty: the bundled conditions)", "--prompt", empty=True)
        args.prompt = Path(file) if file else None
    if args.prompt is not None and not PromptFile.of(args.prompt).path.is_file():
        raise DataError(f"--prompt {args.prompt}: no such file")
    if asking and args.answer is None and args.fields is None:
        args.answer = options.ask("column of the right answer", "--answer", known)
    if asking and args.model is None:
        args.model = options.ask("model (empty: smollm2-135m)", "--model", empty=True) or None
    if asking and args.budget_usd is None and args.budget_tokens is None:
        dollars = options.ask("budget in dollars (empty: none)", "--budget-usd", empty=True)
        try:
            args.budget_usd = float(dollars.removeprefix("$")) if dollars else None
        except ValueError:
            raise ConfigError(f"--budget-usd {dollars}: no number") from None
    args.model = args.model or "smollm2-135m"
    scaffolded = scaffold(options.settings_from(ScaffoldRequest, args, **options.table_from(args)))
    print(scaffolded.reading)
    if scaffolded.related:
        print(scaffolded.related)
    print(f"folder   {scaffolded.folder}")
    print(f"profile  {scaffolded.profile}")
    print(
        f"{scaffolded.rows:,} rows, about {scaffolded.max_tokens:,} tokens if every answer runs to its limit"
    )
    print(f"next: {shlex.join(['pcsuite', 'run', '--config', str(scaffolded.profile)])}")
    return 0
