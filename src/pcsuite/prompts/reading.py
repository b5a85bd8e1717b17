"""Which prompt a reference such as ``app.py:SYSTEM_PROMPT`` names: files are read, and nothing is executed."""

from __future__ import annotations

from pathlib import Path

from pcsuite._util.files import unreadable_text
from pcsuite.errors import PromptError
from pcsuite.prompts.code_files import CodeSource
from pcsuite.prompts.documents import DocumentSource, referred_file
from pcsuite.prompts.rules import RulesSource, is_rules_file
from pcsuite.prompts.servers import ServersSource
from pcsuite.prompts.sources import PromptFile, PromptSource, TextSource
from pcsuite.prompts.tools import ToolsSource

CODE_SUFFIXES = (".py", ".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts")
DOCUMENT_SUFFIXES = (".yaml", ".yml", ".json")


def read_source(reference: str | Path) -> PromptSource:
    """The prompt that a reference names, read and not executed.

    Raises ``PromptError`` of one line where the file cannot be read, holds no such prompt, or several.
    """
    path, name = PromptFile.of(reference)
    try:
        # Bytes, since reading as text would change the line ends; the mark that editors write first is no text.
        original = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise PromptError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise PromptError(f"{path} is a folder", hint="name the prompt's file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"{path}: {unreadable_text(path, error)}") from error
    try:
        if is_rules_file(path.name) and not name and RulesSource.fits(original):
            return RulesSource(original, path.suffix.lower())
        return source_of(original, path.suffix.lower(), name, path.parent)
    except PromptError as error:
        raise PromptError(f"{path}: {error}") from error


def source_of(original: str, suffix: str, name: str = "", folder: Path | None = None) -> PromptSource:
    """The prompt in a file's text, by the ending of the file's name.

    ``name`` is that of one of several prompts, ``folder`` where files that it names lie. Raises ``PromptError``.
    """
    if suffix in CODE_SUFFIXES:
        return CodeSource.read(original, suffix, name)
    if suffix in (".json", ".toml") and not name and (servers := ServersSource.read(original, suffix)):
        return servers
    if suffix in DOCUMENT_SUFFIXES:
        if (tools := ToolsSource.read(original, suffix, name)) is not None:
            return tools
        source = DocumentSource.read(original, suffix, name)
        if (file := referred_file(source)) is not None:
            return read_source((folder or Path()) / file)
        return source
    if name:
        raise PromptError(
            f"'{name}' names a prompt inside a file, and this is one text",
            hint=f"files with several: {', '.join((*CODE_SUFFIXES[:2], *DOCUMENT_SUFFIXES))}",
        )
    if not original.strip():
        raise PromptError("the prompt is empty")
    return TextSource(original, suffix)
