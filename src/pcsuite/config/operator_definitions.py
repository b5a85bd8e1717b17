"""Operators and conditions as their definition files have them."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from pcsuite.config.definitions import WORDING_1, Definition, DefinitionsFile, Wording
from pcsuite.config.spellings import normalise_operator

WORDINGS = 3
"""Rewordings an operator has, where it has any: the variants of the perturbation ``paraphrase``."""
OperatorType = Literal[
    "prefix_block", "block", "post_block", "fewshot", "rule", "program", "constraint", "verbatim"
]
OperatorMode = Literal["none", "brief", "full", "shown", "hidden"]
StructureKind = Literal["schema", "rules", "checklist"]
ConditionDesign = Literal["ladder", "leave_one_out", "add_one_in", "factorial", "orders"]


class SimulatedOperator(Definition):
    """What a simulated model makes of an operator, where the model's own entry says nothing."""

    effect: float = 0.0
    """What it adds to the logit of a right answer."""
    json_effect: float = 0.0
    """What it adds to the logit of well-formed JSON."""
    sentence: str | None = None
    """Sentence that does the operator's work; a simulated proposer builds instructions of such."""


MessageRole = Literal["system", "developer", "user", "assistant"]
EnforceMode = Literal["in_full", "in_part"]
Place = Literal["start", "before_examples", "before_question", "after_question", "system"]
PLACES: tuple[Place, ...] = get_args(Place)


def _one_or_several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class _MessagePart(Definition):
    """What stands in one of a chat's messages, where in the prompt and how often."""

    at: Annotated[tuple[Place, ...] | None, BeforeValidator(_one_or_several)] = Field(
        default=None, min_length=1
    )
    """Where its text stands instead of the place of its type, one place or several: ``start`` (before the
    instruction), ``before_examples``, ``before_question``, ``after_question``, or ``system`` (the system's message)."""
    repeat: int | None = Field(default=None, ge=1, le=4)
    """How often its text stands at its place, one copy below the other."""
    filler: Literal[True] | None = None
    """Its text with every word replaced by filler of the same length: a sham of the block, wherever it stands."""

    role: MessageRole | None = None
    """Message it stands in. ``system`` puts its text into a system message, before the user's, which holds the rest;
    pieces of a ``verbatim`` prompt make a message of each stretch of one role. Without a role a prompt is one text."""

    @model_serializer(mode="wrap")
    def _omit_absent_role(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What has no role, and enforces in full, dumps as it did before there was a choice: ids of rows stay."""
        dumped: dict[str, Any] = dump(self)
        for name in ("role", "enforce", "syntax", "cue", "at", "repeat", "filler"):
            if dumped.get(name) is None:
                dumped.pop(name, None)
        return dumped


SHAM = "sham"
"""The work of an operator that is a negative control."""


class OperatorSpec(_MessagePart):
    """One operator: where its text goes and what the text is, or what it does to decoding.

    What changes no clean prompt (``title``, ``paraphrases``, ``cues``, ``simulated``, ``modes``, ``structure``,
    ``searched``, ``sham``) is kept out of dumps, so that it is no part of a row's id. What ``simulated`` changes enters
    ids as effects of the model. ``title``, ``modes``, ``structure``, ``searched`` and ``sham`` are those of the bundled
    operator of the same name where an entry does not say them.
    """

    type: OperatorType
    """``prefix_block`` before the instruction, ``block`` and ``rule`` after it, ``fewshot`` before the input,
    ``post_block`` after the input, ``program`` runs a loop, ``constraint`` restricts decoding. ``verbatim`` is a piece
    of a prompt that is kept to the letter: the pieces of a condition joined are the whole prompt."""
    title: str | None = Field(default=None, exclude=True)
    """What pages call it in a sentence (``examples``); its own name in small letters where nobody says."""
    template: str | None = None
    """Jinja2 text of the block, rendered with the task's context. Of a ``verbatim`` piece it is no template: only
    ``{{ input }}`` and ``{{ column }}`` of the item's columns are filled in."""
    syntax: Literal["jinja"] | None = None
    """``jinja`` where a ``verbatim`` piece is a template of Jinja after all, rendered with the item's columns."""
    k: int | None = Field(default=None, ge=0)
    """Number of exemplars (fewshot)."""
    cue: str | None = None
    """Line that stands between an exemplar's question and its answer, and at the end of the prompt that shows
    exemplars, so that the item's own question is put as theirs are (fewshot)."""
    mode: OperatorMode | None = None
    """Amount of visible reasoning (REASONING_MODE: none, brief, full), or whether steps are written out (DECOMPOSE:
    shown, the default, or hidden)."""
    modes: tuple[OperatorMode, ...] | None = Field(default=None, exclude=True)
    """Modes that its template knows; another one would be rendered as its last branch, and is refused."""
    structure: StructureKind | None = Field(default=None, exclude=True)
    """Kind of structure it gives an answer, by which H1 and P1 count it among the structure blocks."""
    searched: bool | None = Field(default=None, exclude=True)
    """Whether the method ``blocks`` searches over it where the profile names no operators."""
    sham: bool | None = Field(default=None, exclude=True)
    """Whether it is a negative control: a text of the length and place of another block that says nothing. A report
    warns where a condition with one is the best."""
    engine: str | None = None
    """Constraint backend (``auto`` chooses among those the model supports) or program name."""
    kind: Literal["json_schema", "regex", "cfg"] | None = None
    """What a constraint operator enforces."""
    enforce: EnforceMode | None = None
    """``in_full`` (the default) or ``in_part``: of a JSON schema, what a model's engine or server cannot enforce is
    taken out and checked afterwards. Such cells are named "enforced in part" and are no evidence for H2."""
    max_steps: int | None = Field(default=None, gt=0)
    """Steps of a loop (REACT_LOOP) or extra attempts (RETRY_ON_FAIL)."""
    alias_of: str | None = None
    """Another operator this name stands for."""
    paraphrases: tuple[str, ...] | None = Field(
        default=None, min_length=WORDINGS, max_length=WORDINGS, exclude=True
    )
    """Three rewordings of ``template``, for the perturbation ``paraphrase`` and the search over wordings. Rows of the
    same variant are compared, so new words need a new operator. Without them a bundled template keeps its own."""
    cues: tuple[str, ...] = Field(default=(), exclude=True)
    """Regular expressions (case ignored, ``^`` at each line) that show the operator's work in a free text."""
    simulated: SimulatedOperator | None = Field(default=None, exclude=True)
    """What a simulated model makes of it."""

    @property
    def work(self) -> str | None:
        """What it does that an analysis asks for: the structure it gives, the program it runs (``react``, …), or
        :data:`SHAM`."""
        if self.sham:
            return SHAM
        return self.structure or (self.engine if self.type == "program" else None)

    @model_validator(mode="after")
    def _complete(self) -> OperatorSpec:
        for cue in self.cues:
            try:
                re.compile(cue)
            except re.error as error:
                raise ValueError(f"the cue {cue!r} is no regular expression: {error}") from error
        if self.paraphrases and not self.template:
            raise ValueError("'paraphrases' reword a 'template', and there is none")
        if self.role not in (None, "system", "user") and self.type != "verbatim":
            raise ValueError(f"the role {self.role} is for verbatim pieces; others are system or user")
        if self.syntax is not None and self.type != "verbatim":
            raise ValueError("'syntax' is for verbatim pieces; every other template is Jinja's")
        if self.alias_of is None:
            if self.type in ("prefix_block", "block", "post_block", "rule", "verbatim") and not self.template:
                raise ValueError(f"a {self.type} operator needs 'template'")
            if self.type == "fewshot" and self.k is None:
                raise ValueError("a fewshot operator needs 'k'")
            if self.type == "constraint" and self.kind is None:
                raise ValueError("a constraint operator needs 'kind'")
        if self.enforce == "in_part" and self.kind != "json_schema":
            raise ValueError("'enforce: in_part' is for JSON schemas; other constraints have no parts")
        return self


FILLER_MARK = "~"
"""Before the name of a block whose words are filler."""
_DECORATION = re.compile(r"@[a-z_+]+|\.x\d")


def plain_operator(label: str) -> str:
    """The name of an operator in the label that rows have of it where it is moved or repeated; any other as it is.

    >>> plain_operator("~VERIFIER@before_examples+after_question.x2")
    'VERIFIER'
    """
    return _DECORATION.sub("", label).removeprefix(FILLER_MARK)


class OperatorUse(_MessagePart):
    """An operator as a condition uses it, with its parameters and its role overridden where given."""

    name: str = Field(validation_alias=AliasChoices("name", "op"))
    """Operator name; ``op`` says the same."""
    k: int | None = Field(default=None, ge=0)
    """Overrides the operator's number of exemplars."""
    mode: OperatorMode | None = None
    """Overrides the operator's mode."""
    engine: str | None = None
    """Overrides the constraint backend."""
    enforce: EnforceMode | None = None
    """Overrides whether a JSON schema is enforced in full or in part."""
    max_steps: int | None = Field(default=None, gt=0)
    """Overrides the number of steps or attempts."""


def _operator_use(value: Any) -> Any:
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, dict) and len(value) == 1 and not {"name", "op"} & value.keys():
        ((name, options),) = value.items()
        return {"name": name, **(options or {})}
    return value


Use = Annotated[OperatorUse, BeforeValidator(_operator_use)]


class PromptRepeat(Definition):
    """The whole prompt more than once."""

    times: int = Field(default=2, ge=2, le=4)
    """How often it stands, one copy below the other; of a chat its last message."""
    filler: bool = False
    """Whether all copies but the last are filler of the same length and layout: a sham that shows the item once."""


PromptForm = Literal["message", "turns"]


class ConditionSpec(Definition):
    """A bundle of operators, or a design that makes several bundles.

    An entry of ``operators`` that is itself a list names alternatives: the first one the task provides for
    is used (a JSON schema, else a grammar, else a regular expression).
    """

    title: str = ""
    """Short description for reports."""
    extends: str | None = None
    """Condition whose operators come first."""
    operators: tuple[Use | tuple[Use, ...], ...] = ()
    """Operators in order."""
    design: ConditionDesign | None = None
    """Makes several conditions of the listed operators instead of one."""
    orders: int = Field(4, ge=1)
    """Of the design ``orders``: how many random orders in which the operators join one by one are run."""
    compiled: bool = False
    """The prompt comes from the optimiser's frozen file (C8)."""
    form: PromptForm | None = None
    """``turns`` shows each exemplar as a turn of its own, the question the user's and its answer the model's;
    ``message``, the default, all of them in one message. Without it that of the condition it extends."""
    reworded: int | None = Field(default=None, ge=0, le=WORDINGS)
    """Instruction and operators in this wording (0 the template, 1 to 3 its paraphrases) for every item, whatever the
    profile has items draw. Without it that of the condition it extends."""
    repeat: Annotated[
        PromptRepeat | None,
        BeforeValidator(lambda value: {"times": value} if isinstance(value, int) else value),
    ] = None
    """The whole prompt so many times: ``repeat: 2``, or ``repeat: {times: 2, filler: true}`` for its sham. Without it
    that of the condition it extends."""

    @model_serializer(mode="wrap")
    def _omit_absent_form(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Hashes of configurations have these: conditions without them keep what they had.
        added = ("form", "repeat", "reworded")
        return {name: value for name, value in dump(self).items() if name not in added or value is not None}


Condition = Annotated[
    ConditionSpec, BeforeValidator(lambda value: {"operators": value} if isinstance(value, list) else value)
]


class OperatorsFile(DefinitionsFile):
    """``operators_v1.yaml``."""

    wording: Wording = WORDING_1
    """Which of the suite's layouts its operators are written for: in ``2`` exemplars and the item's own question have
    one form, in ``1`` a reasoning task's question stands on the line of its label and ends without a cue."""

    operators: dict[str, OperatorSpec]
    """Operators by name; the name or the engine of a constraint may say its ``kind``."""

    @field_validator("operators", mode="before")
    @classmethod
    def _normalised(cls, operators: Any) -> Any:
        if not isinstance(operators, dict):
            return operators
        return {name: normalise_operator(str(name), operator) for name, operator in operators.items()}


class ConditionsFile(DefinitionsFile):
    """``conditions_v1.yaml``."""

    conditions: dict[str, Condition]
    """Conditions by id."""
