"""What an ablation is asked for, and the task that its data are: one of the profile, or the user's own table."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pcsuite._util.hashing import sha256_hex
from pcsuite.ablation.arms import DesignName
from pcsuite.config.definitions import CheckSpec, TaskSpec
from pcsuite.config.load import ScorerFile, Suite
from pcsuite.config.operator_definitions import Place
from pcsuite.config.profile import MissingAnswers, ReproSection
from pcsuite.config.spellings import regime_id
from pcsuite.contrasts import MARGIN, Assumption
from pcsuite.data import init_task, table_files
from pcsuite.data.clusters import cluster_sentence
from pcsuite.data.items import Item, Row
from pcsuite.errors import ConfigError, DataError, did_you_mean
from pcsuite.evaluation import EVALUATORS
from pcsuite.prompts.blocks import SplitPrompt
from pcsuite.prompts.sources import PromptFile
from pcsuite.prompts.splitting import SplitMethod
from pcsuite.prompts.verbatim import INPUT_NAMES

CHECK = "check"
"""The evaluator that scores by a task's checks."""


@dataclass(frozen=True, slots=True)
class AblationRequest(init_task.TableRequest):
    """What ``pcsuite ablate`` is asked for; every field has the flag of its name."""

    prompt: Path
    """Its file, or ``FILE:NAME`` for one of several prompts in it."""
    data: str
    """A table (CSV, TSV, JSON lines, JSON), or the id of a task of the profile."""
    more_prompts: tuple[Path, ...] = ()
    """Further files, or folders of prompts, beside ``prompt``: blocks across files."""
    models: tuple[str, ...] = ()
    """Several models that are asked the same, the first of them the one that others are compared with; they go before
    ``model``."""
    more_data: tuple[str, ...] = ()
    """Further tables or tasks beside ``data``."""
    targets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Systems of the user's own, as model entries by id (:func:`pcsuite.config.targets.target_entries`), that can be
    named as models are."""
    check: str | None = None
    """A command that scores an answer by its exit status, in the copy of the folder that the call worked in."""
    block_checks: Mapping[str, str] = field(default_factory=dict)
    """Commands by block that show, by their exit status there, whether an answer follows the block."""
    check_seconds: float = 300.0
    """What a check may take."""
    check_memory_mb: int = 4096
    """Megabytes that each process of a check may take."""
    check_network: bool = False
    """Whether checks may reach the network, where the system lets us keep them from that."""
    reach: Literal["auto", "answer", "loaded", "off"] = "auto"
    """How it is found out, before arms are paid for, whether files put into a folder reach the system that works there:
    by marks in its answer, by its own list of loaded sources, by either (``auto``), or not at all."""
    base_url: str | None = None
    model_options: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the model's entry that are replaced: ``price_in``, ``api_key_env``, …"""
    effects: Mapping[str, float] = field(default_factory=dict)
    """True effects on the logit by block name (``a*b`` for an interaction), for the simulated model; of one of several
    models with its name before (``simulated/new:rules``)."""
    split: SplitMethod = "auto"
    into: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    append_input: bool = False
    system: bool = False
    """The prompt is the system's message, and the item the user's."""
    literal: tuple[str, ...] = ()
    """Words that look like variables and are meant to the letter."""
    design: DesignName = "auto"
    at: tuple[Place, ...] = ()
    """Of the design ``order``: the places that blocks are moved to; by default all that the prompt has."""
    controls: bool = True
    margin: float = MARGIN
    assume: Assumption = "nothing"
    """What verdicts on graded scores may assume: nothing, or that differences to either side are alike."""
    posterior: bool = False
    """Whether each block has the probabilities that it helps, and that it matters less than the margin."""
    until: Literal["decided"] | None = None
    """Ask batches of items until every block is decided, instead of all of them."""
    looks: int | None = None
    """With ``until``: look so many times, after equal parts of the items, instead of after every batch."""
    missing: MissingAnswers | None = None
    """What is made of answers that never came; by default what the profile says, ``bound``."""
    regime: str = ""
    """Decoding regime; by default :data:`DEFAULT_REGIME`."""
    seeds: int | None = None
    """Answers an item: of a sampled regime, and of a target that varies under any. By default 1; where no regime is
    named either, 2 of a target that varies if its A/A arm shows it (:mod:`pcsuite.ablation.replicates`)."""
    max_tokens: int | None = None
    assume_flips: float | None = None
    covariate: str | None = None
    """A log or a table with a number for each item, by which effects are adjusted beside the plain ones."""
    noise_first: int | None = None
    """Items on which the full prompt and the A/A arm are asked before the rest, which is then forecast; by default 20
    where there is a budget or a target varies, else none. Where 0 are, nothing decides that it is asked twice."""
    budget_hours: float | None = None
    calls_per_day: float | None = None
    """Calls a day, at which savings are told as money a year."""
    trim: bool = True
    name: str | None = None
    config: str | None = None
    """Profile whose models, tasks, regimes, metrics and cache folder are used; by default those of ``quickstart``, with
    a table's items and answers in the user's cache folder."""
    output_dir: str = "outputs"
    cache_dir: str | None = None
    """Folder of items and responses, instead of the profile's or the user's."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "regime", regime_id(self.regime))

    def each(self) -> list[AblationRequest]:
        """One request for every model and table of this one, models of the first table first."""
        models, tables = self.models or (self.model,), (self.data, *self.more_data)
        alone = replace(self, models=(), more_data=(), name=self.run_name)
        return [
            replace(alone, data=table, model=model, effects=self._effects_on(model))
            for table in tables
            for model in models
        ]

    def _effects_on(self, model: str) -> dict[str, float]:
        effects: dict[str, float] = {}
        for key, value in self.effects.items():
            owner, _, block = key.rpartition(":")
            if owner and owner not in self.models and Path(owner).suffix:
                owner, block = "", key  # of a block in one of several files
            if owner and owner not in self.models:
                hint = did_you_mean(owner, self.models) if self.models else "--models A,B"
                raise ConfigError(f"--effect {key}: no model '{owner}'", hint=hint)
            if not owner or owner == model:
                effects[block] = value
        return effects

    @property
    def prompts(self) -> tuple[Path, ...]:
        """The prompt's file, and those beside it."""
        return (self.prompt, *self.more_prompts)

    @property
    def title(self) -> str:
        """What is ablated, as a heading names it: the prompt's file, or the first of several and how many more."""
        more = len(self.more_prompts)
        return self.prompt.name + (f" and {more} more file{'s' if more > 1 else ''}" if more else "")

    def checks(self) -> dict[str, CheckSpec]:
        """The checks of the task, by name: ``check`` scores, the others show whether a block is followed."""
        limits = {
            "time_limit_s": self.check_seconds,
            "memory_limit_mb": self.check_memory_mb,
            "network": self.check_network,
        }
        checks = {} if self.check is None else {"check": CheckSpec(command=self.check, **limits)}
        for block, command in self.block_checks.items():
            checks[f"follows {block}"] = CheckSpec(command=command, block=block, **limits)
        return checks

    @property
    def run_name(self) -> str:
        """The run's name: as given, else the prompt file's.

        Characters that no run's name has (``ü``, a blank) become hyphens.
        """
        return self.name or PromptFile.of(self.prompt).run_name

    @property
    def missing_policy(self) -> MissingAnswers:
        """What is made of answers that never came, where nothing was said too: they are bounded."""
        return self.missing or "bound"


DEFAULT_REGIME = "D0"
"""Decoding regime where none is named."""


@dataclass(frozen=True, slots=True)
class AblationTask:
    """The task that an ablation asks: its definition, its items and what was concluded about the table."""

    id: str
    spec: TaskSpec
    schema: Mapping[str, Any] | None
    grammar: str | None
    items: Sequence[Item] | None
    """Items of a table; ``None`` where they are those of an existing task."""
    reading: str
    scorer: ScorerFile | None = None
    """The user's own scoring function."""
    related: str = ""
    """Which items are related and what follows, in a sentence; empty where each stands for itself."""


def bundled_example() -> tuple[Path, dict[str, Any]]:
    """The bundled prompt, and what else of a request belongs to it: its table, and settings that take minutes.

    Returns the prompt's file, and the settings by the names of :class:`AblationRequest`; what a user sets goes
    before.
    """
    folder = Path(str(files("pcsuite.ablation"))) / "example"
    settings = {
        "data": str(folder / "reviews.csv"),
        "answer": "mood",
        "model": "qwen2.5-coder-0.5b",
        "design": "leave-one-out",
        "margin": 0.2,
        "max_tokens": 8,
        "name": "example",
    }
    return folder / "reviews.md", settings


def read_task(
    request: AblationRequest,
    base: Suite,
    prompt: SplitPrompt,
    *,
    item_beside: bool = False,
    all_columns: bool = False,
) -> tuple[AblationTask, SplitPrompt]:
    """The task that the data are, and the prompt with its placeholders checked against their columns.

    The data are a task of the profile by its id, or a table, of which is concluded what the request does not say. A
    prompt whose item goes beside it (``item_beside``) needs no placeholder. With ``all_columns`` items have all columns
    of the input, also those that the prompt does not show: somebody who is asked gets the item itself. Raises
    ``DataError``, ``ConfigError`` or ``PromptError`` of one line for whatever does not fit.
    """
    if request.data not in base.tasks or Path(request.data).is_file():
        return _table_task(request, base, prompt, item_beside=item_beside, all_columns=all_columns)
    prompt = prompt.check_placeholders((), literal=request.literal, item_beside=item_beside)
    spec = base.tasks[request.data]
    spec = spec.model_copy(update={"max_tokens": request.max_tokens}) if request.max_tokens else spec
    if columns := request.cluster or spec.cluster:
        spec = spec.model_copy(update={"cluster": columns})
    reading = f"task {request.data}: {spec.title}"
    scorer = _scorer_file(request) or base.scorer(request.data)
    if checks := request.checks():
        spec = spec.model_copy(update={"checks": {**spec.checks, **checks}})
        if request.check is not None and request.scorer is None:
            scorer = None
            spec = spec.model_copy(update={"evaluator": CHECK, "evaluator_options": {}})
    if scorer is not None:  # by its whole path: the task's file is written elsewhere
        options = spec.evaluator_options if request.scorer is None else {}
        spec = spec.model_copy(update={"evaluator": scorer.resolved, "evaluator_options": options})
    schema, grammar = base.schema(request.data), base.grammar(request.data)
    return AblationTask(request.data, spec, schema, grammar, None, reading, scorer), prompt


def _table_task(
    request: AblationRequest, base: Suite, prompt: SplitPrompt, *, item_beside: bool, all_columns: bool
) -> tuple[AblationTask, SplitPrompt]:
    """A table as a task: which columns are input and answer, of what kind it is, and how it is scored."""
    path = Path(request.data)
    if not path.is_file():
        hint = did_you_mean(request.data, base.tasks)
        raise DataError(f"--data {request.data}: neither a file nor a task of the profile", hint=hint)
    task_id = init_task.task_name(path.stem)
    # The rows that are asked are those of the lowest rank: of a large table no others need be kept.
    repro = ReproSection()
    rank = init_task.table_rank(request, task_id, repro.global_seed, repro.deterministic_hash_seed)
    few = request.limit is not None and 0 < request.limit * 10 <= table_files.KEPT_ROWS
    rows = table_files.read_table(path, rank if few else None)
    columns = list(rows[0].values)
    ids, how_named = init_task.id_column(request, rows)
    request = replace(request, id_column=ids)
    placed = prompt.names_among(columns, request.literal)
    scorer = _scorer_file(request)
    asserted = tuple(name for name in columns if _ASSERTED.fullmatch(name)) if not request.fields else ()
    if request.kind == "assert" or (request.kind is None and asserted and not request.answer):
        request = replace(request, kind="assert", fields=asserted if not request.answer else ())
    by_check = request.check is not None and request.scorer is None
    if by_check and not request.answer:
        answer, how = None, ""  # what is right, the command knows
    else:
        needed = scorer is None
        answer, how = init_task.answer_column(request, columns, path, placeholders=placed, needed=needed)
    request = replace(request, answer=answer, placed=tuple(dict.fromkeys(placed)))
    prompt = prompt.check_placeholders(
        columns,
        forbidden=[*([answer] if answer else []), *request.fields],
        literal=request.literal,
        # What is the same in every row is no part of the item: a block that shows only such can be left out.
        inputs=request.inputs
        or [name for name in placed if len({str(row.values.get(name)) for row in rows}) > 1]
        or placed,
        item_beside=item_beside,
    )
    inputs = init_task.input_columns(request, columns, path)
    if not request.inputs and set(INPUT_NAMES) & set(prompt.filled):
        unplaced = init_task.input_columns(replace(request, placed=()), columns, path)
        inputs = tuple(name for name in unplaced if name not in placed) or inputs
    if all_columns:  # what the prompt does not show is given all the same, but never the answer
        others = request.inputs or _given_columns(request, columns, path)
        request = replace(request, placed=tuple(dict.fromkeys((*placed, *others))))
    kind = "own" if scorer is not None or by_check else _kind_of(request, rows)
    table = init_task.read_table_task(
        init_task.TaskRequest(task_id, path, **request.table_fields(kind=kind, inputs=inputs)),
        least=2,
        rows=rows,
    )
    content = sha256_hex(json.dumps([item.identity() for item in table.items], sort_keys=True))[:12]
    # The prompt is the user's: whether it asks for JSON or for a word, both are read.
    plain = {"plain_text": True} if kind in ("classification", "number", "choice", "short_answer") else {}
    options = dict(table.words.task.get("evaluator_options") or {}) | plain
    task = dict(table.words.task) | {
        "title": path.stem.replace("_", " "),
        "dataset": f"{task_id}_{content}",
        "split": "test",
        "cluster": request.cluster,
        "evaluator": scorer.resolved
        if scorer is not None
        else request.scorer or (CHECK if by_check else kind),
        "evaluator_options": options
        if (request.scorer is None or scorer is not None) and not by_check
        else {},
        "checks": request.checks(),
    }
    if request.max_tokens:
        task["max_tokens"] = request.max_tokens
    schema = table.schema if kind == "extraction" else None
    if schema is None and task["kind"] == "structured":
        task["kind"] = "reasoning"
        task["final_answer_format"] = "The answer."
    spec = TaskSpec.model_validate(task)
    drawn = f" drawn from the {path.suffix[1:]}'s rows by their rank" if rows[0].number else ""
    parts = [f"{path.name}: {len(table.items)} items{drawn}", f"input: {', '.join(inputs)}"]
    if answer:
        parts.append(f"answer: {answer}{how}")
    if request.fields:
        parts.append(f"{'assertions' if kind == 'assert' else 'fields'}: {', '.join(request.fields)}")
    if all_columns:
        parts.append(f"the target gets: {', '.join(request.placed)}")
    if table.numbers:
        parts.append(table.numbers)
    parts += [how_named] if how_named else []
    if by_check:
        parts.append(f"scored by the exit status of: {request.check}")
    else:
        parts.append(f"scored by {scorer.stamp}" if scorer is not None else f"scored as {spec.evaluator}")
    sentence = cluster_sentence(table.related(request.cluster, str(path)), request.cluster, table.ignored)
    return AblationTask(task_id, spec, schema, None, table.items, ", ".join(parts), scorer, sentence), prompt


def _kind_of(request: AblationRequest, rows: Sequence[Row]) -> str:
    """What kind of task a table is that the suite scores: as asked for, as its scorer takes it, else as it looks."""
    if request.kind is not None:
        return request.kind
    if request.scorer is not None and not (request.choices or request.fields or request.labels):
        return request.scorer if request.scorer in ("classification", "number") else "short_answer"
    return init_task.likely_kind(rows, request)


def _given_columns(request: AblationRequest, columns: Sequence[str], path: Path) -> list[str]:
    """Columns that a target gets of a table: those of the input, none that is called as answers usually are."""
    unplaced = init_task.input_columns(replace(request, placed=()), columns, path)
    answers = {name.casefold() for name in init_task.ANSWER_NAMES}
    return [name for name in unplaced if name.casefold() not in answers and not _ASSERTED.fullmatch(name)]


_ASSERTED = re.compile(r"__expected\d*")
"""Columns of assertions, by the name that promptfoo gives them."""


def _scorer_file(request: AblationRequest) -> ScorerFile | None:
    """The user's function that ``--scorer`` names; ``None`` for an evaluator of the suite. Raises for unknown names."""
    if request.scorer is None:
        return None
    scorer = ScorerFile.read(request.scorer, [Path()])
    if scorer is None and request.scorer not in EVALUATORS:
        raise ConfigError(
            f"--scorer: no scorer '{request.scorer}'",
            hint=f"{did_you_mean(request.scorer, EVALUATORS)} or a function of yours: my_scorer.py:score",
        )
    return scorer
