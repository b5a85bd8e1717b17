"""A candidate: a prompt under trial, with where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pcsuite.prompts.compiled import INPUT_SLOT, CompiledPrompt
from pcsuite.prompts.context import Exemplar, PromptContext

SHORT = 12


@dataclass(frozen=True)
class Candidate:
    """A prompt under trial. Two candidates with the same prompt are the same candidate, whatever their origin."""

    prompt: CompiledPrompt
    method: str
    """The method that made it (``ape``, ``blocks``, ``mipro``, …)."""
    origin: str = ""
    """How, in a few words: ``baseline``, ``proposal 3``, ``variation of …``, ``drop ROLE``."""
    parents: tuple[str, ...] = ()
    """Ids of the candidates it was made from."""

    @property
    def id(self) -> str:
        """The first twelve digits of the prompt's hash."""
        return self.prompt.hash[:SHORT]

    @classmethod
    def of_text(
        cls,
        template: str,
        *,
        method: str,
        demos: Sequence[Exemplar] = (),
        origin: str = "",
        parents: Sequence[str] = (),
    ) -> Candidate:
        """A candidate from the whole text of a prompt with ``{{input}}`` exactly once.

        The text is sent as it is, with the input put in the slot: no template language, no adapter, no stripping. Say
        in ``demos`` which training items it shows; their text must be in the template already.
        """
        return cls(CompiledPrompt(template=template, demos=tuple(demos)), method, origin, tuple(parents))

    @classmethod
    def of_instruction(
        cls,
        instruction: str,
        ctx: PromptContext,
        *,
        method: str,
        demos: Sequence[Exemplar] = (),
        origin: str = "",
        parents: Sequence[str] = (),
    ) -> Candidate:
        """A candidate from an instruction and demonstrations, laid out as the suite lays out its own prompts."""
        return cls.of_text(
            instruction_template(instruction, ctx, demos),
            method=method,
            demos=demos,
            origin=origin,
            parents=parents,
        )


def instruction_template(instruction: str, ctx: PromptContext, demos: Sequence[Exemplar] = ()) -> str:
    """Instruction, solved examples, labelled input: the layout of the base templates as a text with a slot.

    A slot that the instruction itself holds is spelt out, so that there is one.
    """
    label = f"{ctx.input_label}:"
    parts = [instruction.strip().replace(INPUT_SLOT, "the input")]
    if demos:
        shown = [f"{label}\n{demo.input_text}\nAnswer:\n{demo.output_text}" for demo in demos]
        parts.append("Examples:\n\n" + "\n\n".join(shown).replace(INPUT_SLOT, "the input"))
    separator = "\n" if ctx.task_kind == "structured" else " "
    parts.append(f"{label}{separator}{INPUT_SLOT}")
    return "\n\n".join(part for part in parts if part)
