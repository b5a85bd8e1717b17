"""``pcsuite init``: a folder of one's own that runs from anywhere."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from pcsuite.commands import DIR, FILE, options
from pcsuite.commands.options import Group, flag, switch
from pcsuite.errors import ConfigError, DataError, Exit, PcsuiteError


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
        flag("--data", "your table: .csv, .tsv, .xlsx, .jsonl or .json", **FILE),
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
    from pcsuite.data.table_files import read_table
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


def configure_first_steps(parser: argparse.ArgumentParser) -> None:
    """What ``pcsuite`` alone takes on a terminal: nothing."""


def execute_first_steps(args: argparse.Namespace) -> int:
    """Ask for the prompt, the table and the model, and write the commands that answer what a newcomer asks.

    Nothing is called or written. A file that cannot be read is said to be, and asked for again; Ctrl-D ends it.
    """
    from pcsuite.data.table_files import read_table
    from pcsuite.prompts.blocks import read_prompt

    print("Three questions, then your command; pcsuite --help lists all of them. Ctrl-D ends.")
    try:
        prompt = _readable("1. your prompt's file (empty: the bundled example)", read_prompt)
        if prompt is None:
            print(
                "\npcsuite models pull qwen2.5-coder-0.5b    # once: the embedded model that the example asks"
            )
            print("pcsuite ablate example                    # what each part of a prompt is worth")
            return Exit.DONE
        table = _readable("2. your table, with a column of right answers (.csv, .xlsx, .jsonl)", read_table)
        model = input("3. the model, PROVIDER/NAME (empty: smollm2-135m, embedded): ").strip()
    except EOFError:
        print("\npcsuite --help lists the commands, pcsuite ablate example shows one")
        return Exit.DONE
    arguments = [str(prompt), "--data", str(table), "--model", model or "smollm2-135m"]
    commands = {
        shlex.join(["pcsuite", "ablate", *arguments, "--show"]): "blocks, cost and reach; nothing is called",
        shlex.join(
            ["pcsuite", "ablate", *arguments]
        ): "what each part is worth, and the shortest that is no worse",
        shlex.join(
            ["pcsuite", "init", Path(str(prompt)).stem, "--prompt", *arguments]
        ): "a folder that runs anywhere",
    }
    print()
    for command, about in commands.items():
        print(f"# {about}\n{command}")
    return Exit.DONE


def _readable(question: str, read: Callable[[Path], object]) -> Path | None:
    """A file that can be read, asked for until there is one; ``None`` where none is named and that is allowed."""
    while True:
        answer = input(f"{question}: ").strip().strip("'\"")
        if not answer and "empty" in question:
            return None
        try:
            path = Path(answer).expanduser()
            read(path)
        except PcsuiteError as error:
            print(f"   {error}")
        else:
            return path
