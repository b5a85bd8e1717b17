"""DSPy over the suite's own engines: language models that ask through it, and an adapter small models can follow.

Import this module only after :func:`pcsuite.optimization.dspy_opt.load_dspy`, which keeps DSPy off the network and
its caches off.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Protocol

import dspy
from dspy.lm15 import Message, Request, Response, TextPart, Usage

from pcsuite._util.hashing import seed_from
from pcsuite.optimization.problem import instruction_template
from pcsuite.prompts.compiled import INPUT_SLOT
from pcsuite.prompts.context import Exemplar, PromptContext

INPUT, ANSWER = "input_text", "answer"
"""The fields of the task's signature."""
LONGEST_FIELD = 2000
"""Characters of one field of a proposing prompt that are shown: the window of a small model is short."""
_PROPOSAL_TOKENS = 200
_LABEL = re.compile(r"^[ \t>*#-]*(?P<label>[A-Za-z][A-Za-z _-]{2,60}?)[ \t*]*:[ \t*]*", re.MULTILINE)
_HEADING = re.compile(
    r"^[*#\s]*(here is )?((the|a|an|my|your) )?((new|proposed|improved|better|revised) )+"
    r"(instructions?|prompt)[*\s]*:[*\s]*",
    re.IGNORECASE,
)


class Ask(Protocol):
    """Answers one prompt; another seed gives another text."""

    def __call__(self, prompt: str, *, seed: int, temperature: float, max_tokens: int) -> str: ...


class SeededEngine:
    """A DSPy engine over a function that answers prompts.

    DSPy asks for n texts by n equal requests. Each of them gets a seed of its own, made from the prompt and from how
    often it was asked before, so that they differ, and are the same in the next run.
    """

    def __init__(self, ask: Ask, seed: int) -> None:
        self._ask = ask
        self._seed = seed
        self._asked: Counter[str] = Counter()
        self._lock = Lock()

    def complete(self, request: Request) -> Response:
        """Answer one request of DSPy.

        Where it names no temperature or limit, these are 1 and 200 tokens.
        """
        prompt = request_text(request)
        with self._lock:
            occurrence = self._asked[prompt]
            self._asked[prompt] += 1
        wished = request.config
        text = self._ask(
            prompt,
            seed=seed_from(f"{self._seed}|{occurrence}|{prompt}"),
            temperature=1.0 if wished.temperature is None else wished.temperature,
            max_tokens=wished.max_tokens or _PROPOSAL_TOKENS,
        )
        return _response(request, text)


class TaskEngine:
    """A DSPy engine that answers the prompts of the task's program with what the measured model answers."""

    def __init__(self, answer: Callable[[str], str]) -> None:
        self._answer = answer

    def complete(self, request: Request) -> Response:
        """Answer one request of DSPy."""
        return _response(request, self._answer(request_text(request)))


def language_model(name: str, engine: SeededEngine | TaskEngine) -> dspy.LM:
    """A DSPy model over an engine. Retries and cache are the suite's own, so DSPy's are off.

    dspy.context(lm=language_model("task", TaskEngine(answer)), adapter=PlainAdapter(ctx))
    """
    return dspy.LM(f"pcsuite/{name}", engine=engine, cache=False, num_retries=0)


def request_text(request: Request) -> str:
    """A request as one text.

    :class:`PlainAdapter` sends a single message; those of other adapters are joined by blank lines.
    """
    system = request.system
    if system is not None and not isinstance(system, str):
        system = "".join(part.text for part in system)
    parts = [system, *(message.text for message in request.messages)]
    return "\n\n".join(part for part in parts if part)


def _response(request: Request, text: str) -> Response:
    message = Message.assistant([TextPart(text)])
    free = Usage(input_tokens=0, output_tokens=0, total_tokens=0)
    return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=free)


def task_signature(ctx: PromptContext, instruction: str) -> type[dspy.Signature]:
    """The signature of a task: its input, and the answer as the task's evaluator reads it.

    ``ctx`` gives the label of the input; ``instruction`` is what an optimiser starts from.
    """
    fields = {INPUT: (str, dspy.InputField(desc=ctx.input_label)), ANSWER: (str, dspy.OutputField())}
    signature: type[dspy.Signature] = dspy.Signature(fields, instruction)
    # COPRO proposes a beginning of the answer too, and keeps it where DSPy once had prefixes; there is none yet.
    for name, prefix in ((INPUT, f"{ctx.input_label}:"), (ANSWER, "")):
        signature = signature.with_updated_fields(name, prefix=prefix)
    return signature


def signature_template(
    signature: type[dspy.Signature], demos: Sequence[Mapping[str, Any]], ctx: PromptContext
) -> tuple[str, tuple[Exemplar, ...]]:
    """The prompt of the task's signature as a text with a slot for the input, and the examples it shows.

    The text is what :class:`PlainAdapter` sends, with the input in place of ``{{input}}``.
    """
    complete = [demo for demo in demos if demo.get(INPUT) and demo.get(ANSWER)]
    examples = tuple(
        Exemplar(str(demo[INPUT]), str(demo[ANSWER]), str(demo.get("item_id", ""))) for demo in complete
    )
    template = instruction_template(signature.instructions, ctx, examples)
    prefix = str(signature.output_fields[ANSWER].json_schema_extra["prefix"]).strip()
    if prefix:
        template += "\n\n" + prefix.replace(INPUT_SLOT, "the input")
    return template, examples


class PlainAdapter(dspy.Adapter):  # type: ignore[misc]
    """Prompts without markers, answers without a format.

    The task's own signature is laid out as the suite lays out its prompts, and its answer is the text as it comes. Any
    other signature (DSPy's proposers) becomes an instruction and labelled fields; a single answer field is the whole
    text, several are found by their labels. No answer is refused: a text that cannot be split is the first field.
    """

    def __init__(self, ctx: PromptContext) -> None:
        super().__init__()
        self._ctx = ctx

    def format(
        self, signature: type[dspy.Signature], demos: list[dict[str, Any]], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """One user message: the task's prompt, or a proposer's instruction with its labelled fields.

        Fields of a proposer are cut at 2,000 characters, empty ones left out.
        """
        if _is_task_signature(signature):
            template, _ = signature_template(signature, demos, self._ctx)
            return [{"role": "user", "content": template.replace(INPUT_SLOT, str(inputs[INPUT]))}]
        parts = [" ".join(signature.instructions.split())]
        for name in signature.input_fields:
            text = _field_text(inputs[name]).strip() if inputs.get(name) is not None else ""
            if text:
                parts.append(f"{_label(name)}:\n{text}")
        outputs = [
            f"{_label(name)}: {field.json_schema_extra.get('desc') or ''}".rstrip(": ")
            for name, field in signature.output_fields.items()
        ]
        several = "Answer with one line for each of these, starting with its name."
        parts.append("\n".join(["Answer with nothing but this." if len(outputs) == 1 else several, *outputs]))
        return [{"role": "user", "content": "\n\n".join(parts)}]

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        """The fields of an answer, found by their labels; text before the first label belongs to the first field.

        The answer of the task's own signature is the text as it is.
        """
        if _is_task_signature(signature):
            return {ANSWER: completion}
        names = list(signature.output_fields)
        by_label = {_label(name).casefold(): name for name in names}
        fields: dict[str, str] = dict.fromkeys(names, "")
        current, start = names[0], 0
        for match in _LABEL.finditer(completion):
            name = by_label.get(re.sub(r"[ _-]+", " ", match["label"]).strip().casefold())
            if name is not None:
                fields[current] += completion[start : match.start()]
                current, start = name, match.end()
        fields[current] += completion[start:]
        return {name: unquoted(value) for name, value in fields.items()}

    def _call_postprocess(
        self,
        processed_signature: type[dspy.Signature],
        original_signature: type[dspy.Signature],
        outputs: list[dict[str, Any] | str],
        lm: dspy.BaseLM,
        lm_kwargs: dict[str, Any],
    ) -> list[dict[str, Any]]:
        """Every output parsed, the empty ones too: an empty answer is a wrong answer, not a failed call."""
        texts = [output if isinstance(output, str) else output.get("text") or "" for output in outputs]
        return [self.parse(original_signature, text) for text in texts]


def _is_task_signature(signature: type[dspy.Signature]) -> bool:
    """Whether a signature is the task's own, not one of DSPy's proposers."""
    return set(signature.input_fields) == {INPUT} and set(signature.output_fields) == {ANSWER}


def _field_text(value: Any) -> str:
    """A field's value as plain text, no longer than a small model can take."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST_FIELD else value[:LONGEST_FIELD] + " …"
    if isinstance(value, Mapping):
        return "\n".join(f"{name}: {_field_text(entry)}" for name, entry in value.items())
    if isinstance(value, Sequence):
        separator = "\n" if all(isinstance(entry, str) for entry in value) else "\n\n"
        return separator.join(_field_text(entry) for entry in value)
    return str(value)


def unquoted(text: str) -> str:
    """A text without a heading that only says what it is, and without the fence or quotation marks around it.

    unquoted('New instruction: "Be brief."') == "Be brief."
    """
    bare = _HEADING.sub("", text.strip())
    fenced = re.fullmatch(r"```[a-z]*\n(.*?)\n?```", bare, re.DOTALL)
    if fenced:
        bare = fenced[1].strip()
    if len(bare) > 1 and bare[0] == bare[-1] == '"' and '"' not in bare[1:-1]:
        bare = bare[1:-1].strip()
    return bare


def _label(name: str) -> str:
    """``proposed_instruction`` as ``Proposed instruction``."""
    return name.replace("_", " ").capitalize()
