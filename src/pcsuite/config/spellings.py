"""Second spellings: names that people bring along from the written specification, read as the suite's own.

They are applied where a file or a flag is read and nowhere else, so that everything after that, the log
and the tables included, knows one form. ``docs/reference/specification.md`` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LONG_REGIME_IDS: Mapping[str, str] = {"d0_greedy": "D0", "d1_sampled": "D1"}
"""Second names of the two regimes: keys of ``repro.seeds``, and part of rows' ids."""

PROFILE_WORDS: Mapping[str, str] = {
    "name": "run.name",
    "output_dir": "run.output_dir",
    "cache_dir": "run.cache_dir",
    "overwrite": "run.overwrite",
    "tasks": "selection.tasks",
    "models": "selection.models",
    "conditions": "selection.conditions",
    "regimes": "selection.decoding_regimes",
    "limit": "limits.max_items_per_task",
    "until": "preregistration.stopping.rule",
    "margin": "preregistration.margin",
    "batch": "preregistration.stopping.batch",
    "looks": "preregistration.stopping.looks",
    "cluster": "cluster",
    "missing": "missing",
}
"""Words for keys of the profile: what ``pcs.run`` takes, and the flags of ``pcsuite run`` that replace them."""


def column_names(value: Any) -> Any:
    """Names of columns: a list, or a text that parts them by commas.

    >>> column_names("customer, month")
    ['customer', 'month']
    """
    if not isinstance(value, str):
        return value
    return [name.strip() for name in value.split(",") if name.strip()]


def regime_id(name: Any) -> Any:
    """The id of a decoding regime that a file or a flag names; what is no such name stays as it is.

    >>> regime_id("d0_greedy"), regime_id("D1"), regime_id("warm")
    ('D0', 'D1', 'warm')
    """
    return LONG_REGIME_IDS.get(name, name) if isinstance(name, str) else name


def hashed_regime_id(regime: str) -> str:
    """The name by which a regime enters hashes: rows' ids are made of the long names, so that a log goes on.

    >>> hashed_regime_id("D0"), hashed_regime_id("warm")
    ('d0_greedy', 'warm')
    """
    return next((long for long, short in LONG_REGIME_IDS.items() if short == regime), regime)


def by_regime(value: Any) -> Any:
    """A mapping by regime under the ids that count; raises :class:`ValueError` where two keys name one regime.

    >>> by_regime({"d0_greedy": [0], "warm": [1]})
    {'D0': [0], 'warm': [1]}
    """
    if not isinstance(value, dict):
        return value
    by_id: dict[Any, Any] = {}
    for name, entry in value.items():
        if regime_id(name) in by_id:
            raise ValueError(f"'{name}' and '{regime_id(name)}' are one regime: give one of them")
        by_id[regime_id(name)] = entry
    return by_id


EVALUATOR_OF_KIND: Mapping[str, str] = {
    "structured_extraction": "extraction",
    "classification": "classification",
    "mcq": "choice",
    "verification": "fever",
    "truthfulness": "truthfulqa",
    "reasoning": "number",
}
"""Kinds of tasks, and the evaluator of a task that names none. All but the last answer in JSON."""


def task_kind(name: Any) -> Any:
    """The kind of a task: ``structured`` for every kind that answers in JSON, else the name itself.

    >>> task_kind("mcq"), task_kind("reasoning")
    ('structured', 'reasoning')
    """
    spelled = isinstance(name, str) and name in EVALUATOR_OF_KIND and name != "reasoning"
    return "structured" if spelled else name


DATASETS: Mapping[str, tuple[str, ...]] = {
    "conll2003": ("conll", "conll03", "conll_2003"),
    "ag_news": ("ag", "agnews"),
    "gsm8k": ("gsm",),
    "commonsense_qa": ("csqa", "commonsenseqa", "commonsense"),
    "truthful_qa": ("truthfulqa", "truthful_qa_generation", "truthfulqa_generation", "truthful_qa_gen"),
    "truthful_qa_mc": ("truthfulqa_mc", "truthful_qa_multiple_choice"),
    "nq_open": ("nq", "natural_questions", "nqopen"),
    "strategyqa": ("strategy_qa",),
    "boolq": ("bool_q",),
}
"""Datasets by the name of their items files, and what else they are called."""
_DATASET = {spelling: name for name, spellings in DATASETS.items() for spelling in spellings}
SPLITS: Mapping[str, tuple[str, ...]] = {"dev": ("validation",), "validation": ("dev",)}
"""Splits that have two names: a file is looked for under the task's own first."""


def dataset_name(name: str) -> str:
    """The dataset that a name stands for; a name that is no second spelling stays as it is.

    >>> dataset_name("csqa"), dataset_name("tickets")
    ('commonsense_qa', 'tickets')
    """
    return _DATASET.get(name.lower(), name)


def file_stems(dataset: str, split: str) -> list[str]:
    """Names, without their ending, under which the items of a split may lie; the suite's own first.

    >>> file_stems("truthful_qa", "test")[:2]
    ['truthful_qa_test', 'truthfulqa_test']
    """
    datasets = (dataset, *DATASETS.get(dataset, ()))
    return [f"{name}_{part}" for part in (split, *SPLITS.get(split, ())) for name in datasets]


SCHEMA_FILES: Mapping[str, str] = {
    "conll03_ner.json": "conll03_ner_json.json",
    "agnews.json": "agnews_json.json",
    "csqa.json": "csqa_json.json",
    "truthfulqa.json": "truthfulqa_gen.json",
    "fever.json": "fever_json.json",
}
"""Second names of bundled schemas, for tasks files that come without the files they name."""
_TASK_KEYS = {"output_schema_ref": "schema_ref"}
_LABELS_OPTION = {"classification": "labels", "ner": "types"}
"""Evaluators whose options list the labels."""
_OWN_LABELS = ("choice", "fever")
"""Evaluators that know their labels by nature: letters of the item's options, FEVER's three verdicts."""
_EXTRACTORS = {
    "json": ("json", "json_object", "json_label", "json_choice"),
    "final_number": (
        "final_number",
        "gsm8k",
        "gsm8k_final_number",
        "gsm8k_numeric",
        "number",
        "last_number",
        "numeric",
        "####",
    ),
}
"""What ``answer_extractor`` may name besides a regular expression: ways in which answers are read anyhow."""


def normalise_task(task: dict[str, Any]) -> dict[str, Any]:
    """A task's entry with every second spelling in the suite's own words; what is neither stays for the check.

    ``split: {train, dev, test}`` names three splits: ``test`` is scored, or ``dev`` where there is no ``test``.
    Raises :class:`ValueError` where two spellings of one thing disagree.
    """
    entry = _renamed(task, _TASK_KEYS)
    if "evaluator" not in entry and entry.get("kind") in EVALUATOR_OF_KIND:
        entry["evaluator"] = EVALUATOR_OF_KIND[entry["kind"]]
    split = entry.get("split")
    if isinstance(split, dict):
        named = _renamed(split, {"validation": "dev"})
        unknown = [key for key in named if key not in ("train", "dev", "test")]
        if unknown or not {"dev", "test"} & set(named):
            raise ValueError("'split' names train, dev and test; the test split (else dev) is scored")
        entry["split"] = named.get("test", named.get("dev"))
        if "test" in named and "dev" in named:
            entry.setdefault("dev_split", named["dev"])
        if "train" in named:
            entry.setdefault("train_split", named["train"])
    retrieval = entry.get("retrieval")
    if isinstance(retrieval, dict) and set(retrieval) == {"enabled"}:
        entry["retrieval"] = retrieval["enabled"]
    evaluator = entry.get("evaluator")
    for key, option in (("labels", _LABELS_OPTION.get(str(evaluator), "labels")), ("answer_extractor",) * 2):
        if key not in entry:
            continue
        value = entry.pop(key)
        if key == "labels" and evaluator in _OWN_LABELS:
            continue
        if key == "answer_extractor":
            kind = "json" if task_kind(entry.get("kind")) == "structured" else "final_number"
            if value is None or value in _EXTRACTORS[kind]:
                continue  # the way in which the task's answers are read without it
        options = dict(entry.get("evaluator_options") or {})
        if options.setdefault(option, value) != value:
            raise ValueError(f"'{key}' and 'evaluator_options.{option}' disagree: give one of them")
        entry["evaluator_options"] = options
    return entry


_MODEL_KEYS: Mapping[str, Mapping[str, str]] = {
    "hf": {"model_name_or_path": "path", "device": "device_map", "torch_dtype": "dtype"},
    "llamacpp": {"model_name_or_path": "path"},
    "openai": {"model_name_or_path": "model", "model_name": "model"},
}
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32"}


def normalise_model(model: dict[str, Any]) -> dict[str, Any]:
    """A model's entry with its provider's keys as the provider names them.

    >>> normalise_model({"provider": "hf", "model_name_or_path": "org/name", "device": "cuda"})
    {'provider': 'hf', 'path': 'org/name', 'device_map': 'cuda'}
    """
    provider = str(model.get("provider"))
    entry = _renamed(model, _MODEL_KEYS.get(provider, {}))
    if provider == "hf" and isinstance(entry.get("dtype"), str):
        entry["dtype"] = _DTYPES.get(entry["dtype"], entry["dtype"])
    if provider == "target":  # a system of the user's own is of no family, and of no size that anybody knows
        entry = {"family": "target", "size": "unknown", **entry}
    return entry


_KIND_OF_ENGINE = {"guidance_cfg": "cfg", "outlines_json": "json_schema", "lmql_program": "json_schema"}
_KIND_OF_NAME = (
    ("REGEX", "regex"),
    ("CFG", "cfg"),
    ("GRAMMAR", "cfg"),
    ("JSON", "json_schema"),
    ("TYPE", "json_schema"),
)


def normalise_operator(name: str, operator: Any) -> Any:
    """An operator's entry with the kind of its constraint, which its name says, else its engine.

    >>> normalise_operator("REGEX_CONSTRAIN", {"type": "constraint", "engine": "outlines_json"})["kind"]
    'regex'
    """
    if (
        not isinstance(operator, dict)
        or operator.get("type") != "constraint"
        or operator.get("kind") is not None
    ):
        return operator
    kind = next((kind for word, kind in _KIND_OF_NAME if word in name.upper()), None)
    kind = kind or _KIND_OF_ENGINE.get(str(operator.get("engine")))
    return operator if kind is None else {**operator, "kind": kind}


HELM_SCENARIOS: Mapping[str, tuple[str, ...]] = {
    "truthfulqa": ("truthful_qa",),
    "gsm8k": ("gsm",),
    "mmlu": tuple(
        f"mmlu:subject={subject}"
        for subject in (
            "abstract_algebra", "college_chemistry", "computer_security", "econometrics", "us_foreign_policy",
        )
    ),
}  # fmt: skip
"""What a scenario is called beside HELM's own name; ``mmlu`` alone is the five subjects of HELM's light leaderboard."""


def helm_scenarios(value: Any) -> Any:
    """A list of scenarios under the names that HELM has for them.

    One name may stand for several (``mmlu`` for five subjects); what is no list is left for the field to refuse.
    """
    if not isinstance(value, (list, tuple)):
        return value
    return [name for entry in value for name in HELM_SCENARIOS.get(str(entry), (entry,))]


def _renamed(values: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A mapping with its keys under other names; raises :class:`ValueError` where both are there and differ."""
    renamed = {key: value for key, value in values.items() if key not in names}
    for key, name in names.items():
        if key in values and renamed.setdefault(name, values[key]) != values[key]:
            raise ValueError(f"'{key}' and '{name}' are one key: give one of them")
    return renamed
