"""``pcsuite prompt``: the exact prompt a model gets, and the difference between two conditions."""

from __future__ import annotations

import argparse
import difflib
import sys

from pcsuite.commands.options import add_profile_arguments, suite_from
from pcsuite.config.load import Suite
from pcsuite.data.items import Item
from pcsuite.errors import ConfigError, DataError, did_you_mean
from pcsuite.prompts.conditions.conditions import PromptCondition, apply_condition
from pcsuite.prompts.conditions.designs import expand_conditions
from pcsuite.runners.plan import TaskPlan, plan_task, with_compiled_prompt


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "examples:\n"
        "  pcsuite prompt agnews_json C3\n"
        "  pcsuite prompt agnews_json C4 --diff C3\n"
        "  pcsuite prompt gsm8k C5 --item gsm8k-test-0007\n"
        "  pcsuite prompt agnews_json C8 --model smollm2-135m"
    )
    parser.add_argument("task", help="task id")
    parser.add_argument("condition", help="condition id")
    parser.add_argument("--item", metavar="ID", help="item id (default: the first of the profile's sample)")
    parser.add_argument(
        "--model", metavar="ID", help="model of a compiled prompt (default: the profile's first)"
    )
    parser.add_argument("--diff", metavar="OTHER", help="show what changes from condition OTHER to this one")
    add_profile_arguments(parser, selection=False)


def execute(args: argparse.Namespace) -> int:
    """Run the command."""
    suite = suite_from(args)
    if args.task not in suite.tasks:
        raise ConfigError(f"unknown task '{args.task}'", hint=did_you_mean(args.task, suite.tasks))
    task = plan_task(suite, args.task)
    item = _item(task, args.item)
    model = args.model or suite.profile.selection.models[0]
    if model not in suite.models:
        raise ConfigError(f"unknown model '{model}'", hint=did_you_mean(model, suite.models))
    shown = _build(suite, task, item, args.condition, model)
    if args.diff is None:
        print(shown.prompt)
        print(f"\n[{_policy(shown)}]", file=sys.stderr)
        return 0
    other = _build(suite, task, item, args.diff, model)
    lines = difflib.unified_diff(
        other.prompt.splitlines(), shown.prompt.splitlines(), args.diff, args.condition, lineterm="", n=1
    )
    print("\n".join(lines) or f"{args.diff} and {args.condition} have the same prompt")
    print(f"\n{args.diff}: {_policy(other)}\n{args.condition}: {_policy(shown)}")
    return 0


def _item(task: TaskPlan, item_id: str | None) -> Item:
    if item_id is None:
        return task.items[0]
    for item in task.items:
        if item.item_id == item_id:
            return item
    hint = did_you_mean(item_id, (item.item_id for item in task.items))
    raise DataError(f"task '{task.id}' has no item '{item_id}' in this profile's sample", hint=hint)


def _build(suite: Suite, task: TaskPlan, item: Item, condition_id: str, model_id: str) -> PromptCondition:
    name = condition_id.partition(":")[0]
    members = expand_conditions([name], suite.conditions, suite.operators)
    chosen = next((member for member in members if member.id == condition_id), None)
    if chosen is None:
        hint = did_you_mean(condition_id, (member.id for member in members))
        raise ConfigError(f"unknown condition '{condition_id}'", hint=hint)
    return apply_condition(
        with_compiled_prompt(suite, chosen, task.id, model_id), task.prompting.context(item.input_text)
    )


def _policy(condition: PromptCondition) -> str:
    parts = [f"operators: {', '.join(condition.bundle.names) or 'none'}"]
    if condition.constraint is not None:
        parts.append(f"decoding: {condition.constraint.kind} enforced ({condition.constraint.backend})")
    else:
        parts.append("decoding: free")
    if condition.program is not None:
        parts.append(f"program: {condition.program}")
    parts.append(f"{len(condition.prompt)} characters")
    return "; ".join(parts)
