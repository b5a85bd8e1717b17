"""What is registered of the replications, and their rows: published in pieces, and put back to go on from.

    python scripts/replication_rows.py register --set run.cache_dir=FOLDER     # the published items are in FOLDER
    python scripts/replication_rows.py publish prompt_twice                    # a piece of the rows that are new
    python scripts/replication_rows.py restore prompt_twice                    # `pcsuite run` then goes on from them

`configs/replications/NAME.yaml` is what is asked, `configs/replications/registered.json` its hash as it was landed, and
for every task the hash of all its prompts: rows of any other prompt are refused. Rows are published as
`rows/NAME/MODEL.NUMBER.csv.gz`, a line each (ids, scores and the answer as it was read: no text of an item or an
answer). A piece holds what the pieces before it do not have, and is never changed: a study may be run in sittings, on
several machines, as long as each model is asked on one engine.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml
from pydantic import BaseModel

from pcsuite import __version__
from pcsuite._util.hashing import digest, sha256_hex
from pcsuite.analysis.alarms import CONSTANT_SHARE
from pcsuite.config.load import Suite, load_suite
from pcsuite.data.items import Item, rank_of
from pcsuite.errors import PcsuiteError
from pcsuite.evaluation.abstention import value_abstains
from pcsuite.evaluation.base import Parsed
from pcsuite.logging.log import RunLog, RunPaths, iter_newest_rows
from pcsuite.logging.row import (
    ConditionRef,
    DecodingRef,
    GenerationRecord,
    ModelRef,
    PromptRecord,
    RunRow,
    TaskRef,
)
from pcsuite.prompts.conditions.conditions import expand_conditions
from pcsuite.runners.plan import Plan, Unit, build_plan
from pcsuite.runners.registration import register as register_plan
from pcsuite.runners.registration import section_content
from pcsuite.runners.run_suite import record_plan
from pcsuite.runners.task_plan import TaskPlan

ROOT = Path(__file__).resolve().parents[1]
PROFILES = ROOT / "configs" / "replications"
PAGES = ROOT / "docs" / "studies" / "replications"
REGISTERED = PROFILES / "registered.json"
NAMES = ("prompt_twice", "expert_roles", "text_behind", "reading_artefact")
"""In the order in which they are run where compute is short."""
LOOKS = ((60, 0.010), (120, 0.015), (200, 0.025))
"""Looks at a model's rows: after so many items of each task, in registered order, and the α of each, 0.05 in all."""
CHANCE = {
    "agnews_json": 1 / 4,
    "trec": 1 / 6,
    "boolq": 1 / 2,
    "csqa_json": 1 / 5,
    "strategyqa": 1 / 2,
    "svamp": 0.0,
}
"""Score of labels drawn by lot."""
FLOOR = 0.10
"""A cell is dead, shown and not counted, where the mean lenient score over all its conditions has come less than this
share of the way from chance to 1. All conditions count alike: an item's scores in the two arms of a contrast could
be exchanged without a change of it, so counting live cells only does not favour one arm."""
LARGEST = 5_000_000
"""Bytes of a piece of rows that is published."""
ASKED_ON = "asked_on"
"""Key of a restored row for the engine that it was published with."""
PUBLISHED_ANSWER = re.compile(r"[A-Za-z_/]{0,20}|-?\d[\d./]{0,20}")
"""Labels, letters and numbers: an answer of these tasks as it was read."""


class Answer(NamedTuple):
    """A row as it is published."""

    model: str
    engine: str
    """The provider, with its precision and what it was built for: numbers of two engines are no rows of one study."""
    task: str
    place: int
    """The item's rank among those of its task, from 0: looks are at the first of them."""
    item: str
    examples: str
    wording: str
    condition: str
    score: float
    lenient: float
    answer: str
    abstained: bool
    outcome: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What one row is about; there is one of each."""
        return self.model, self.task, self.item, self.condition


# What is registered.


def design_of(name: str, suite: Suite) -> dict[str, object]:
    """Everything that a replication asks and how it is judged, of whatever files it comes."""
    selection = suite.profile.selection
    conditions = expand_conditions(selection.conditions, suite.conditions, suite.operators)
    used = {operator.name for bundle in conditions for step in bundle.steps for operator in step}
    profile = suite.profile
    return {
        "tasks": {name: [_told(suite.tasks[name]), suite.schema(name)] for name in selection.tasks},
        "operators": {
            name: [_told(spec), list(spec.paraphrases or ())]
            for name, spec in sorted(suite.operators.items())
            if name in used
        },
        "conditions": {name: _told(suite.conditions[name]) for name in selection.conditions},
        "models": list(selection.models),
        "regimes": {name: _told(suite.regimes[name]) for name in selection.decoding_regimes},
        "wordings": dict(suite.wordings),
        "draw": None if profile.draw is None else _told(profile.draw),
        "items": [
            {task: suite.item_limit(task) for task in selection.tasks},
            profile.repro.global_seed,
            profile.repro.deterministic_hash_seed,
        ],
        "preregistration": section_content(profile.preregistration) if profile.preregistration else None,
        "floor": [FLOOR, CONSTANT_SHARE, CHANCE],
        "looks": LOOKS,
        "rule": rule_of((PAGES / f"{name}.md").read_text(encoding="utf-8")),
    }


def _told(definition: BaseModel) -> dict[str, object]:
    """What a definition says of its own accord: keys that came later and that it does not use change no hash."""
    return definition.model_dump(mode="json", exclude_defaults=True)


def rule_of(page: str) -> str:
    """The rule of the verdict as a page states it, white space aside; ``SystemExit`` where it states none."""
    start = page.find("**The rule of the verdict**")
    if start < 0:
        raise SystemExit("the page has no paragraph '**The rule of the verdict**'")
    return " ".join(page[start:].split("\n\n")[0].split())


def registration(name: str) -> str:
    """The hash of what a replication asks and how it is judged, by the files as they are now."""
    return digest(design_of(name, load_suite(str(PROFILES / f"{name}.yaml"))))


def landed(name: str) -> dict[str, object]:
    """What was landed of a replication: the hash of its design, and of the prompts of each task."""
    found: dict[str, object] = json.loads(REGISTERED.read_text(encoding="utf-8")).get(name, {})
    return found


def prompts_of(plan: Plan) -> dict[tuple[str, str, str], str]:
    """The hash of every prompt, as rows have it, by task, item and condition; they are the same for every model."""
    model = plan.cells[0].model_id
    return {
        (cell.task.id, item.item_id, cell.condition.id): sha256_hex(cell.tree(item).assemble())
        for cell in plan.cells
        if cell.model_id == model
        for item in cell.task.items
    }


def registered_prompts(name: str, suite: Suite) -> str:
    """What is to be said where the prompts of a suite are not all registered ones; empty where they are.

    A part of the tasks, items or conditions has other hashes; so have items that were exported from elsewhere.
    """
    known = landed(name)["prompts"]
    assert isinstance(known, dict)
    others = [
        task
        for task, found in prompt_digests(prompts_of(build_plan(suite))).items()
        if found != known.get(task)
    ]
    return f"{name}: other prompts than the registered ones: {', '.join(others)}" if others else ""


def prompt_digests(prompts: Mapping[tuple[str, str, str], str]) -> dict[str, str]:
    """Of each task one hash over all its prompts."""
    tasks = dict.fromkeys(task for task, _, _ in prompts)
    return {task: digest(sorted([*key, prompts[key]] for key in prompts if key[0] == task)) for task in tasks}


def register(overrides: Mapping[str, object]) -> None:
    """Write the hash of every design and of all its prompts; ``SystemExit`` where the published items are not there."""
    found = {}
    for name in NAMES:
        plan = build_plan(load_suite(str(PROFILES / f"{name}.yaml"), dict(overrides)))
        for task in plan.tasks.values():
            if task.source.kind != "cache":
                raise SystemExit(
                    f"{task.id}: its published items are not in the cache (pcsuite export-datasets)"
                )
        found[name] = {"design": registration(name), "prompts": prompt_digests(prompts_of(plan))}
    REGISTERED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


# Rows.


def rows_of_log(log: Path, suite: Suite, *, for_all: bool = True) -> list[Answer]:
    """The rows of a replication's log, as they are published, or with ``for_all`` off for one's own eyes.

    ``SystemExit`` for a row of another prompt than the plan asks, or of other decoding, and where all are to see it for
    an answer that is more than a label or a number; what was not registered (a condition, an item) is left out.
    """
    plan = build_plan(suite)
    drawn = {
        (task.id, item.item_id): (place, draw)
        for task in plan.tasks.values()
        for place, item in enumerate(_by_rank(suite, task))
        if (draw := task.drawn(item))
    }
    asked = prompts_of(plan)
    most = {task.id: task.spec.max_tokens for task in plan.tasks.values()}
    rows = []
    for row in iter_newest_rows(log):
        prompt = asked.get((row.task.id, row.task.item_id, row.condition.id))
        if prompt is None or row.errors or row.kind != "main" or (row.task.id, row.task.item_id) not in drawn:
            continue
        place, draw = drawn[row.task.id, row.task.item_id]
        where = f"{log}: {row.condition.id} of item {row.task.item_id} ({row.model.id})"
        if row.prompt.prompt_hash != prompt:
            raise SystemExit(
                f"{where}: its prompt is not the one that is asked; ask it anew under another name"
            )
        if (row.decoding.temperature, row.decoding.max_tokens) != (0.0, most[row.task.id]):
            raise SystemExit(f"{where}: it was not asked greedily, or with another limit of tokens")
        answer = "" if row.parsed is None or row.parsed.answer is None else str(row.parsed.answer)
        if for_all and not PUBLISHED_ANSWER.fullmatch(answer):
            raise SystemExit(
                f"{where}: the answer as it was read is no label and no number, and not to be published"
            )
        score = float(row.metrics.get("task_score", 0.0))
        fixed = suite.conditions[row.condition.id].reworded
        rows.append(
            Answer(
                row.model.id, engine_of(row), row.task.id, place, row.task.item_id, str(draw.example_set),
                str(draw.wording if fixed is None else fixed), row.condition.id, score,
                float(row.metrics.get("lenient_score", score)), answer, value_abstains(answer),
                row.outcome or "answered",
            )
        )  # fmt: skip
    return of_one_engine(sorted(rows))


def engine_of(row: RunRow) -> str:
    """What a row was asked on: its provider, its precision where it names one, and the instructions it was built for.

    Instructions that add in another order, and sums of another precision, may change an answer. A row that was put back
    says what it was published with.
    """
    facts = row.engine
    named = [row.model.provider, *facts.get("dtype", "").split(), *facts.get("built_for", "").split()]
    return facts.get(ASKED_ON) or "+".join(named)


def _by_rank(suite: Suite, task: TaskPlan) -> list[Item]:
    """A task's items in their registered order: the first of them are the sample of a smaller limit."""
    repro = suite.profile.repro
    return sorted(
        task.items,
        key=lambda item: rank_of(repro.deterministic_hash_seed, repro.global_seed, task.id, item.item_id),
    )


def of_one_engine(rows: Sequence[Answer]) -> list[Answer]:
    """The rows; ``SystemExit`` where a model was asked on two engines."""
    engines: dict[str, set[str]] = {}
    for row in rows:
        engines.setdefault(row.model, set()).add(row.engine)
    for model, used in engines.items():
        if len(used) > 1:
            raise SystemExit(
                f"{model}: asked on {' and '.join(sorted(used))}; a study of a model is of one engine"
            )
    return list(rows)


def publish(rows: Iterable[Answer], folder: Path) -> list[Path]:
    """Write a further piece of each model's rows, with those that no piece has; the pieces that were written.

    ``SystemExit`` where a published row reads otherwise now, where a model's engine is another, or where a piece would
    take more than :data:`LARGEST`: then nothing is written.
    """
    known = {row.key: row for row in read_rows(folder)}
    new: dict[str, list[Answer]] = {}
    for row in rows:
        if row.key not in known:
            new.setdefault(row.model, []).append(row)
        elif known[row.key] != row:
            raise SystemExit(
                f"{row.condition} of item {row.item} ({row.model}) was published with another answer"
            )
    of_one_engine([*known.values(), *(row for found in new.values() for row in found)])
    pieces = {}
    for model, found in new.items():
        name = re.sub(r"[^\w.-]", "_", model)
        number = len(list(folder.glob(f"{name}.*.csv.gz"))) + 1
        pieces[folder / f"{name}.{number:03}.csv.gz"] = content = _compressed(found)
        if len(content) > LARGEST:
            raise SystemExit(
                f"{model}: its new rows take more than {LARGEST:,} bytes; publish them after fewer (--limit)"
            )
    for path, content in pieces.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return list(pieces)


def _compressed(rows: Iterable[Answer]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Answer._fields)
    for row in sorted(rows):
        shown = row._asdict() | {
            "score": f"{row.score:g}",
            "lenient": f"{row.lenient:g}",
            "abstained": int(row.abstained),
        }
        writer.writerow(shown.values())
    return gzip.compress(text.getvalue().encode("utf-8"), mtime=0)


def read_rows(folder: Path) -> list[Answer]:
    """The published rows, of all pieces."""
    rows = []
    for path in sorted(folder.glob("*.csv.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
            for line in csv.DictReader(stream):
                numbers = {
                    "place": int(line["place"]),
                    "score": float(line["score"]),
                    "lenient": float(line["lenient"]),
                    "abstained": line["abstained"] == "1",
                }
                rows.append(Answer(**{**line, **numbers}))
    return sorted(rows)


def restore(rows: Iterable[Answer], suite: Suite) -> int:
    """Put published rows into the log of a suite's run, where it has none of them; how many were put.

    `pcsuite run` then asks what is missing. The rows have scores and the answer as it was read, and no text. Raises
    ``SystemExit`` for rows of a model, an item or an engine that the suite does not ask.
    """
    plan = build_plan(suite)
    found = {row.key: row for row in rows}
    models = {key[0] for key in found} & set(plan.scope.models)
    units = {
        (model, unit.cell.task.id, unit.item.item_id, unit.cell.condition.id): unit
        for model in sorted(models)
        for unit in plan.units(model)
    }
    for model, engine in sorted({(row.model, row.engine) for row in found.values() if row.model in models}):
        asked = suite.models[model]
        named = [asked.provider, *str(asked.provider_options().get("dtype", "")).split()]
        if not set(named) <= set(engine.split("+")):
            raise SystemExit(
                f"{model}: its published rows are of {engine}, and this run asks it on {'+'.join(named)}; a study of a"
                " model is of one engine (--set suite.models_ref=models_hf.yaml asks it on hf)"
            )
    put = 0
    with RunLog.of(suite.profile.run) as log:
        # What a run registers before its first row, so that it takes these for rows of its own plan.
        record_plan(plan, log.paths.log, register_plan(plan, log))
        for key, row in found.items():
            if row.model not in models:
                continue
            if key not in units:
                raise SystemExit(f"{row.condition} of item {row.item} ({row.model}) is not asked")
            if units[key].run_id not in log.index:
                log.append(_restored(row, units[key], suite))
                put += 1
    return put


def _restored(row: Answer, unit: Unit, suite: Suite) -> RunRow:
    """A published row as a row of the log, without the texts."""
    cell, model = unit.cell, suite.models[row.model]
    text = cell.tree(unit.item).assemble()
    decoding = cell.decoding
    return RunRow(
        run_id=unit.run_id,
        timestamp_utc="",
        profile=suite.profile.run.name,
        config_hash=suite.config_hash,
        pcsuite_version=__version__,
        git_commit=None,
        task=TaskRef(row.task, cell.task.spec.split, row.item, unit.item.cluster),
        model=ModelRef(row.model, model.family, model.size, model.provider),
        condition=ConditionRef(row.condition, cell.operators),
        decoding=DecodingRef(decoding.id, decoding.temperature, decoding.top_p, decoding.max_tokens),
        seed=unit.seed,
        seed_honoured=True,
        perturbation=unit.perturbation,
        prompt=PromptRecord(sha256_hex(text), None, "", len(text), None, 0),
        generation=GenerationRecord("", "length" if row.outcome == "cut" else "stop", None, None),
        parsed=Parsed(answer=row.answer or None, reading="read" if row.answer else "none"),
        metrics={
            "task_score": row.score,
            "lenient_score": row.lenient,
            "answered": bool(row.answer),
            "truncated": row.outcome == "cut",
            "abstained": row.abstained,
        },
        errors=[],
        engine={"restored": "published rows", ASKED_ON: row.engine},
        outcome=row.outcome,
    )


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("register", "publish", "restore"))
    parser.add_argument("name", nargs="?", choices=NAMES)
    parser.add_argument("--log", type=Path, help="default: outputs/runs/replication_NAME.jsonl")
    parser.add_argument("--rows", type=Path, default=PAGES / "rows", help="folder of the published rows")
    parser.add_argument("--models", help="restore these models' rows; as the run is given it")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="as the run was given it"
    )
    args = parser.parse_args(words)
    overrides = given(args.set)
    if args.command == "register":
        register(overrides)
        return 0
    if args.name is None:
        parser.error("which replication?")
    if args.models:
        overrides["selection.models"] = args.models.split(",")
    if registration(args.name) != landed(args.name)["design"]:
        raise SystemExit(f"{args.name}: what it asks is not what was registered; restore it")
    suite = load_suite(str(PROFILES / f"{args.name}.yaml"), overrides)
    other = registered_prompts(args.name, suite)
    if other and args.rows == PAGES / "rows":
        raise SystemExit(f"{other}; for rows of them name another folder (--rows)")
    if other:
        print(other, file=sys.stderr)
    folder = args.rows / args.name
    if args.command == "restore":
        print(f"{restore(read_rows(folder), suite)} rows put into the log of {suite.profile.run.name}")
        return 0
    log = args.log or RunPaths.of(suite.profile.run.output_dir, suite.profile.run.name).log
    pieces = publish(rows_of_log(log, suite), folder)
    print("\n".join(map(str, pieces)) or f"{log} has no row that is not published")
    return 0


def given(entries: Iterable[str]) -> dict[str, object]:
    """Keys of a profile and their values, as ``--set`` has them."""
    return {key: yaml.safe_load(value) for key, value in (entry.split("=", 1) for entry in entries)}


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PcsuiteError as error:
        sys.exit(str(error))
