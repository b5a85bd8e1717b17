"""A prompt that an optimiser compiled: free text with a slot for the input, or a list of operators with wordings.

It is frozen to a file by ``pcsuite optimize`` and rendered by condition C8. A file carries everything that its
prompt needs, templates included, so that a later change of the operators does not change what was compiled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pcsuite._util.hashing import digest
from pcsuite._util.user_patterns import user_pattern
from pcsuite.config.bundled import bundled_operators
from pcsuite.config.definitions import OperatorSpec
from pcsuite.errors import PromptError
from pcsuite.prompts.context import Exemplar, PromptContext
from pcsuite.prompts.operators import Bundle, Operator
from pcsuite.prompts.prompt import PromptTree, compose

INPUT_SLOT = "{{input}}"
"""Where the input goes in a free text; nothing else in it is a placeholder."""
COMPILED_OPERATOR = "COMPILED"
"""What a row names as the operator of a compiled free text."""
FOLDER = "compiled"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class BlockChoice:
    """One operator of a compiled prompt, in one of its wordings."""

    name: str
    wording: int
    """0 for the operators file's own words, 1, 2, 3 for the bundled rewordings."""
    spec: OperatorSpec
    """The operator with the chosen wording as its template, and its options."""

    @property
    def operator(self) -> Operator:
        """The operator as a condition composes it."""
        return Operator(self.name, self.spec)


@dataclass(frozen=True)
class CompiledPrompt:
    """A prompt an optimiser made: ``template`` for a free text, else ``blocks`` (perhaps none: instruction and input).

    ``demos`` are the solved training items that the prompt shows. A free text has them in its words already; for
    blocks they stand in for the task's own exemplars.
    """

    template: str = ""
    blocks: tuple[BlockChoice, ...] = ()
    instruction: str = ""
    """The instruction of a prompt of blocks, where it is not the task's own."""
    demos: tuple[Exemplar, ...] = ()

    def __post_init__(self) -> None:
        if self.template and (self.blocks or self.instruction):
            raise PromptError("a compiled prompt is a free text or a list of blocks, not both")
        if self.template and self.template.count(INPUT_SLOT) != 1:
            raise PromptError(
                f"a compiled text has {self.template.count(INPUT_SLOT)} slots {INPUT_SLOT}",
                hint="it needs exactly one",
            )

    @property
    def is_text(self) -> bool:
        """Whether it is a free text."""
        return bool(self.template)

    @cached_property
    def hash(self) -> str:
        """sha256 of everything that determines the prompt's words."""
        return digest(self.as_dict())

    @property
    def steps(self) -> tuple[tuple[Operator, ...], ...]:
        """The operators as the steps of a condition, one without alternatives each.

        A free text is a single step, the operator ``COMPILED``.
        """
        if self.is_text:
            spec = OperatorSpec(type="block", template=self.template)
            return ((Operator(COMPILED_OPERATOR, spec),),)
        return tuple((block.operator,) for block in self.blocks)

    def tree(self, bundle: Bundle, ctx: PromptContext) -> PromptTree:
        """The prompt for one item.

        Blocks are composed as any bundle, with the prompt's own instruction and demonstrations in place of the
        task's; a free text is split at its input slot and kept to the letter.
        """
        if not self.is_text:
            changed = replace(
                ctx, instruction=self.instruction or ctx.instruction, exemplars=self.demos or ctx.exemplars
            )
            return compose(bundle, changed)
        before, after = self.template.split(INPUT_SLOT)
        # Perturbations change the instruction; the white space behind it is kept apart, so that the rest stays to the
        # letter.
        head = before.rstrip()
        return PromptTree(
            template=f"compiled:{self.hash[:12]}",
            instruction=head,
            input_label=ctx.input_label,
            input_text=ctx.input_text,
            around=(before[len(head) :], after),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for a file: template, blocks with their specs, instruction and demos.

        They determine :attr:`hash`; fields of a spec that change no clean prompt are left out.
        """
        return {
            "template": self.template,
            "blocks": [
                {"operator": block.name, "wording": block.wording, "spec": spec}
                for block in self.blocks
                for spec in [block.spec.model_dump(mode="json", exclude_none=True)]
            ],
            "instruction": self.instruction,
            "demos": [asdict(demo) for demo in self.demos],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CompiledPrompt:
        """The reverse of :meth:`as_dict`.

        Values that are missing or wrong raise ``KeyError``, ``TypeError`` or pydantic's ``ValidationError``.
        """
        blocks = tuple(
            BlockChoice(entry["operator"], int(entry["wording"]), OperatorSpec.model_validate(entry["spec"]))
            for entry in values["blocks"]
        )
        demos = tuple(Exemplar(**entry) for entry in values["demos"])
        return cls(values["template"], blocks, values["instruction"], demos)


def compiled_path(output_dir: str | Path, task_id: str, model_id: str) -> Path:
    """``<output_dir>/compiled/<task>__<model>.json``.

    Characters that a file name cannot have become ``-``; a model of ``provider/name`` thus has a file too.
    """
    name = "__".join(_UNSAFE.sub("-", part) for part in (task_id, model_id))
    return Path(output_dir) / FOLDER / f"{name}.json"


def read_compiled_file(path: Path) -> dict[str, Any]:
    """The whole frozen file, its hash checked against the prompt in it.

    A file that cannot be read, or whose prompt was edited by hand, is a ``PromptError`` with the remedy.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        prompt = CompiledPrompt.from_dict(content["prompt"])
        stored = content["hash"]
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        raise PromptError(
            f"{path}: not a readable compiled prompt ({type(error).__name__}: {error})",
            hint="run pcsuite optimize again",
        ) from error
    if prompt.hash != stored:
        raise PromptError(
            f"{path}: its prompt does not have the hash it states: it was edited by hand",
            hint="run pcsuite optimize again, or define your text as an operator",
        )
    return content


def read_compiled(path: Path) -> CompiledPrompt:
    """The prompt of a frozen file.

    Raises ``PromptError`` where the file cannot be read or was edited by hand.
    """
    return CompiledPrompt.from_dict(read_compiled_file(path)["prompt"])


def makeup_cues(text: str, operators: Mapping[str, OperatorSpec] | None = None) -> dict[str, str]:
    """Operators whose work a free text does, in the order of the ladder, each with the words that gave it away.

    Judged by the operators' ``cues``: those of ``operators`` and, where these have none, of the bundled operators. The
    judgement is deterministic and shallow. It sees that a text says what to do when unsure, not whether it says it
    well, and other words for the same thing can be missed.

    >>> makeup_cues("Act as a judge. Never guess.")
    {'ROLE': 'Act as', 'ABSTAIN': 'Never guess'}
    """
    cues = {name: spec.cues for name, spec in bundled_operators().items()}
    cues |= {name: spec.cues for name, spec in (operators or {}).items() if spec.cues}
    flags = re.IGNORECASE | re.MULTILINE
    matches = {
        name: user_pattern("|".join(words), flags).finditer(text) for name, words in cues.items() if words
    }
    return {name: (found[0][0] or "").strip() for name, found in matches.items() if found}
