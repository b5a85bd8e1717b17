"""``tasks_v1.yaml``: what a task asks, in which form, and who scores it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from pcsuite.config.base import Definition

TaskKind = Literal["structured", "reasoning"]


class TaskSpec(Definition):
    """One task. Everything a prompt says about the task comes from here; everything else from operators."""

    title: str
    """Short human name, shown in reports."""
    kind: TaskKind
    """``structured``: answers are a JSON object; ``reasoning``: text ending in an answer line."""
    dataset: str
    """Name of the items file: ``<cache_dir>/datasets/<dataset>_<split>.jsonl``, or a bundled sample."""
    split: str = "test"
    """The split that is scored."""
    dev_split: str | None = None
    """The split the optimiser may see."""
    train_split: str = "train"
    """The split exemplars come from."""
    instruction: str
    """The bare instruction: all that C0 says besides the input."""
    role: str
    """What ROLE says the model is."""
    goal: str
    """What GOAL says a good answer achieves."""
    rules: tuple[str, ...] = ()
    """The task's own rules, shown by CONSTRAINTS."""
    abstain: str
    """How to abstain on this task, shown by ABSTAIN."""
    decompose: tuple[str, ...] = ()
    """Sub-steps shown by DECOMPOSE."""
    verifier_checklist: tuple[str, ...] = ()
    """Checks shown by VERIFIER."""
    schema_ref: str | None = None
    """JSON schema of the answer (structured tasks), a file beside the task file or under ``schemas/``."""
    final_answer_format: str | None = None
    """Answer format in words (reasoning tasks)."""
    answer_regex: str | None = None
    """Regular expression the whole output must match under a hard constraint (reasoning tasks)."""
    grammar_ref: str | None = None
    """Lark grammar the output must match under CFG_CONSTRAIN."""
    lmql_ref: str | None = None
    """LMQL query of your own for the constraint backend ``lmql_program``, in place of the compiled one."""
    input_label: str = "Input"
    """Heading of the input in the prompt."""
    max_tokens: int = Field(gt=0)
    """Completion limit."""
    length_band: tuple[int, int] | None = None
    """Prompt tokens aimed at by length control; by default the band of the task's kind."""
    evaluator: str
    """Name in the evaluator registry."""
    evaluator_options: dict[str, Any] = Field(default_factory=dict)
    """Options of the evaluator, checked against its own ``Options`` model."""
    primary_metric: str = "accuracy"
    """Name of the primary metric, for tables and plots; ``task_score`` carries its per-item value."""
    retrieval: bool = False
    """Whether REACT_LOOP applies (the task has a corpus to search)."""
