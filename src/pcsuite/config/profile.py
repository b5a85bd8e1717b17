"""The profile: one YAML file that says what to run, on what, how often and within which limits."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PositiveInt, field_validator, model_validator

from pcsuite.config.bundled import searched_operators
from pcsuite.config.definitions import Definition, RegimeId
from pcsuite.config.operator_definitions import WORDINGS
from pcsuite.config.spellings import by_regime, column_names, helm_scenarios
from pcsuite.errors import ConfigError

_RANGE = re.compile(r"^(-?\d+)\.\.(-?\d+)$")
_VERSUS = re.compile(r"\s+(?:-|−|vs\.?)\s+")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LONGEST_NAME = 200


def _expand_ranges(value: Any) -> Any:
    """Expand ``[1..10]`` (which YAML reads as a string in a list) into the integers."""
    if not isinstance(value, (list, tuple)):
        return value
    expanded: list[Any] = []
    for entry in value:
        match = _RANGE.match(entry) if isinstance(entry, str) else None
        expanded.extend(range(int(match[1]), int(match[2]) + 1) if match else [entry])
    return expanded


def _check_seeds(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if not seeds:
        raise ValueError("no seed is given, so nothing would run")
    twice = (
        next((seed for seed in seeds if seeds.count(seed) > 1), None)
        if len(set(seeds)) < len(seeds)
        else None
    )
    if twice is not None:
        raise ValueError(f"seed {twice} is given twice")
    return seeds


SeedList = Annotated[tuple[int, ...], BeforeValidator(_expand_ranges), AfterValidator(_check_seeds)]


def _check_selection(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of a selection, each once; none at all selects nothing, which nobody means."""
    if not any(name.strip() for name in names):
        raise ValueError("nothing is selected: name one at least")
    return tuple(dict.fromkeys(names))


Names = Annotated[tuple[str, ...], AfterValidator(_check_selection)]


def check_run_name(value: str) -> str:
    """The name of a run, which names its files; raises :class:`ValueError` with what is wrong with it.

    Nothing but letters, digits, ``.``, ``_`` and ``-`` stands in one, so that ``~`` can mark what belongs to a run.
    """
    if not _SAFE_NAME.fullmatch(value):
        raise ValueError("use letters, digits, '.', '_' and '-' only: it names files")
    if len(value) > _LONGEST_NAME:
        raise ValueError(f"at most {_LONGEST_NAME} characters: it names files, this has {len(value)}")
    return value


class RunSection(Definition):
    """Where results go."""

    name: str
    """Name of the run and of its log file."""
    output_dir: str = "outputs"
    """Folder of logs, tables, plots and reports."""
    overwrite: bool = False
    """Start the log anew (the old one is set aside, not deleted)."""
    cache_dir: str = ".cache"
    """Folder of exported datasets, responses and metric values."""
    relative_to: Literal["working_folder", "profile"] = Field(default="working_folder", exclude=True)
    """What ``output_dir`` and ``cache_dir`` start from; ``profile`` is the folder of this file, so that a profile with
    its own data runs from anywhere. Folders given on the command line start from the working folder."""
    made_from: dict[str, str] = Field(default_factory=dict, exclude=True)
    """Files beside the profile that it was made from (``pcsuite init`` notes them), each with its sha256: one that has
    changed since is an error, for a run would ask what the file said before."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Least grave messages that commands write to standard error; progress is shown up to ``INFO``."""
    rotate_log_mb: float | None = Field(default=None, gt=0, le=4000)
    """Close the log file at this size and go on in a new one; without it the log is one file."""
    compress_log: bool = True
    """Whether closed files of a rotated log are compressed."""

    @field_validator("name")
    @classmethod
    def _file_name(cls, value: str) -> str:
        return check_run_name(value)


class ReproSection(Definition):
    """Seeds and parallelism."""

    global_seed: int = 1337
    """Seed of item sampling and of every derived stream."""
    deterministic_hash_seed: str = "pcsuite-v1"
    """Salt of the hashes that order items."""
    seeds: Annotated[dict[str, SeedList], BeforeValidator(by_regime)] = Field(
        default_factory=lambda: {"D0": (0,), "D1": tuple(range(1, 11))}
    )
    """Seeds of each decoding regime, by id or as ``d0_greedy`` and ``d1_sampled``; ``1..10`` is a range."""
    seeds_per_task: dict[str, PositiveInt] = Field(default_factory=dict)
    """How many of the sampled regimes' seeds a task uses; ``default`` for tasks not named. Left out, a task uses all
    that ``seeds`` lists, or three of the ten that there are where ``seeds`` is left out too."""
    seeds_per_model: dict[str, PositiveInt] = Field(default_factory=dict, exclude=True)
    """How many of a regime's seeds a model uses at most, of a greedy one too, where only others vary: models not named
    use all that their tasks do."""
    num_workers: int = Field(default=8, gt=0)
    """Workers of preparation and evaluation, at most: on a cluster (``--executor ray``) processes that make prompts,
    ask servers and score answers; in one process (``local``) threads that make prompts whose length a server has to
    count. Other prompts are made, and answers scored, between the calls, one at a time."""
    max_inflight: int = Field(default=16, gt=0)
    """Calls in flight at once, over the whole run."""

    @model_validator(mode="after")
    def _few_where_none_are_listed(self) -> ReproSection:
        if not {"seeds", "seeds_per_task"} & self.model_fields_set:
            self.seeds_per_task["default"] = 3
        return self


class SuiteSection(Definition):
    """The definition files, resolved against the profile's folder, then its parent."""

    tasks_ref: str = "tasks_v1.yaml"
    """Tasks file."""
    models_ref: str = "models_v1.yaml"
    """Models file."""
    operators_ref: str = "operators_v1.yaml"
    """Operators file."""
    conditions_ref: str = "conditions_v1.yaml"
    """Conditions file."""
    decoding_ref: str = "decoding_v1.yaml"
    """Decoding file."""
    metrics_ref: str = "metrics_v1.yaml"
    """Metrics file."""


class SelectionSection(Definition):
    """Which of the defined things this profile runs."""

    tasks: Names
    """Task ids."""
    models: Names
    """Model ids."""
    conditions: Names
    """Condition ids; a design's name selects all its conditions, ``name:member`` one of them."""
    decoding_regimes: Annotated[tuple[RegimeId, ...], AfterValidator(_check_selection)]
    """Decoding regime ids; ``d0_greedy`` is ``D0``, ``d1_sampled`` is ``D1``."""


class RetrySection(Definition):
    """How calls that fail are tried again: exponential backoff with full jitter; ``Retry-After`` wins."""

    max_attempts: int = Field(default=6, gt=0)
    """Tries of one call; 1 tries nothing again."""
    base_s: float = Field(default=0.5, ge=0)
    """Upper bound of the first wait in seconds; it doubles with every attempt."""
    cap_s: float = Field(default=30.0, ge=0)
    """Upper bound of any wait we choose ourselves, in seconds."""
    max_retry_after_s: float = Field(default=300.0, ge=0)
    """A server that asks for a longer wait is not waited for: the error is final."""


class LimitsSection(Definition):
    """How much to run, and when to stop."""

    max_items_per_task: int | None = Field(default=500, gt=0)
    """Items a task, sampled by a fixed seed; ``null`` takes all."""
    per_task_max_items: dict[str, PositiveInt | None] = Field(default_factory=dict)
    """Overrides by task."""
    truthfulqa_mode: Literal["full", "tiny"] = "full"
    """``tiny`` takes 100 TruthfulQA items."""
    max_tokens_overall: int | None = Field(default=None, gt=0)
    """Token budget of the run, all its starts together."""
    max_cost_usd: float | None = Field(default=None, gt=0)
    """Cost budget of the run in US dollars, all its starts together."""
    row_seconds: float | None = Field(default=None, gt=0)
    """Seconds that one row may take: asking, its tools and retries, judging and scoring. A row that takes longer is an
    outcome (``out_of_time``), scores 0 and is not asked again."""
    run_hours: float | None = Field(default=None, gt=0)
    """Hours that the run may take, all its starts together; no further row is begun after them."""
    stop_on_error_rate: float = Field(default=0.02, ge=0, le=1)
    """Stop when a larger share of calls failed, judged after at least 50 calls."""
    retry: RetrySection = RetrySection()
    """How often and how long failed calls are tried again."""


class BatchSection(Definition):
    """How calls go through a provider's batch API (``pcsuite run --batch``); it changes no answer."""

    max_requests: int = Field(default=10_000, gt=0, le=50_000)
    """Requests of one batch, and rows that are made side by side."""
    max_mb: float = Field(default=100.0, gt=0, le=200)
    """Megabytes of one batch's requests."""
    gather_s: float = Field(default=1.0, gt=0)
    """Seconds without a further request after which a batch is sent."""
    poll_s: float = Field(default=30.0, gt=0)
    """Seconds between two looks at a batch."""
    settle_s: float = Field(default=60.0, ge=0)
    """Seconds for which a batch that may have been sent before a crash is looked for before it is sent again."""


class HelmSection(Definition):
    """HELM as an independent witness."""

    enabled: bool = False
    """Whether the profile's runs include HELM; a profile that says ``false`` refuses ``pcsuite helm`` too."""
    scenarios: Annotated[tuple[str, ...], BeforeValidator(helm_scenarios)] = ("truthful_qa",)
    """HELM run entries without their model, such as ``gsm`` or ``mmlu:subject=econometrics``; also ``truthfulqa`` and
    ``mmlu``, which stands for five subjects."""
    helm_output_dir: str | None = None
    """Where HELM writes; by default ``helm`` in the run's ``output_dir``."""
    data_dir: str | None = None
    """Folder of the scenarios' published files, laid out as for ``pcsuite export-datasets --from``."""
    max_instances: int = Field(default=50, ge=1)
    """Most instances of a scenario."""


class PromptBenchSection(Definition):
    """Perturbation block."""

    enabled: bool = False
    """Whether the profile's runs include it; a profile that says ``false`` refuses ``pcsuite promptbench`` too."""
    tasks: Names | None = None
    """Tasks to attack, of those that are selected; by default all of them."""
    conditions_subset: Names | None = None
    """Conditions to attack; by default C2, C3, C4 and C6, or all that are selected where none of these is."""
    attack_types: tuple[str, ...] = ("injection", "paraphrase", "reorder", "distractor", "role_confusion")
    """Perturbation kinds; ``promptbench:deepwordbug`` (``checklist``, ``stresstest``, ``semantic``) are its own."""
    max_items: int = Field(default=200, gt=0)
    """Items a task."""
    variants: int = Field(default=3, gt=0)
    """Variants of each kind, at most."""
    query_budget: int = Field(default=40, ge=5)
    """Prompts that one search of PromptBench may try."""
    search_items: int = Field(default=4, gt=0)
    """Development items each of them is tried on."""
    paraphrase_model: str | None = None
    """A model of the models file that writes further paraphrases."""


class RetrievalSection(Definition):
    """Retrieval for REACT_LOOP."""

    enabled_for_tasks: tuple[str, ...] = ()
    """Tasks that may search."""
    backend: str = "bm25_local"
    """Search backend: bm25_local, api_retriever, or a plugin's name in the group ``pcsuite.retrievers``."""
    wiki_index_path: str | None = None
    """Where ``pcsuite index build`` writes and loops read, or one index; by default ``wiki_bm25`` in ``cache_dir``."""
    api_url: str | None = None
    """Endpoint of ``api_retriever``."""


class IntegrationsSection(Definition):
    """Other tools the suite runs or wraps."""

    helm: HelmSection = HelmSection()
    """HELM."""
    promptbench: PromptBenchSection = PromptBenchSection()
    """Perturbations."""
    retrieval: RetrievalSection = RetrievalSection()
    """Retrieval."""

    def check_allowed(self, name: Literal["helm", "promptbench"]) -> None:
        """Raise a ``ConfigError`` where the profile turns an integration off in so many words (``enabled: false``).

        A section that leaves ``enabled`` out may be run by its own command.
        """
        section = self.helm if name == "helm" else self.promptbench
        if not section.enabled and "enabled" in section.model_fields_set:
            key = f"integrations.{name}.enabled"
            raise ConfigError(f"the profile turns it off: {key} is false", hint=f"add --set {key}=true")


class ObjectiveSection(Definition):
    """Weights of J = task − unsupported − entropy − token cost."""

    task_weight: float = 1.0
    """Weight of the task score."""
    unsupported_weight: float = 0.7
    """Weight of the unsupported rate."""
    entropy_weight: float = 0.3
    """Weight of the normalised entropy."""
    token_cost_weight: float = 0.1
    """Weight of tokens over the task's token budget."""

    @property
    def weights(self) -> tuple[float, float, float, float]:
        """Weights of task score, unsupported rate, entropy and token cost, in this order."""
        return self.task_weight, self.unsupported_weight, self.entropy_weight, self.token_cost_weight


class DspySection(Definition):
    """How C8 is compiled."""

    enabled: bool = False
    """Compile every selected task-model pair when ``pcsuite optimize`` names none."""
    method: str = "mipro"
    """Method where the command names none: ``mipro``, ``gepa``, ``copro``, ``bootstrap``, ``ape``, ``blocks``."""
    conditions_target: tuple[str, ...] = ("C8",)
    """Conditions that are compiled."""
    dev_items: dict[str, int] = Field(default_factory=dict)
    """Dev items by task."""
    iterations: int = Field(default=40, gt=0)
    """Candidates per task-model pair."""
    replicates: int | None = Field(default=None, ge=2)
    """Sampled answers an item, for the entropy; by default as many as the task's runs have."""
    proposer: str | None = None
    """A model of the models file that writes proposals; by default the model that is measured."""
    operators: tuple[str, ...] = Field(default_factory=searched_operators)
    """Operators that ``blocks`` searches over; by default those whose definition says ``searched: true``."""
    objective: ObjectiveSection = ObjectiveSection()
    """The objective's weights."""


class OptimizationSection(Definition):
    """Prompt optimisation."""

    dspy: DspySection = DspySection()
    """DSPy and the comparison methods."""


def _contrast_in_words(value: Any) -> Any:
    """Read ``C3``, ``C3 - C0`` and ``C3 vs C0`` as the mapping they stand for."""
    if not isinstance(value, str):
        return value
    condition, *baseline = _VERSUS.split(value.strip(), maxsplit=1)
    return {"condition": condition, "baseline": baseline[0] if baseline else None}


class PrimaryContrast(Definition):
    """A comparison that a study is about."""

    condition: str
    """Condition id."""
    baseline: str | None = None
    """What it is compared with; by default the control."""
    tasks: tuple[str, ...] = ()
    """Tasks it is about; by default all."""
    models: tuple[str, ...] = ()
    """Models it is about; by default all."""
    regimes: tuple[RegimeId, ...] = ()
    """Decoding regimes it is about; by default all."""


class StoppingSection(Definition):
    """When a run ends."""

    rule: Literal["all_items", "decided", "no_worse"] = "all_items"
    """``decided`` looks after every batch of items and stops arms that are better, worse or, with a margin, equivalent;
    ``no_worse`` also those that are not worse by more than the margin."""
    batch: int = Field(default=10, gt=0)
    """Items between two looks."""
    looks: int | None = Field(default=None, ge=2, le=20)
    """Look so many times, after equal parts of the items, the last after all of them, instead of after every batch:
    few looks that are planned find far more than as many as one likes, where calls are dear."""
    spending: Literal["obrien-fleming", "pocock"] = "obrien-fleming"
    """How planned looks share the error that is allowed: ``obrien-fleming`` leaves nearly all to the last, ``pocock``
    gives each about as much, which ends sooner where effects are large and finds less of the small ones."""


class PreregistrationSection(Definition):
    """What a study is about, hashed into the run's manifest before the first call."""

    primary: tuple[Annotated[PrimaryContrast, BeforeValidator(_contrast_in_words)], ...] = ()
    """Primary contrasts, as ``C3`` (against the control), ``C6 - C4`` or a mapping; none stands for every condition
    against the control."""
    metric: str = "task_score"
    """The metric they are judged by."""
    family: Literal["task", "all"] = "task"
    """Which primary contrasts are corrected together: those of a task, or all."""
    alpha: float = Field(default=0.05, gt=0, lt=1)
    """Chance of any false finding in a family that the stopping rule allows."""
    margin: float | None = Field(default=None, gt=0)
    """Smallest difference that matters, in units of the metric."""
    stopping: StoppingSection = StoppingSection()
    """When the run ends."""

    @property
    def stops_early(self) -> bool:
        """Whether the run may end before all items were asked."""
        return self.stopping.rule != "all_items"

    @model_validator(mode="after")
    def _rule_has_its_margin(self) -> PreregistrationSection:
        if self.stopping.rule == "no_worse" and self.margin is None:
            raise ValueError("stopping.rule no_worse needs a margin, for example margin: 0.02")
        if self.stopping.looks is not None and not self.stops_early:
            raise ValueError("stopping.looks needs a rule to stop by, for example rule: decided")
        return self


MissingAnswers = Literal["bound", "drop"]


class AnalysisSection(Definition):
    """What the report's verdicts are held against; it changes no row, only what is said of rows."""

    size_classes: dict[str, tuple[float, float | None]] = Field(
        default_factory=lambda: {"S": (0.0, 10.0), "M": (10.0, 40.0), "L": (40.0, None)}
    )
    """Classes of model size by billions of parameters, from (included) and to (not included; ``null`` is no end), in
    ascending order. A model of unpublished size belongs to the last one, as the models behind an interface do."""
    scale_bound: float = Field(default=0.05, gt=0, le=1)
    """An effect is the same at two sizes (or in two families) where it differs by less than this."""
    loss_margin: float = Field(default=0.05, gt=0, le=1)
    """A loss of score below this does not count as one (P3)."""

    @field_validator("size_classes")
    @classmethod
    def _ascending(
        cls, value: dict[str, tuple[float, float | None]]
    ) -> dict[str, tuple[float, float | None]]:
        edge = 0.0
        for name, (low, high) in value.items():
            if low < edge or (high is not None and high <= low):
                raise ValueError(f"class '{name}' is empty or begins before the one above it ends")
            edge = float("inf") if high is None else high
        if not value:
            raise ValueError("name one class at least")
        return value


class DrawSection(Definition):
    """What each item draws by a hash of itself, the same in every condition, so that no finding rests on one choice."""

    example_sets: int = Field(default=1, ge=1, le=100)
    """So many sets of exemplars of which each item is shown one; no two of them share an exemplar. Items of one set are
    related: they are one cluster."""
    examples_per_set: int = Field(default=4, ge=1, le=8)
    """Exemplars in a set: as many as the largest ``k`` of the conditions."""
    examples_from: Literal["train", "unscored"] = "train"
    """Where sets come from: the training split, or those items of the scored split that come last by the seed and are
    not scored, where the training split is small or not the same for everybody."""
    wordings: int = Field(default=1, ge=1, le=WORDINGS + 1)
    """So many wordings of instruction and operators (the template and its paraphrases) of which each item has one."""


class Profile(Definition):
    """A profile file."""

    version: str
    """Version of the profile format, ``"1.0"``."""
    run: RunSection
    """Where results go."""
    repro: ReproSection = ReproSection()
    """Seeds and parallelism."""
    suite: SuiteSection = SuiteSection()
    """Definition files."""
    selection: SelectionSection
    """What is run."""
    model_options: dict[str, dict[str, Any]] = Field(default_factory=dict, exclude=True)
    """Keys that override a model's entry, by its name or ``*`` for all: prices, ``logprobs``, ``base_url``. They enter
    rows' ids as keys of the model."""
    targets: dict[str, str | dict[str, Any]] = Field(default_factory=dict, exclude=True)
    """Systems of your own that are selected as models are, by id: what they are (``app.py:answer``, an address, a
    command) or the keys of a model entry of the provider ``target``."""
    limits: LimitsSection = LimitsSection()
    """How much is run."""
    batch: BatchSection = Field(default=BatchSection(), exclude=True)
    """How batches are sent."""
    length_control: Literal["off", "warn", "pad"] = "pad"
    """Whether prompts are brought into their token band: ``pad`` adds content-free filler."""
    integrations: IntegrationsSection = IntegrationsSection()
    """Other tools."""
    optimization: OptimizationSection = OptimizationSection()
    """Compilation of C8."""
    preregistration: PreregistrationSection | None = Field(default=None, exclude=True)
    """What the study is about and when it stops; without it everything explores."""
    analysis: AnalysisSection = Field(default=AnalysisSection(), exclude=True)
    """What the report's verdicts are held against."""
    draw: DrawSection | None = Field(default=None, exclude=True)
    """Example sets and wordings that items draw; without it all items have the same. It enters rows' ids."""
    cluster: Annotated[tuple[str, ...], BeforeValidator(column_names)] = Field(default=(), exclude=True)
    """Columns that say which items are related, of every task that is run, instead of the tasks' own ``cluster``."""
    missing: MissingAnswers = Field(default="bound", exclude=True)
    """What is made of answers that never came (a call failed or timed out): ``bound`` makes a claim only where it holds
    whatever they would have been, ``drop`` judges the items that were answered and says how many were not."""
