"""The interface between an answer and its score, what every evaluator logs, and the normalisations they share."""

from __future__ import annotations

import re
import string
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Literal

import msgspec
from pydantic import BaseModel, ConfigDict

from pcsuite._util.text import MAX_JSON_DEPTH, describe
from pcsuite._util.text import storable as storable
from pcsuite._util.workers import Limits
from pcsuite.config.definitions import JudgeSpec
from pcsuite.data.items import Item
from pcsuite.engines.targets.changed import FolderChanges
from pcsuite.errors import DataError, OutOfMemoryError, OutOfTimeError
from pcsuite.evaluation.thoughts import clean_text as clean_text
from pcsuite.evaluation.thoughts import set_aside
from pcsuite.retrieval.base import KnownPages

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)

JsonMode = Literal["strict", "embedded", "none", "not_json"]
Reading = Literal["read", "lenient", "ambiguous", "none"]
"""How surely an answer was read: by the task's rules, by lenient ones alone, in two ways at once, or not at all."""
Pooling = Literal["mean", "micro_f1"]
MetricValue = float | int | bool | str | None

LENIENT = "lenient: "
"""What a note on a lenient reading begins with."""
_SET_ASIDE = "reasoning block of "
_NOT_HELD = "does not hold: "


class Parsed(msgspec.Struct):
    """What could be read from an answer; the row logs it as it is.

    ``json_mode`` says how: the whole text was JSON (``strict``), an object was found in it (``embedded``),
    none was found (``none``), or the task does not answer in JSON (``not_json``).
    ``answer`` is the canonical answer used for voting and entropy, ``None`` where there is none. ``reading`` is one of
    :data:`Reading`; a scorer that does not set it leaves it to :meth:`settle_reading`.
    """

    json_valid: bool | None = None
    schema_valid: bool | None = None
    json_mode: str = "not_json"
    answer: str | None = None
    fields: dict[str, Any] = msgspec.field(default_factory=dict)
    parse_errors: list[str] = msgspec.field(default_factory=list)
    reading: str = ""

    def settle_reading(self) -> None:
        """Conclude the reading from the rest, where it is not set: rows of earlier versions have none."""
        if not self.reading:
            lenient = any(note.startswith(LENIENT) for note in self.parse_errors)
            self.reading = "read" if self.answer is not None else "lenient" if lenient else "none"

    def note_lenient(self, what: str, rule: str) -> None:
        """Note among the parse errors what a lenient reading took from the answer, and by which rule."""
        self.parse_errors.append(f"{LENIENT}{what} by {rule}")

    def note_failed(self, assertion: object) -> None:
        """Note among the parse errors an assertion that does not hold for the answer."""
        self.parse_errors.append(f"{_NOT_HELD}{assertion}")

    def problems(self) -> list[str]:
        """The parse errors that speak of the answer's form alone, each once.

        Notes on a lenient reading are made where it agrees with the truth, and assertions name the truth: a model
        that is asked again must see neither. A reasoning block that was set aside is no fault.

        >>> Parsed(parse_errors=["no JSON object", "lenient: 'Sports' by answer in a sentence"]).problems()
        ['no JSON object']
        """
        notes = (LENIENT, _SET_ASIDE, _NOT_HELD)
        return [error for error in dict.fromkeys(self.parse_errors) if not error.startswith(notes)]


@dataclass(slots=True)
class Evaluation:
    """A scored answer. ``metrics`` always has ``task_score`` (0..1, 0 for a missing answer).

    A scorer without ``lenient_score`` is as lenient as it is strict (:func:`score_answer`). ``scores`` are further
    scores by name, each with its reason; their values stand among the metrics too.
    """

    parsed: Parsed
    metrics: dict[str, MetricValue]
    scores: dict[str, NamedScore] = field(default_factory=dict)


class NamedScore(msgspec.Struct, frozen=True):
    """One of several scores that a scorer gives an answer, 0 to 1, and why."""

    value: float
    reason: str = ""


class JudgeCall(msgspec.Struct, frozen=True):
    """What a judge said of an answer, or the rule that made asking it needless; the row logs it as it is."""

    judge: str
    """Id of the model that judged; empty where a ``rule`` decided."""
    verdict: str | None
    """``pass`` or ``fail``; ``1`` to ``5``; ``answer``, ``control`` or ``tie``; ``None`` where it could not be read."""
    text: str = ""
    """The judge's reply, from which the verdict can be read again."""
    finish_reason: str = "stop"
    prompt_hash: str = ""
    """sha256 of what the judge was asked."""
    order: str = ""
    """Of a pair: which answer the judge was shown first, ``answer`` or ``control``."""
    other: str = ""
    """Of a pair: the control's answer."""
    rule: str = ""
    constraint_backend: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    """``None`` where the judge's price is not known."""
    latency_ms: float | None = None
    cache_hit: bool = False


@dataclass(frozen=True, slots=True)
class JudgeQuestion:
    """One question to a judge about an answer."""

    prompt: str
    order: str = ""
    other: str = ""


class CheckResult(msgspec.Struct, frozen=True):
    """What became of a check (:mod:`pcsuite.evaluation.checks`); the row logs it as it is."""

    passed: bool
    status: int | None = None
    """Its exit status, negative for a signal; ``None`` where it was ended, or was not run."""
    seconds: float = 0.0
    output: str = ""
    """What it printed, cut in the middle."""
    why: str = ""
    """Why it did not come to an end of its own: that it ran out of time, or was not run."""
    network: bool = False
    """Whether it could reach the network."""
    block: str = ""
    """The block whose following it shows; empty for one that the task is scored by."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is scored: the final text, why generation ended, what a closed loop retrieved and what a judge said.

    ``retrieved`` holds ``(page, sentence_id, sentence_text)`` of every passage shown to the model, or is
    ``None`` where no retrieval took place. ``verdicts`` are those of a judged task.
    """

    text: str
    finish_reason: str = "stop"
    retrieved: Sequence[tuple[str, int, str]] | None = None
    verdicts: Sequence[JudgeCall] = ()
    folder: str | None = None
    """Of a target that worked in a copy of a folder: where that is, until the answer is scored."""
    changed: FolderChanges | None = None
    """What was changed in that folder; known as long as the row is."""
    checks: Mapping[str, CheckResult] = field(default_factory=dict)
    """What became of the task's checks, by name."""


class NoOptions(BaseModel):
    """Options of an evaluator that takes none."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Evaluator(ABC):
    """Scores answers of one kind of task; knows nothing of models, conditions or the run."""

    Options: ClassVar[type[BaseModel]] = NoOptions
    pooling: ClassVar[Pooling] = "mean"
    """How items make a corpus figure: mean of ``task_score``, or micro-F1 from pooled ``tp/fp/fn``."""
    limits: Limits | None = None
    """Of an evaluator that runs a user's code: what scoring one answer may take in the worker that it runs in."""
    judge: JudgeSpec | None = None
    """Of an evaluator that scores by a model's verdicts: which model is asked. The runner asks it what
    :meth:`questions` says and hands the replies to :meth:`evaluate` as ``Answer.verdicts``."""

    def __init__(self, options: BaseModel | None = None, schema: Mapping[str, Any] | None = None) -> None:
        self.options = options if options is not None else self.Options()
        self.schema = schema

    cites_pages: ClassVar[bool] = False
    """Whether answers cite pages, so that :meth:`know_pages` is of use."""

    def know_pages(self, pages: KnownPages) -> None:
        """Take the pages that can be cited; evaluators that score no citations ignore them.

        Called once before the first answer, where the run has a corpus; ``pages`` may be read lazily.
        """

    def check_items(self, items: Sequence[Item]) -> None:
        """Look at the items before the first call: every truth must be one that some answer can meet.

        Raises :class:`~pcsuite.errors.DataError`, which names item and field, for the first that is not. Evaluators
        that take nothing on trust look further.
        """
        for item in items:
            try:
                self.check(item)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise DataError(
                    f"item '{item.item_id}': the task's scorer cannot read the truth ({describe(error)})",
                    hint="docs/reference/scoring.md has the form of each task's truth",
                ) from error

    def check(self, item: Item) -> None:
        """See that the truth of one item can be scored: by default that it has a gold answer.

        Raises :class:`~pcsuite.errors.DataError`, which names the field: a truth that no answer can meet would score 0
        in silence.
        """
        self.gold_answer(item)

    @abstractmethod
    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        """Score one answer against the item's truth; :func:`conclude` puts the result together.

        Never raises on any answer text; :class:`~pcsuite.errors.DataError` where the truth lacks what is needed.
        """

    def questions(
        self, item: Item, answer: Answer, control: Answer | None
    ) -> Sequence[JudgeQuestion | JudgeCall]:
        """What a judge is asked about an answer, or what needs no asking; nothing where there is no ``judge``.

        ``control`` is the control's answer to the same item for judges that compare, ``None`` where the answer itself
        is the control's.
        """
        return ()

    @abstractmethod
    def gold_answer(self, item: Item) -> str:
        """The text of a perfect answer: what an exemplar shows, and the simulated provider says when it is right.

        Scores 1.0 by :meth:`evaluate`; ``DataError`` where the truth does not hold it.
        """

    def exemplar_answer(self, item: Item) -> str:
        """The answer that an exemplar shows: a perfect one, that need not say the same in every exemplar."""
        return self.gold_answer(item)

    @abstractmethod
    def wrong_answer(self, item: Item, rng: Random) -> str:
        """The text of a well-formed answer that scores below 1.0, for simulation.

        Drawn with ``rng`` alone, so that a run can be repeated.
        """


def score_answer(evaluator: Evaluator, item: Item, answer: Answer) -> Evaluation:
    """An answer's evaluation as a row logs it, whoever wrote the evaluator.

    ``lenient_score`` is the strict one where there is none. Where what a user brought (a pattern, a function) is
    ended because it took too long or too much, that is the score's reason: :func:`stopped_evaluation`. Fields that
    are nested deeper than a log can hold are left out, with a note among the parse errors; the answer itself stays.
    Raises what the evaluator raises.
    """
    try:
        evaluation = evaluator.evaluate(item, answer)
    except (OutOfTimeError, OutOfMemoryError) as error:
        evaluation = stopped_evaluation(answer, error)
    return as_logged(evaluation, answer)


def as_logged(evaluation: Evaluation, answer: Answer) -> Evaluation:
    """An evaluation with what its evaluator left open, as :func:`score_answer` gives it."""
    parsed, metrics = evaluation.parsed, evaluation.metrics
    parsed.settle_reading()
    if "task_score" in metrics:
        metrics.setdefault("lenient_score", metrics["task_score"])
    # A text with fewer brackets cannot be nested so deep; what is read by parse_object never is.
    if (
        answer.text.count("{") + answer.text.count("[") > MAX_JSON_DEPTH
        and depth_of(parsed.fields) > MAX_JSON_DEPTH
    ):
        parsed.fields = {}
        parsed.parse_errors.append(f"fields left out: nested more than {MAX_JSON_DEPTH} levels deep")
    return evaluation


OUT_OF_TIME, OUT_OF_MEMORY = "scorer_out_of_time", "scorer_out_of_memory"
"""Metrics of answers whose scorer was ended; no other row has them."""


def stopped_evaluation(answer: Answer, error: OutOfTimeError | OutOfMemoryError) -> Evaluation:
    """The outcome of an answer whose scorer was ended: it scores 0, says why, and is counted by a metric of its own."""
    out_of_time = isinstance(error, OutOfTimeError)
    parsed = Parsed(
        parse_errors=[f"scorer ran out of {'time' if out_of_time else 'memory'}: {error.message}"]
    )
    parsed.answer = fold(clean_text(answer.text))[:2_000] or None
    extra: dict[str, MetricValue] = {OUT_OF_TIME if out_of_time else OUT_OF_MEMORY: True}
    return conclude(parsed, answer, score=0.0, exact_match=False, extra=extra)


def depth_of(value: object) -> int:
    """How many objects and arrays stand in one another in a value, at most; walked without recursion.

    >>> depth_of({"a": [1, {}]}), depth_of(1)
    (3, 0)
    """
    deepest = 0
    stack: list[tuple[object, int]] = [(value, 1)]
    while stack:
        current, level = stack.pop()
        if isinstance(current, (dict, list)):
            deepest = max(deepest, level)
            children = current.values() if isinstance(current, dict) else current
            stack.extend((child, level + 1) for child in children)
    return deepest


def conclude(
    parsed: Parsed,
    answer: Answer,
    *,
    score: float,
    lenient: float | None = None,
    exact_match: bool | None = None,
    answered: bool | None = None,
    abstained: bool = False,
    unanswerable: bool = False,
    unsupported_rate: float | None = None,
    extra: Mapping[str, MetricValue] | None = None,
) -> Evaluation:
    """Put a score (0..1) and the common metrics together; a truncated or missing answer scores 0.

    A truncated answer also loses its canonical answer, so that it neither votes nor counts as answered. ``lenient`` is
    the score (0..1) under the task's lenient rules, which count where they are kinder; a truncated answer has none.
    ``answered`` is by default whether the model did not abstain; ``unanswerable`` says that abstaining is right;
    ``unsupported_rate`` is ``None`` where the task cannot have unsupported content; ``extra`` holds its own metrics.
    """
    truncated = answer.finish_reason == "length"
    thoughts = set_aside(answer.text)
    if thoughts:
        parsed.parse_errors.insert(0, f"{_SET_ASIDE}{thoughts} characters set aside")
    if truncated:
        parsed.answer = None
        parsed.parse_errors.append("truncated: generation ended at the token limit")
    missing = parsed.answer is None
    abstained = abstained and not missing
    if answered is None:
        answered = not abstained
    strict = 0.0 if missing else float(score)
    metrics: dict[str, MetricValue] = {
        "task_score": strict,
        "lenient_score": strict if truncated or lenient is None else max(strict, float(lenient)),
        "answered": answered and not missing,
        "truncated": truncated,
        "abstained": abstained,
        "unanswerable": unanswerable,
        "abstain_correct": abstained if unanswerable else None,
        "abstain_misuse": abstained and not unanswerable,
        "unsupported_rate": unsupported_rate,
    }
    if exact_match is not None:
        metrics["exact_match"] = exact_match and not missing
    if parsed.json_mode != "not_json":
        metrics["json_strict"] = parsed.json_mode == "strict"
    metrics.update(extra or {})
    return Evaluation(parsed, metrics)


def truth_of(item: Item, key: str) -> Any:
    """A value the evaluator needs from the truth.

    Its absence is the data's fault, not the answer's: :class:`~pcsuite.errors.DataError` names item and key.
    """
    try:
        return item.truth[key]
    except (KeyError, TypeError):
        raise DataError(
            f"item '{item.item_id}': truth has no '{key}'",
            hint="export the dataset again, or fix the items file",
        ) from None


def harmonic_mean(precision: float, recall: float) -> float:
    """F1 of a precision and a recall (each 0..1); 0 where both are 0.

    For counts use :func:`pcsuite.stats.f1_score`, which also says what a comparison of nothing is worth.
    """
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def fold(text: str) -> str:
    """Trim, fold case, and collapse blanks.

    >>> fold("  Sci/Tech   News ")
    'sci/tech news'
    """
    return " ".join(text.split()).casefold()


def squad_normalise(text: str) -> str:
    """Lower-case, without punctuation, articles and extra blanks (Rajpurkar et al. 2016).

    >>> squad_normalise("The Eiffel  Tower!")
    'eiffel tower'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, reference: str) -> bool:
    """Whether two texts are the same but for blanks around them; an empty answer matches nothing.

    HELM's definition, under its name.
    """
    return bool(answer) and answer.strip() == reference.strip()


def quasi_exact_match(answer: str, reference: str) -> bool:
    """Whether two texts are the same after SQuAD normalisation; an empty answer matches nothing.

    HELM's definition, under its name.
    """
    return bool(answer) and squad_normalise(answer) == squad_normalise(reference)


def token_f1(answer: str, reference: str) -> float:
    """Bag-of-tokens F1 of normalised texts, 0..1 (Rajpurkar et al. 2016); two empty texts are a match.

    Not HELM's ``f1_score``, which compares sets: a repeated word counts there once.
    """
    tokens, expected = squad_normalise(answer).split(), squad_normalise(reference).split()
    if not tokens or not expected:
        return float(tokens == expected)
    common = sum((Counter(tokens) & Counter(expected)).values())
    return harmonic_mean(common / len(tokens), common / len(expected))


def is_present(value: object) -> bool:
    """Whether a field was filled: not null, not blank.

    >>> is_present(0), is_present(" "), is_present(None), is_present([])
    (True, False, False, True)
    """
    return bool(value.strip()) if isinstance(value, str) else value is not None


def required_fields(schema: Mapping[str, Any] | None, default: Sequence[str]) -> tuple[str, ...]:
    """The fields an answer should have: what the schema requires, else the evaluator's own ``default``.

    >>> required_fields({"required": ["label"]}, ["answer"])
    ('label',)
    """
    if schema is not None and isinstance(schema.get("required"), list):
        return tuple(schema["required"])
    return tuple(default)


def field_metrics(
    fields: Mapping[str, Any],
    *,
    word_limits: Mapping[str, int] | None = None,
    expected: Sequence[str] | None = None,
    confidence_field: str | None = None,
) -> dict[str, MetricValue]:
    """What an answer's fields say beside the answer itself; nothing of what is not asked for.

    ``{field}_words`` of each field that ``word_limits`` names, and ``word_limit_violated`` where one has more (a field
    that is no text has 0). ``field_completeness``: the share (0..1) of the ``expected`` fields that are there and
    filled, 1 where none is expected. ``confidence``: what is stated in its field as a probability, from a number, a
    text or per cent; ``None`` for anything else.

    >>> field_metrics({"label": "x", "why": "", "sure": "85 %"}, expected=["label", "why"], confidence_field="sure")
    {'field_completeness': 0.5, 'confidence': 0.85}
    """
    metrics: dict[str, MetricValue] = {}
    for name, limit in (word_limits or {}).items():
        value = fields.get(name)
        words = len(value.split()) if isinstance(value, str) else 0
        metrics[f"{name}_words"] = words
        metrics["word_limit_violated"] = bool(metrics.get("word_limit_violated")) or words > limit
    if expected is not None:
        filled = sum(is_present(fields.get(name)) for name in expected)
        metrics["field_completeness"] = filled / len(expected) if expected else 1.0
    if confidence_field is not None:
        stated: Any = fields.get(confidence_field)
        if isinstance(stated, str):
            with suppress(ValueError):
                stated = float(stated.strip().rstrip("% ")) / (100.0 if stated.strip().endswith("%") else 1.0)
        is_number = isinstance(stated, (int, float)) and not isinstance(stated, bool)
        metrics["confidence"] = float(stated) if is_number and 0.0 <= stated <= 1.0 else None
    return metrics
