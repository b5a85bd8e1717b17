"""A Python block of the specification held against the suite: its imports run, and what it defines is there."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from support.specification_blocks import Block


def module_name(block: Block) -> str:
    """The import path of the file that a block is."""
    return block.path.removeprefix("src/").removesuffix(".py").replace("/", ".")


def execute(block: Block, **names: Any) -> dict[str, Any]:
    """Run a block's own text on the suite, as a module of its package; what it leaves behind.

    A fragment that returns is run as the body of a function, whose value is ``returned``.
    """
    text = textwrap.dedent(block.text)
    name = module_name(block) if block.path.startswith("src/") else "block"
    module = ModuleType(f"specified_block_{block.line}")
    module.__dict__.update(
        __package__=name.rpartition(".")[0], __file__=f"{block.document}:{block.line}", **names
    )
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        try:
            code = compile(text, module.__file__, "exec")
        except SyntaxError as error:
            if "'return' outside function" not in str(error):
                raise
            body = textwrap.indent(text, "    ")
            code = compile(f"def block():\n{body}\nreturned = block()\n", module.__file__, "exec")
        exec(code, module.__dict__)  # the documents are what is tested
    finally:
        del sys.modules[module.__name__]
    return module.__dict__


def differing_names(block: Block) -> Iterator[str]:
    """Every public name that a module's block defines and the suite lacks, or takes other arguments for."""
    theirs, ours = ast.parse(block.text), importlib.import_module(module_name(block))
    for node in theirs.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if node.name.startswith("_"):
                continue
            found = getattr(ours, node.name, None)
            if found is None:
                yield node.name
            elif isinstance(node, ast.FunctionDef):
                yield from _differing_call(node, found, node.name, bound=False)
            else:
                yield from _differing_class(node, found)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in [node.target] if isinstance(node, ast.AnnAssign) else node.targets:
                if (
                    isinstance(target, ast.Name)
                    and not target.id.startswith("_")
                    and not hasattr(ours, target.id)
                ):
                    yield target.id


def _differing_class(node: ast.ClassDef, found: Any) -> Iterator[str]:
    fields = [
        one.target.id
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    ]
    known = {name for kind in found.__mro__ for name in [*vars(kind), *getattr(kind, "__annotations__", {})]}
    known |= set(inspect.signature(found.__init__).parameters)
    yield from (f"{node.name}.{name}" for name in fields if name not in known)
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and (one.name == "__init__" or not one.name.startswith("_")):
            member = inspect.getattr_static(found, one.name, None)
            if member is None:
                yield f"{node.name}.{one.name}"
            elif not isinstance(member, property) and not isinstance(member, staticmethod):
                plain = member.__func__ if isinstance(member, classmethod) else member
                yield from _differing_call(one, plain, f"{node.name}.{one.name}", bound=True)


def _differing_call(node: ast.FunctionDef, found: Any, name: str, *, bound: bool) -> Iterator[str]:
    """Where a call as the block writes it would not go through: by position, by name, or for want of an argument."""
    if not callable(found):
        return
    ours = list(inspect.signature(found).parameters.values())[bound:]
    takes_any = any(one.kind is one.VAR_KEYWORD for one in ours)
    by_name = {one.name for one in ours if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    by_place = [one.name for one in ours if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    placed = [one.arg for one in node.args.args][bound:]
    named = [one.arg for one in node.args.kwonlyargs]
    yield from (f"{name}({one}=)" for one in named if one not in by_name and not takes_any)
    covered = {*by_place[: len(placed)], *placed, *named}
    if len(by_place) < len(placed) and not set(placed) <= by_name:
        yield f"{name}({', '.join(placed)})"
    wanted = {one.name for one in ours if one.default is one.empty and one.name in by_name}
    yield from (f"{name}: wants {one}" for one in sorted(wanted - covered))
