"""The definition files a profile refers to: tasks, models, decoding, metrics; operators and conditions stand beside."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from pcsuite._util.patterns import read_pattern
from pcsuite.config.spellings import (
    by_regime,
    column_names,
    dataset_name,
    normalise_model,
    normalise_task,
    regime_id,
    task_kind,
)

TaskKind = Literal["structured", "reasoning", "judged"]
JudgeScale = Literal["pass_fail", "one_to_five", "pairwise"]
JUDGED: TaskKind = "judged"
DEFAULT_ABSTAIN = 'Say "INSUFFICIENT_INFO" in place of the answer.'
Wording = Literal["1", "2"]
WORDING_1: Wording = "1"
"""Wording of files that name none: words and layout that all prompts had before wordings were told apart."""
RegimeId = Annotated[str, BeforeValidator(regime_id)]
AnswerForm = Literal["text", "json", "number", "label"]
ANSWER_DEFAULTS: Mapping[Any, Mapping[str, str]] = {
    "text": {
        "kind": "reasoning",
        "evaluator": "short_answer",
        "final_answer_format": "The answer alone, in a few words.",
    },
    "number": {
        "kind": "reasoning",
        "evaluator": "number",
        "final_answer_format": 'A last line of the form "#### NUMBER".',
    },
    "label": {
        "kind": "reasoning",
        "evaluator": "classification",
        "final_answer_format": "The label alone, as it is spelled.",
    },
    "json": {"kind": "structured", "evaluator": "extraction"},
}
"""What a task's ``answer`` says where the task does not."""


class Definition(BaseModel):
    """A frozen configuration model that refuses unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        protected_namespaces=(),
        populate_by_name=True,
    )


def _readable_pattern(pattern: str) -> str:
    """Refuse a pattern that nobody could enforce or check, before the first call instead of after it."""
    read_pattern(pattern, "answer")
    return pattern


def _answer_defaults(task: Mapping[str, Any]) -> Mapping[str, str]:
    """What a task's ``answer`` says; a function of the user's and assertions judge any text, so that they need none."""
    answer, evaluator = task.get("answer"), str(task.get("evaluator", ""))
    free = evaluator == "assert" or ".py:" in evaluator
    if answer is None:
        if not free or "kind" in task:
            return {}
        answer = "text"
    # A word that is none is refused by its field; what else is missing then is no mistake of its own.
    defaults = ANSWER_DEFAULTS[answer if isinstance(answer, str) and answer in ANSWER_DEFAULTS else "text"]
    return {**defaults, "final_answer_format": "The answer alone."} if free and answer == "text" else defaults


class JudgeSpec(Definition):
    """Who judges the free text that answers a task, and by what rubric. All of it enters the rows' ids."""

    model: str
    """Id of the model that judges; it need not be among those that answer."""
    rubric: str = Field(min_length=1)
    """What makes an answer good, in words for the judge; for ``one_to_five`` say what 1 and 5 are."""
    scale: JudgeScale = "pass_fail"
    """``pass_fail``; ``one_to_five`` (scored 0 to 1); ``pairwise``: against the control's answer to the same item,
    asked in both orders, scored 1 for a win, 0.5 for a tie, 0 for a loss."""
    against: str | None = None
    """Of ``pairwise``: the condition whose answers are the other side; by default the control (C0, or the bare one)."""
    show_reference: bool = False
    """Whether the judge is shown the item's reference answer (``truth.reference``)."""
    explain: bool = False
    """Whether the judge gives its reason before its verdict, which takes more tokens."""
    max_tokens: int | None = Field(default=None, gt=0)
    """Longest reply of the judge; by default 32, with ``explain`` 256."""

    @model_validator(mode="after")
    def _check_against(self) -> JudgeSpec:
        if self.against is not None and self.scale != "pairwise":
            raise ValueError(f"'against' is for scale: pairwise, and the scale is {self.scale}")
        return self


class CheckSpec(Definition):
    """A command that looks at the folder a call worked in, and holds where it ends with status 0."""

    command: str = Field(min_length=1)
    """As a shell takes it; it runs in the call's own copy of the folder."""
    block: str = ""
    """Name of the prompt's block whose following it shows; empty for one that the task is scored by."""
    time_limit_s: float = Field(default=300.0, gt=0)
    """Seconds that it may take; over that it does not hold."""
    memory_limit_mb: int = Field(default=4096, ge=64)
    """Megabytes of memory that each of its processes may take."""
    network: bool = False
    """Whether it may reach the network, where the system lets us keep it from that."""


def _whole_check(entry: Any) -> Any:
    """A check that is given as its command alone."""
    return {"command": entry} if isinstance(entry, str) else entry


class TaskSpec(Definition):
    """One task. Everything a prompt says about the task comes from here; everything else from operators.

    Second spellings (``output_schema_ref``, ``labels``, ``answer_extractor``, ``split: {train, dev, test}``, the kinds
    of :data:`~pcsuite.config.spellings.EVALUATOR_OF_KIND`) are read as the keys below.
    """

    title: str = ""
    """Short human name, shown in reports; by default the task's id in words."""
    answer: AnswerForm | None = Field(default=None, exclude=True)
    """What an answer is: ``text``, a ``number``, a ``label`` or ``json``. Where they are not given it sets ``kind``,
    ``evaluator`` and ``final_answer_format``; it is no part of a row's id, what it sets is."""
    kind: Annotated[TaskKind, BeforeValidator(task_kind)]
    """``structured``: answers are a JSON object (also ``structured_extraction``, ``classification``, ``mcq``,
    ``verification``, ``truthfulness``); ``reasoning``: text ending in an answer line; ``judged``: free
    text that a model judges by a rubric (``judge``)."""
    domain: str = Field(default="", exclude=True)
    """What the items are about (``news``, ``school mathematics``), by which replication is judged; a task without one
    is a domain of its own. It changes no prompt, so it is no part of a row's id."""
    dataset: Annotated[str, BeforeValidator(dataset_name)]
    """Name of the items file: ``<cache_dir>/datasets/<dataset>_<split>.jsonl``, or a bundled sample."""
    split: str = "test"
    """The split that is scored."""
    dev_split: str | None = None
    """The split the optimiser may see."""
    train_split: str = "train"
    """The split exemplars come from."""
    input_fields: tuple[str, ...] = Field(default=(), exclude=True)
    """Keys of a line of the items file that make the input, where the line has no ``input_text``."""
    truth_fields: tuple[str, ...] = Field(default=(), exclude=True)
    """Keys of such a line that make the truth, where it has no ``truth``."""
    cluster: Annotated[tuple[str, ...], BeforeValidator(column_names)] = Field(default=(), exclude=True)
    """Columns of the items that say which of them are related (a customer, a document): items with equal values in all
    of them are one cluster, and so are items with equal inputs. It changes no prompt and is no part of a row's id."""
    instruction: str = ""
    """The bare instruction: all that C0 says besides the input."""
    role: str = ""
    """What ROLE says the model is."""
    goal: str = "Give the right answer for the input."
    """What GOAL says a good answer achieves."""
    rules: tuple[str, ...] = ()
    """The task's own rules, shown by CONSTRAINTS."""
    abstain: str = DEFAULT_ABSTAIN
    """How to abstain on this task, shown by ABSTAIN."""
    decompose: tuple[str, ...] = ()
    """Sub-steps shown by DECOMPOSE."""
    verifier_checklist: tuple[str, ...] = ()
    """Checks shown by VERIFIER."""
    schema_ref: str | None = None
    """JSON schema of the answer (structured tasks), a file beside the task file or under ``schemas/``."""
    final_answer_format: str | None = None
    """Answer format in words (reasoning tasks)."""
    answer_regex: Annotated[str, AfterValidator(_readable_pattern)] | None = None
    """Regular expression the whole output must match under a hard constraint (reasoning tasks)."""
    grammar_ref: str | None = None
    """Lark grammar the output must match under CFG_CONSTRAIN."""
    lmql_ref: str | None = None
    """LMQL query of your own for the constraint backend ``lmql_program``, in place of the compiled one."""
    input_label: str = "Input"
    """Heading of the input in the prompt."""
    max_tokens: int = Field(default=256, gt=0)
    """Completion limit."""
    length_band: tuple[int, int] | None = None
    """Prompt tokens aimed at by length control; by default the band of the task's kind."""
    evaluator: str
    """Name in the evaluator registry, or a function of your own: ``my_scorer.py:score``, a file beside this one."""
    evaluator_options: dict[str, Any] = Field(default_factory=dict)
    """Options of the evaluator, checked against its own ``Options`` model."""
    primary_metric: str = "accuracy"
    """Name of the primary metric, for tables and plots; ``task_score`` carries its per-item value."""
    retrieval: bool = False
    """Whether loops apply (REACT_LOOP, REVISE_LOOP): answers can be held against a corpus, which is searched where
    ``integrations.retrieval.enabled_for_tasks`` names the task."""
    judge: JudgeSpec | None = None
    """Of a ``judged`` task: who judges, and by what."""
    checks: dict[str, Annotated[CheckSpec, BeforeValidator(_whole_check)]] = Field(default_factory=dict)
    """Commands that look at the folder a target worked in (``in_folder``), by name, each a text or an entry with its
    limits. The evaluator ``check`` scores by those that are of no ``block``."""

    @model_validator(mode="after")
    def _check_judge(self) -> TaskSpec:
        if (self.kind == JUDGED) != (self.judge is not None):
            missing = "has no 'judge'" if self.judge is None else f"has a 'judge' and kind: {self.kind}"
            raise ValueError(f"the task {missing}; a judge and kind: judged go together")
        if (self.evaluator == JUDGED) != (self.kind == JUDGED):
            raise ValueError("evaluator: judged and kind: judged go together")
        return self

    @model_serializer(mode="wrap")
    def _omit_absent_keys(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Ids of rows hash this: tasks without a judge or checks keep those they had before there were any.
        dumped: dict[str, Any] = dump(self)
        if dumped.get("judge", 0) is None:
            del dumped["judge"]
        if not dumped.get("checks", True):
            del dumped["checks"]
        return dumped

    def scoring_options(self) -> dict[str, Any]:
        """What the task's evaluator is built with: its options, of a judged task the judge and what it is told.

        The judge is told the instruction and the label of the input; whether the options fit is for the evaluator to
        say.
        """
        if self.judge is None:
            return self.evaluator_options
        shown = {"instruction": self.instruction, "input_label": self.input_label}
        return {**self.evaluator_options, "judge": self.judge, **shown}

    @model_validator(mode="before")
    @classmethod
    def _normalised(cls, entry: Any) -> Any:
        if not isinstance(entry, dict):
            return entry
        task = normalise_task(entry)
        task = {**_answer_defaults(task), **task}
        title = task.get("title") or str(task.get("dataset", "the task")).replace("_", " ")
        labels = (task.get("evaluator_options") or {}).get("labels") or ()
        is_list = isinstance(labels, (list, tuple)) and labels
        among = f" with one of {', '.join(map(str, labels))}" if is_list else ""
        form = " as JSON" if task_kind(task.get("kind")) == "structured" else ""
        defaults = {
            "title": title,
            "instruction": f"{title}: answer for the input below{among}{form}.",
            "role": f"a careful specialist in {title}",
        }
        if task.get("kind", JUDGED if task.get("judge") else None) == JUDGED:
            defaults |= {"kind": JUDGED, "evaluator": JUDGED, "primary_metric": "judge's score"}
        return {**defaults, **task}


ADMISSION_KEYS = frozenset(
    {"api_key_command", "api_key_lifetime_s", "credentials", "aws_profile", "key_header"}
)
"""Keys of a model's entry that say who asks, not what; ``api_key_env`` is part of rows' ids as it always was."""
TARGET_PLACE_KEYS = frozenset(
    {"target_folder", "concurrency", "deterministic", "in_folder", "leave_out", "copies_in"}
)
"""Keys of a target's entry that say where it lies and how it is asked, and change no answer; what the folder holds that
each call gets a copy of is part of its ``identity``."""


class ModelSpec(Definition):
    """One model. Keys that are not listed here belong to the provider, whose ``Options`` check them."""

    model_config = ConfigDict(extra="allow")

    provider: str
    """Name in the adapter registry: llamacpp, hf, simulated, one of ``providers_v1.yaml`` (openai, anthropic, google,
    ollama, …), or a plugin's."""
    family: str
    """Model family, a fixed effect of the mixed model."""
    size: str
    """Size class as shown in tables, for example ``7B``."""
    params_b: float | None = Field(default=None, gt=0)
    """Parameters in billions; leave out where they are not published."""
    price_in: float | None = Field(default=None, ge=0)
    """USD per million prompt tokens. Without it the package's price table is asked (``pcsuite.config.prices``)."""
    price_out: float | None = Field(default=None, ge=0)
    """USD per million completion tokens."""
    price_cached: float | None = Field(default=None, ge=0, exclude=True)
    """USD per million prompt tokens that the server had cached; by default they cost ``price_in``. It changes no
    answer, so it is no part of a row's id."""
    price_batch: float | None = Field(default=None, ge=0, le=1, exclude=True)
    """Share of the prices that a call in a batch costs (0.5 is half); by default the whole."""

    @field_serializer("price_in", "price_out")
    def _absent_price_as_zero(self, value: float | None) -> float:
        # Entries without prices have always been hashed with 0 in their place: rows keep their ids.
        return value or 0.0

    @model_serializer(mode="wrap")
    def _whoever_asks(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # How a call is let in changes no answer: rows keep their ids where a key gives way to a token.
        left_out = ADMISSION_KEYS | (TARGET_PLACE_KEYS if self.provider == "target" else frozenset())
        return {name: value for name, value in handler(self).items() if name not in left_out}

    @model_validator(mode="after")
    def _both_prices_or_neither(self) -> ModelSpec:
        if (self.price_in is None) != (self.price_out is None):
            raise ValueError("give both price_in and price_out, or neither")
        return self

    @model_validator(mode="before")
    @classmethod
    def _normalised(cls, entry: Any) -> Any:
        return normalise_model(entry) if isinstance(entry, dict) else entry

    def provider_options(self) -> dict[str, Any]:
        """The provider's own keys, not yet checked against its ``Options``.

        >>> ModelSpec(provider="hf", family="f", size="1B", path="org/name").provider_options()
        {'path': 'org/name'}
        """
        return dict(self.model_extra or {})

    def written(self) -> dict[str, Any]:
        """The entry as a models file would have it, only what was given: reading it back gives the same entry.

        The provider's own keys stand beside the common ones; keys that were left out, or are null, are not in it.
        """
        values = {name: getattr(self, name) for name in type(self).model_fields} | self.provider_options()
        return {name: value for name, value in values.items() if value is not None}


class DecodingSpec(Definition):
    """A decoding regime."""

    label: str = ""
    """A few words for people; tables name a regime by its id."""
    temperature: float = Field(ge=0)
    """0 is greedy."""
    top_p: float = Field(gt=0, le=1)
    """Nucleus mass."""

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always taken, so that seeds change nothing."""
        return self.temperature == 0


MetricType = Literal["primary", "format", "hallucination", "entropy", "efficiency"]


class MetricSpec(Definition):
    """How a logged metric is named, read, compared and shown: the one declaration that tables and report use."""

    label: str = ""
    """Name in tables, sentences and figures; by default the metric's own name with blanks."""
    type: MetricType | None = None
    """What it is about. A metric of type ``efficiency`` is a cost: its differences are shown, not tested."""
    higher_is_better: bool | None = True
    """Direction; ``null`` where neither end is good. Not given, it is false for the types hallucination, entropy and
    efficiency."""
    range: tuple[float | None, float | None] | None = None
    """Smallest and largest value, ``null`` for none; odds ratios and risks are given for metrics within [0, 1].
    Without a range the values decide."""
    compared: tuple[Literal["effects", "compare", "mixed_model"], ...] = ()
    """Where conditions or runs are compared on it: ``effects`` (effects.csv and the page's effects), ``compare``
    (two runs; a reliable change for the worse is a regression unless it is a cost), ``mixed_model``."""
    shown: tuple[Literal["summary_by_condition", "task_metrics", "verdicts"], ...] = ("task_metrics",)
    """Where its level is shown, and whether the page's sentences speak of it (``verdicts``, if it is compared)."""
    description: str = ""
    """One line on what it measures."""

    @model_validator(mode="before")
    @classmethod
    def _direction_of_type(cls, entry: Any) -> Any:
        if isinstance(entry, dict) and entry.get("type") in ("hallucination", "entropy", "efficiency"):
            return {"higher_is_better": False, **entry}
        return entry

    @property
    def bounds(self) -> tuple[float, float] | None:
        """What its values can be, infinite where the range is open; ``None`` where none is declared.

        >>> MetricSpec(range=(0, None)).bounds
        (0.0, inf)
        """
        if self.range is None:
            return None
        low, high = self.range
        return (-math.inf if low is None else low, math.inf if high is None else high)


class DefinitionsFile(Definition):
    version: str = "1.0"
    """Version of the definitions."""


class TasksFile(DefinitionsFile):
    """``tasks_v1.yaml``."""

    wording: Wording = WORDING_1
    """Wording of the suite's tasks that the file holds; the layout of prompts follows the operators file."""

    tasks: dict[str, TaskSpec]
    """Tasks by id."""

    @field_validator("tasks", mode="before")
    @classmethod
    def _with_default_titles(cls, tasks: Any) -> Any:
        if not isinstance(tasks, dict):
            return tasks
        return {
            name: {"title": str(name).replace("_", " "), **task} if isinstance(task, dict) else task
            for name, task in tasks.items()
        }


class ModelsFile(DefinitionsFile):
    """``models_v1.yaml``."""

    models: dict[str, ModelSpec]
    """Models by id."""


class DecodingFile(DefinitionsFile):
    """``decoding_v1.yaml``."""

    regimes: Annotated[
        dict[str, DecodingSpec],
        BeforeValidator(by_regime),
        Field(validation_alias=AliasChoices("regimes", "decoding")),
    ]
    """Regimes by id; the key may also be ``decoding``."""


class MetricsFile(DefinitionsFile):
    """``metrics_v1.yaml``."""

    metrics: dict[str, MetricSpec]
    """Metrics by the name they have in the log."""
