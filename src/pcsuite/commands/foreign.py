"""Flags for files of other tools, which several commands read."""

from __future__ import annotations

import argparse
import math
from typing import Any

from pcsuite.commands.options import Group, flag


def _range(text: str) -> tuple[float, float]:
    """``1,5`` as two numbers; ``none`` as no bounds at all."""
    if text.strip().lower() == "none":
        return (-math.inf, math.inf)
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError("two numbers, LOW,HIGH, or none") from None
    if not low < high:
        raise argparse.ArgumentTypeError(f"{low:g} is not below {high:g}")
    return low, high


FOREIGN = Group("files of other tools", [
    flag("--from", "the tool that wrote a file: inspect, lm-eval, helm, promptfoo, deepeval, langfuse, phoenix, mlflow,"
         " openai-evals, otel, or table (default: known by its content; a table is never guessed)", dest="format",
         metavar="FORMAT"),
    flag("--metric --scorer", "which score counts, where a file has several", dest="measures", action="append",
         default=[], metavar="NAME"),
    flag("--also", "a further score that is compared too, or all; may be given several times", action="append",
         default=[], metavar="NAME"),
    flag("--range", "what the score can be, where that is not 0 to 1; none for an amount", type=_range,
         metavar="LOW,HIGH"),
    flag("--item", "of a table: the column that names the item", default="", metavar="COL"),
    flag("--score", "of a table: the column of the score; given again, further scores", dest="scores", action="append",
         default=[], metavar="COL"),
    flag("--arm", "of a table: the column that names the condition (a prompt, a version)", default="", metavar="COL"),
    flag("--repeat", "of a table: the column that tells repetitions of an item apart", default="", metavar="COL"),
    flag("--match-by", "what names an item: its id in the file (default), or its question and target",
         choices=("id", "content"), default="id"),
    flag("--condition-from", "key of the file's header whose value names the condition", metavar="KEY"),
])  # fmt: skip
"""Of commands that read other tools' files; read with :func:`reading_from`."""


def reading_from(args: argparse.Namespace) -> dict[str, Any]:
    """What the flags of :data:`FOREIGN` say, as the ``reading`` words of :func:`pcsuite.api.runs.read_foreign`.

    Only what was given is there, so that a comparison of two runs of our own has none.
    """
    words = {
        "format": args.format,
        "metric": args.measures,
        "also": args.also,
        "range": args.range,
        "item": args.item,
        "score": args.scores,
        "arm": args.arm,
        "repeat": args.repeat,
        "match_by": args.match_by if args.match_by != "id" else None,
        "condition_from": args.condition_from,
    }
    return {word: value for word, value in words.items() if value}
