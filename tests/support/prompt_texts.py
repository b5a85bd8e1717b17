"""Prompts from texts, for tests of what is done with them."""

from pcsuite.prompts.blocks import SplitPrompt, split_source
from pcsuite.prompts.reading import source_of
from pcsuite.prompts.splitting import SplitMethod


def split_prompt(
    text: str, how: SplitMethod = "auto", *, form: str = "text", append_input: bool = False
) -> SplitPrompt:
    """A prompt of a text, or of a chat's file in a form."""
    suffix = ".md" if form == "text" else f".{form}"
    return split_source(source_of(text, suffix), how, append_input=append_input)
