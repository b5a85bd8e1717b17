"""An ablation as files: the task, the model, the blocks as operators and the arms as conditions of a profile.

They are written under ``<output_dir>/ablations/<run>/``, so that ``pcsuite run --config`` on the profile there asks the
same rows, and everything else of the suite (plan, log, resume, caches, executors, report) works on it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from pcsuite._util.changes import changing_files
from pcsuite._util.files import replacing
from pcsuite._util.hashing import digest, sha256_hex
from pcsuite.ablation.arms import (
    CHANGES,
    FULL,
    SHAM_PREFIX,
    Design,
    DesignName,
    PromptArm,
    arm_of,
    in_prefix_order,
    make_design,
    operator_texts,
    without,
)
from pcsuite.ablation.covariate import Covariate
from pcsuite.ablation.reading import check_templates, read_files, resolve_model, takes_items
from pcsuite.ablation.rearranging import changed_design
from pcsuite.ablation.replicates import Replicates
from pcsuite.ablation.request import DEFAULT_REGIME, AblationRequest, AblationTask, read_task
from pcsuite.ablation.sizes import affordable_arms, check_context
from pcsuite.ablation.verdicts import least_items
from pcsuite.config.definitions import ModelSpec
from pcsuite.config.load import Suite, bundled_configs, load_suite
from pcsuite.config.operator_definitions import ConditionsFile
from pcsuite.config.profile import ReproSection, check_run_name
from pcsuite.config.targets import target_overrides
from pcsuite.config.yaml_source import YamlSource
from pcsuite.data.clusters import cluster_sentence, clustered, count_clusters
from pcsuite.data.items import Item, datasets_dir, dump_line, sample_items, task_items
from pcsuite.engines import adapter_of
from pcsuite.engines.weights import prompts_cache_dir
from pcsuite.errors import ConfigError, DataError, PromptError, did_you_mean
from pcsuite.prompts.blocks import SplitPrompt

FINGERPRINT = "ablation.sha256"
"""The note in an ablation's folder of what it ablates."""
NOISE_ITEMS = 20
"""Items on which an ablation with a budget, or of a target that varies, asks its A/A arm before anything else."""
BATCH = 24
"""Items between two looks of an ablation that runs until decided."""
MOST_LOOKS = 20
_FOLDER = "ablations"
_COUNTS = ("seeds", "limit", "max_tokens", "budget_tokens", "check_memory_mb")
_AMOUNTS = ("budget_usd", "budget_hours", "calls_per_day", "check_seconds")
"""Fields of a request that are numbers above 0: whole ones, and any."""
_PROFILE, _CONDITIONS = "profile.yaml", "conditions.yaml"
_JOURNAL = ".study.changes"


@dataclass(frozen=True, slots=True)
class Study:
    """An ablation that is ready to run."""

    request: AblationRequest
    prompt: SplitPrompt
    task: AblationTask
    model: ModelSpec
    design: Design
    folder: Path
    base: Suite
    items: Sequence[Item]
    """Those that are asked, in their order."""
    results: str = "."
    """Folder of the run's results, as the profile in :attr:`folder` names it."""
    covariate: Covariate | None = None
    """What was known of the items before."""
    beside: tuple[Study, ...] = ()
    """The same ablation on further models and tables: the same prompt, arms, folder and log."""
    replicates: Replicates | None = None
    """What the noise has decided, once it has, where neither regime nor seeds were asked for."""

    @property
    def each(self) -> tuple[Study, ...]:
        """This study and those beside it."""
        return (self, *self.beside)

    @property
    def model_id(self) -> str:
        """The model's name, as it was given."""
        return self.request.model

    @property
    def asks_target(self) -> bool:
        """Whether a system of the user's answers, which gets the item beside the prompt."""
        return adapter_of(self.model.provider).takes_items

    @property
    def varies(self) -> bool:
        """Whether the same prompt asked again may be answered otherwise whatever the regime: a system of the user's,
        unless it says that it is deterministic."""
        return self.asks_target and not self.model.provider_options().get("deterministic", False)

    @property
    def by_noise(self) -> bool:
        """Whether the A/A arm decides how often the items are answered, by this model or one beside it."""
        return any(one.request.seeds is None for one in self.each)

    @property
    def answers(self) -> int:
        """Answers an item: a model under a greedy regime would say the same again."""
        if self.base.regimes[self.request.regime].greedy and not self.varies:
            return 1
        return self.request.seeds or (self.replicates.answers if self.replicates else 1)

    @property
    def token_measure(self) -> str:
        """The measure that a shorter prompt saves: a model's prompt tokens; all that a target says it took."""
        return "total_tokens" if self.asks_target else "prompt_tokens"

    @property
    def free(self) -> tuple[str, ...]:
        """Blocks that are ablated, in the order of the prompt."""
        return tuple(block.name for block in self.prompt.free)

    @property
    def log(self) -> Path:
        """The log of the run."""
        return self.folder / "runs" / f"{self.request.run_name}.jsonl"

    @property
    def count(self) -> int:
        """Items that are asked."""
        return len(self.items)

    @property
    def chosen_on(self) -> int:
        """Items of the first part, on which the trimmed prompt is chosen; the rest confirm it.

        No cluster stands in both parts: the border between two clusters that is nearest to the middle, of two as near
        the later one. All of them where the items are one cluster: then nothing can be confirmed.
        """
        asked = self.items
        borders = [n for n in range(1, len(asked)) if asked[n - 1].cluster != asked[n].cluster]
        return min(borders, key=lambda n: (abs(2 * n - len(asked)), -n), default=len(asked))

    @property
    def clusters(self) -> int:
        """Clusters of the items that are asked."""
        return count_clusters(self.items)

    @property
    def noise_items(self) -> int:
        """Items on which the full prompt and the A/A arm are asked first; 0 where all arms are asked side by side."""
        request = self.request
        if request.noise_first is not None:
            return request.noise_first
        budgets = (request.budget_usd, request.budget_hours, request.budget_tokens)
        asked_first = self.by_noise or any(budget is not None for budget in budgets)
        return min(NOISE_ITEMS, self.count) if asked_first else 0

    def write(self, arms: Iterable[PromptArm]) -> Suite:
        """Write the profile with these arms and load it as any profile is loaded.

        The items of a table are written to the cache folder under a name made of their content, and only once. Raises
        ``ConfigError`` where the profile that results is refused.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with changing_files(self.folder / _JOURNAL) as changes:
            for name, content in (self._definitions() | self._selection(arms)).items():
                changes.write(self.folder / name, content if isinstance(content, str) else as_yaml(content))
        for task in {study.task.id: study.task for study in self.each}.values():
            if task.items is None:
                continue
            path = datasets_dir(Path(self.base.profile.run.cache_dir)) / (
                f"{task.spec.dataset}_{task.spec.split}.jsonl"
            )
            text = "".join(dump_line(item.line()) for item in task.items)
            # Named by what is asked: what is there asks the same, and may lack columns to cluster by.
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                with replacing(path) as partial_file:
                    partial_file.write_text(text, encoding="utf-8")
        return load_suite(self.folder / _PROFILE)

    def extend(self, suite: Suite, arms: Iterable[PromptArm]) -> Suite:
        """A suite of :meth:`write` with these arms in place of its own, as loading it anew would give it.

        Its files are brought up to date, none is read: whatever ends the run, the profile has the arms that were asked.
        """
        contents = self._selection(arms)
        sources = dict(suite.sources)
        with changing_files(self.folder / _JOURNAL) as changes:
            for key, name in (("profile", _PROFILE), ("conditions_ref", _CONDITIONS)):
                sources[key] = YamlSource(sources[key].path, as_yaml(contents[name]), contents[name])
                changes.write(sources[key].path, sources[key].text)
        conditions = sources["conditions_ref"].parse(ConditionsFile).conditions
        selection = suite.profile.selection.model_copy(update={"conditions": tuple(conditions)})
        profile = suite.profile.model_copy(update={"selection": selection})
        return replace(suite, profile=profile, conditions=conditions, sources=sources)

    def _definitions(self) -> dict[str, Any]:
        """Content of the files that are the same whatever arms are asked, by name: task, models, operators."""
        texts: dict[str, Any] = {}
        tasks: dict[str, Any] = {}
        models: dict[str, ModelSpec] = {study.model_id: study.model for study in self.each}
        for study in self.each:
            if study.task.id in tasks:
                continue
            spec = study.task.spec
            task = {
                key: value
                for key, value in spec.model_dump(mode="json").items()
                if value not in (None, [], {})
            }
            if spec.cluster:
                task["cluster"] = list(spec.cluster)
            if spec.judge is not None:
                models.setdefault(spec.judge.model, self.base.models[spec.judge.model])
                # The arms are no conditions of the profile: what a judge of pairs compares with is the full prompt.
                task["judge"] = spec.judge.model_dump(mode="json") | (
                    {"against": FULL} if spec.judge.scale == "pairwise" else {}
                )
            of_task = "" if not tasks else f"{study.task.id}_"
            if study.task.schema is not None:
                schema = json.dumps(dict(study.task.schema), indent=2, ensure_ascii=False) + "\n"
                texts[f"{of_task}schema.json"], task["schema_ref"] = schema, f"{of_task}schema.json"
            if study.task.grammar is not None:
                texts[f"{of_task}grammar.lark"] = study.task.grammar
                task["grammar_ref"] = f"{of_task}grammar.lark"
            tasks[study.task.id] = task
        templates = {block.name for block in self.prompt.blocks if block.jinja}
        operators: dict[str, dict[str, Any]] = {
            name: {"type": "verbatim", "template": text}
            | ({"syntax": "jinja"} if name.removeprefix(SHAM_PREFIX) in templates else {})
            for name, text in operator_texts(self.prompt).items()
        }
        for piece in (piece for arm in self.design.arms for piece in arm.added):
            entry: dict[str, Any] = {"type": "verbatim", "template": piece.text}
            entry |= {"role": piece.role} if piece.role else {}
            entry |= {"filler": True} if piece.filler else {}
            operators[piece.name] = entry | ({"syntax": "jinja"} if piece.jinja else {})
        return texts | {
            "tasks.yaml": {"version": "1.0", "tasks": tasks},
            "models.yaml": {
                "version": "1.0",
                "models": {name: model.written() for name, model in models.items()},
            },
            "operators.yaml": {"version": "1.0", "operators": operators},
        }

    def _selection(self, arms: Iterable[PromptArm]) -> dict[str, Any]:
        """Content of the files that name the arms, by name: conditions and profile."""
        request, base = self.request, self.base
        conditions = {
            arm.id: {"operators": arm.operators(self.prompt)} for arm in in_prefix_order(arms, self.prompt)
        }
        # Bundled files are found under their names from anywhere; files of the user's by their whole paths.
        refs = {
            key: str(path.resolve())
            for key in ("decoding_ref", "metrics_ref")
            if (path := base.sources[key].path).resolve().parent != bundled_configs().resolve()
        }
        regime = request.regime
        first, answers = int(not base.regimes[regime].greedy), max(one.answers for one in self.each)
        fewer = {one.model_id: one.answers for one in self.each if one.answers < answers}
        return {
            _CONDITIONS: {"version": "1.0", "conditions": conditions},
            _PROFILE: {
                "version": "1.0",
                "run": {
                    "name": request.run_name,
                    "relative_to": "profile",
                    "output_dir": self.results,
                    "cache_dir": self._cache_from_folder(),
                },
                "repro": {
                    "seeds": {regime: list(range(first, first + answers))},
                    "seeds_per_task": {"default": answers},
                    **({"seeds_per_model": fewer} if fewer else {}),
                    "max_inflight": base.profile.repro.max_inflight,
                },
                "suite": {f"{kind}_ref": f"{kind}.yaml" for kind in ("tasks", "models", "operators", "conditions")}
                | refs,
                "selection": {
                    "tasks": list(dict.fromkeys(study.task.id for study in self.each)),
                    "models": list(dict.fromkeys(study.model_id for study in self.each)),
                    "conditions": list(conditions),
                    "decoding_regimes": [regime],
                },
                "limits": {
                    "max_items_per_task": max(study.count for study in self.each),
                    "max_tokens_overall": request.budget_tokens,
                    "max_cost_usd": request.budget_usd,
                    "run_hours": request.budget_hours,
                    **base.profile.limits.model_dump(
                        mode="json", include={"stop_on_error_rate", "retry"}, exclude_defaults=True
                    ),
                },
                "length_control": "off",
                "missing": request.missing_policy,
            }
            | ({"preregistration": self._stopping()} if request.until else {}),
        }  # fmt: skip

    def _cache_from_folder(self) -> str:
        """The cache folder as the profile names it: from its own folder, so that both can move; the user's as it is."""
        cache_dir = self.base.profile.run.cache_dir
        if Path(cache_dir) == prompts_cache_dir():
            return cache_dir
        return os.path.relpath(cache_dir, self.folder)

    def _stopping(self) -> dict[str, Any]:
        """The registered question of an ablation that stops early: each block left out, against the full prompt."""
        return {
            "primary": [{"condition": without(name, self.free).id, "baseline": FULL} for name in self.free],
            "margin": self.request.margin,
            "stopping": {"rule": "no_worse"}
            | ({"batch": BATCH} if self.request.looks is None else {"looks": self.request.looks}),
        }

    def fingerprint(self) -> str:
        """Hash of the prompt's blocks, the task, the model and a scorer of one's own.

        Two ablations of one name must agree in it.
        """
        return digest([*self._made_of(), *(study.fingerprint() for study in self.beside)])

    def _made_of(self) -> list[Any]:
        content = [item.identity() for item in self.task.items] if self.task.items is not None else None
        return [
            [[block.name, block.text] for block in self.prompt.blocks],
            self.task.spec.model_dump(mode="json"),
            None if content is None else sha256_hex(json.dumps(content, sort_keys=True)),
            self.model_id,
            self.model.model_dump(mode="json"),
            *([self.task.scorer.stamp] if self.task.scorer is not None else []),
        ]

    def note(self) -> str:
        """What is written beside the ablation: the fingerprint, and a line for each of its parts that may change."""
        blocks, task, items, model_id, model, *scorer = self._made_of()
        of_model = (
            "its files, its folder or its options" if self.asks_target else "its address or its options"
        )
        parts = {
            "prompt or split": blocks,
            "task": task,
            "table": items,
            f"{model_id} ({of_model})": model,
            "scorer": scorer,
            "set of models or tables": [study.fingerprint() for study in self.beside],
        }
        lines = [f"{digest(value)[:16]} {name}" for name, value in parts.items()]
        return "\n".join([self.fingerprint(), *lines]) + "\n"

    def changed_since(self, note: str) -> str:
        """What of this ablation is another than that of a note, in words; of a note without parts, what it can be."""
        before = note.splitlines()[1:]
        if not before:
            return "prompt, split, table, model or scorer"
        return ", ".join(
            line.partition(" ")[2] for line in self.note().splitlines()[1:] if line not in before
        )


def prepare(request: AblationRequest) -> Study:
    """Read and check everything an ablation needs; nothing is written or called.

    Of several models and tables the study is that of the first, with the others beside it. Raises ``PromptError``,
    ``DataError`` or ``ConfigError`` of one line for whatever is wrong.
    """
    if not 0 < request.margin < 1:
        raise ConfigError(
            f"--margin {request.margin}: a share of the score between 0 and 1 is needed", hint="0.02"
        )
    if request.until and request.design not in ("auto", "leave-one-out"):
        raise ConfigError(
            f"--until {request.until} leaves out one block at a time, it cannot follow --design {request.design}",
            hint="leave one of the two out",
        )
    if request.looks is not None and (request.until is None or not 2 <= request.looks <= MOST_LOOKS):
        raise ConfigError(
            f"--looks {request.looks}: with --until decided, from 2 to {MOST_LOOKS}",
            hint="--until decided --looks 4",
        )
    if request.at and request.design != "order":
        raise ConfigError(f"--at {request.at[0]} is for --design order", hint="leave it out")
    if request.design in CHANGES:
        return _prepare_changes(request)
    study = _read_each(request, _FOLDER)
    free = study.free
    name: DesignName = "leave-one-out" if request.until else request.design
    design_within = partial(make_design, free, name, with_controls=request.controls)
    study = _with_design(study, design_within())
    _check_items(study, least_items(len(free) * len(study.each)), f"{len(free)} blocks")
    if study.request.budget_tokens is not None or study.request.budget_usd is not None:
        affordable = min(affordable_arms(one) for one in study.each) // len(study.each)
        study = _with_design(study, design_within(most_arms=affordable))
    return study


def _prepare_changes(request: AblationRequest) -> Study:
    """The study of a design that moves or repeats blocks, of one model and one table; nothing is dropped from it."""
    if len(request.models) > 1 or request.more_data:
        raise ConfigError(
            f"--design {request.design} is asked of one model and one table", hint="a command for each"
        )
    study = _read_each(replace(request, trim=False), _FOLDER)
    try:
        design = changed_design(study.prompt, request.design, request.at, with_controls=request.controls)
    except ConfigError as error:
        raise ConfigError(f"{request.prompt}: {error.message}", hint=error.hint) from error
    _check_items(study, least_items(len(design.changed)), f"{len(design.changed)} changed prompts")
    return _with_design(study, design)


def _check_items(study: Study, least: int, of: str) -> None:
    """Raise where the items are too few for any test to reject, or the longest prompt does not fit into the context."""
    for one in study.each:
        if one.count < least:
            limited = one.request.limit is not None and one.count >= one.request.limit
            several = f" on {len(study.each)} models and tables" if study.beside else ""
            raise DataError(
                f"{one.request.data}: {one.count} items are too few for {of}{several}: no test could tell"
                " a difference",
                hint=f"{'--limit' if limited else 'give'} {least} or more",
            )
        check_context(one)


def _with_design(study: Study, design: Design) -> Study:
    # A block of which no words can be replaced has no sham: another arm would be the full prompt once more.
    without_sham = {f"~{block.name}" for block in study.prompt.free if block.sham == block.text}
    design = replace(design, arms=tuple(arm for arm in design.arms if arm.id not in without_sham))
    beside = tuple(replace(other, design=design) for other in study.beside)
    return replace(study, design=design, beside=beside)


def _read_each(request: AblationRequest, kind: str) -> Study:
    """The study on the first model and table, with those on the others beside it.

    Blocks that one table fills with the item are kept for all. Raises ``ConfigError`` for a model or table that is
    named twice, and for what several cannot be asked.
    """
    for flag, names in (("--models", request.models), ("--data", (request.data, *request.more_data))):
        twice = [name for index, name in enumerate(names) if name in names[:index]]
        if twice:
            raise ConfigError(f"{flag}: '{twice[0]}' is named twice")
    requests = request.each()
    if request.until and len(requests) > 1:
        raise ConfigError(
            "--until stops by one model and one table, and several are given", hint="leave it out"
        )
    if request.design == "groups" and len(requests) > 1:
        raise ConfigError(
            "--design groups splits by one model and one table, and several are given",
            hint="ask one after the other, each with a --name",
        )
    if request.design == "groups" and request.posterior:
        raise ConfigError(
            "--posterior: blocks that are left out in groups have no effects of their own to shrink"
        )
    studies = [_read(one, kind, request.models or (request.model,)) for one in requests]
    tables = dict[str, str]()
    for study in studies:
        if tables.setdefault(study.task.id, study.request.data) != study.request.data:
            raise ConfigError(
                f"--data: {tables[study.task.id]} and {study.request.data} are both called '{study.task.id}'",
                hint="give one of the files another name",
            )
    pinned = {block.name: block.pinned for study in studies for block in study.prompt.blocks if block.pinned}
    blocks = tuple(
        replace(block, pinned=block.pinned or pinned.get(block.name, ""))
        for block in studies[0].prompt.blocks
    )
    filled = tuple(dict.fromkeys(name for study in studies for name in study.prompt.filled))
    prompt = replace(studies[0].prompt, blocks=blocks, filled=filled)
    first, *others = (replace(study, prompt=prompt) for study in studies)
    request = replace(first.request, models=request.models, more_data=request.more_data)
    return replace(first, request=request, beside=tuple(others))


def _read(request: AblationRequest, kind: str, models: Sequence[str]) -> Study:
    """The prompt, its task, its items and its model, with the full prompt as the only arm.

    ``models`` are all that are asked the same: prompt and task are one for them, whichever gets items beside a prompt.
    """
    try:
        check_run_name(request.run_name)
    except ValueError as error:
        raise ConfigError(f"--name {request.run_name}: {error}") from None
    for flag in (*_COUNTS, *_AMOUNTS):
        value = getattr(request, flag)
        if value is not None and not (value > 0 if flag in _AMOUNTS else value >= 1):  # NaN is neither
            raise ConfigError(f"--{flag.replace('_', '-')} {value:g}: give a number above 0")
    cache_dir = request.cache_dir
    if cache_dir is None and request.config is None and Path(request.data).is_file():
        cache_dir = str(prompts_cache_dir())
    changes: dict[str, Any] = {"run.cache_dir": cache_dir} if cache_dir else {}
    if request.targets:  # where results are written is no part of a folder that calls get copies of
        changes |= target_overrides(request.targets) | {"run.output_dir": request.output_dir}
    base = load_suite(request.config or "quickstart", changes or None, check_selection=False)
    named = bool(request.regime)
    request = request if named else replace(request, regime=DEFAULT_REGIME)
    if request.regime not in base.regimes:
        hint = did_you_mean(request.regime, base.regimes)
        raise ConfigError(f"--regime: unknown regime '{request.regime}'", hint=hint)
    limits = base.profile.limits
    request = replace(
        request,
        budget_tokens=limits.max_tokens_overall if request.budget_tokens is None else request.budget_tokens,
        budget_usd=limits.max_cost_usd if request.budget_usd is None else request.budget_usd,
        budget_hours=limits.run_hours if request.budget_hours is None else request.budget_hours,
        cluster=request.cluster or base.profile.cluster,
        missing=request.missing or base.profile.missing,
    )
    beside = [takes_items(name, base) for name in models]
    prompt = read_files(request, base, models)
    prompt = prompt.rename(request.rename) if request.rename else prompt
    prompt = prompt.into(request.into, "auto") if request.into else prompt
    try:
        task, prompt = read_task(request, base, prompt, item_beside=all(beside), all_columns=any(beside))
        for block in prompt.free:  # before anything is paid for: the shorter prompt can be written
            prompt.written([other.name for other in prompt.blocks if other is not block])
    except PromptError as error:
        raise PromptError(f"{request.prompt}: {error}") from error
    prompt = prompt.keep(request.keep)
    free = [block.name for block in prompt.free]
    for name in request.block_checks:
        if prompt.block(name).name not in free:
            raise ConfigError(f"--block-check {name}: the block always stands, so nothing is told by it")
        if prompt.block(name).name != name:
            raise ConfigError(f"--block-check {name}: name the block", hint=prompt.block(name).name)
    model = resolve_model(request, base, free)
    if task.items is None:
        items = task_items(task.spec, task.spec.split, Path(base.profile.run.cache_dir)).items
        task = replace(task, related=cluster_sentence(items, task.spec.cluster))
    else:
        columns = task.spec.cluster
        items = clustered(task.items, columns, request.data) if columns else list(task.items)
    check_templates(request, prompt, items)
    repro = ReproSection()  # those of the profile that is written
    items = sample_items(items, request.limit, repro.global_seed, task.id, repro.deterministic_hash_seed)
    only = Design("none", (arm_of(free, free),), "the prompt as it stands")
    folder = Path(request.output_dir) / kind / request.run_name
    covariate = None
    if request.covariate is not None:
        covariate = Covariate.read(Path(request.covariate), [item.item_id for item in items])
    study = Study(request, prompt, task, model, only, folder, base, items, covariate=covariate)
    seeds = request.seeds
    if kind != _FOLDER and base.regimes[request.regime].greedy:
        seeds = 1  # a prompt as it stands has no A/A arm
    elif named or not study.varies or not request.controls or request.noise_first in (0, 1):
        seeds = seeds or 1  # nothing is left for the noise to decide, or nothing measures it
    return replace(study, request=replace(request, seeds=seeds))


def prompt_profile(request: AblationRequest) -> Suite:
    """A prompt and a table as a profile of one condition, the prompt as it stands; nothing is called.

    Several models and tables are those of the profile.

    Its files lie under ``<output_dir>/prompts/<run>/``, its rows in ``<output_dir>/prompts/<run>/runs/``. Raises what
    :func:`prepare` raises for a prompt, a table or a model that cannot be used.
    """
    study = _read_each(request, "prompts")
    for one in study.each:
        check_context(one)
    return study.write(study.design.arms)


def as_yaml(value: Any) -> str:
    """YAML that comes back as it was: everything but ASCII is escaped, since YAML folds some line ends of Unicode."""
    return yaml.safe_dump(value, sort_keys=False, width=100)
