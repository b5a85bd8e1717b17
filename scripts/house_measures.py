"""Measures of the house: how large its rooms are, and whether anything in it is unread or out of reach.

    python scripts/house_measures.py            # the table, and a failure where anything is unread or out of reach
    python scripts/house_measures.py --list     # also name what was found
    python scripts/house_measures.py --trace    # also count the functions one row passes
    python scripts/house_measures.py --trace-ablation    # only: what a whole ``pcsuite ablate`` passes

Everything is read from the source text; only the traces run code, and options are counted in the commands' parsers.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import statistics
import sys
import threading
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from pcsuite.specified import MODULES

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "pcsuite"
TESTS = ROOT / "tests"
# What users hold on to beside the commands: calls and classes of the contract that our own code need not use, each
# documented as something to call or to derive from. A mention in the docs alone keeps nothing.
EXTENSION_POINTS = {
    "build_condition",
    "check_regression",
    "read_runs",
    "ConstraintEngine",
    "TaskEvaluator",
    "from_mapping",
    "react",
    "to_pandas",
    "to_polars",
    "clustered_se",  # standard errors by cluster: the contrasts are about to judge by them
    "make_key",  # of the metric cache, as the written specification has it
}
# ``pcsuite.pages.figures.declare.figure`` puts a function among those that every page draws.
REGISTERING_DECORATORS = {"fixture", "figure"}
FunctionNode = (ast.FunctionDef, ast.AsyncFunctionDef)
FEWER_FUNCTIONS_THAN, MOST_FILES = 70, 20
"""What a row may pass on its way from the plan into the log: a reader should be able to follow it."""
ABLATION_BASE = {
    "functions": 602,
    "files of functions": 84,
    "classes imported": 394,
    "files entered": 155,
    "rows decoded": 4_760,
    "suites loaded": 4,
    "YAML texts written": 15,
    "files of items read": 3,
}
"""What a whole ablation of 680 rows passed before it was prepared once, run once and judged once."""
# Children of other interpreters; they may not import the suite, so their names are reached by running the file.
SCRIPTS = {
    "engines/adapters/_llamacpp_worker.py",
    "integrations/inspect_hooks.py",
    "integrations/promptbench/worker.py",
}


class Definition(NamedTuple):
    """A function, class or method with the names that its code mentions."""

    where: str
    name: str
    owner: str
    """Name of the class it is a method of, or empty."""
    node: ast.AST
    mentions: frozenset[str]


class Module(NamedTuple):
    """A module with its tree."""

    path: Path
    name: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    """Every node of the tree: what is asked of all of them walks it once."""
    lines: int


def read_modules(package: Path = PACKAGE) -> list[Module]:
    """Every module of the package."""
    found = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        name = path.relative_to(package).as_posix()
        found.append(Module(path, name, tree, tuple(ast.walk(tree)), text.count("\n")))
    return found


def functions_of(tree: ast.AST, inside: tuple[str, ...] = ()) -> Iterator[tuple[ast.AST, bool]]:
    """Functions and methods with whether each is public all the way up; nested functions are part of theirs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, FunctionNode):
            private = any(name.startswith("_") for name in (*inside, node.name)) and not _is_dunder(node.name)
            yield node, not private and not _is_dunder(node.name)
        elif isinstance(node, ast.ClassDef):
            yield from functions_of(node, (*inside, node.name))
        elif isinstance(node, (ast.If, ast.Try)):
            yield from functions_of(node, inside)


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def mentions_of(node: ast.AST, *, words: bool = True) -> Counter[str]:
    """How often each name is used in a piece of code: loaded, accessed, imported, or part of a registry target.

    ``words`` counts keywords and one-word strings too, by which an attribute may be named.
    """
    names: Counter[str] = Counter()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            names[part.id] += 1
        elif isinstance(part, ast.Attribute):
            names[part.attr] += 1
        elif isinstance(part, ast.ImportFrom):
            names.update(alias.name for alias in part.names)
        elif isinstance(part, ast.keyword) and part.arg and words:
            names[part.arg] += 1
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            target = re.fullmatch(r"pcsuite[\w.]*:(\w+)", part.value)
            if target:
                names[target.group(1)] += 1
            elif words and re.fullmatch(r"\w+", part.value):
                names[part.value] += 1
    return names


def docstring_share(modules: list[Module]) -> tuple[int, int]:
    """Public functions with a docstring of several lines, and all public functions."""
    public = [node for module in modules for node, is_public in functions_of(module.tree) if is_public]
    several = [node for node in public if "\n" in (ast.get_docstring(node) or "")]
    return len(several), len(public)


def called_once(modules: list[Module]) -> tuple[list[str], int]:
    """Private functions that one place alone uses, and the number of all functions.

    A private name belongs to its module, so uses are counted there, and elsewhere only where it is imported.
    """
    once, total = [], 0
    for module in modules:
        uses: Counter[str] = Counter()
        for part in module.nodes:
            if isinstance(part, ast.Name):
                uses[part.id] += 1
            elif isinstance(part, ast.Attribute):
                uses[part.attr] += 1
        for node, _ in functions_of(module.tree):
            total += 1
            if node.name.startswith("_") and not _is_dunder(node.name) and uses[node.name] == 1:
                once.append(f"{module.name}:{node.lineno} {node.name}")
    return once, total


def definitions(modules: list[Module]) -> list[Definition]:
    """Functions, classes and public methods of the package."""
    found = []
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, FunctionNode) and not _is_dunder(node.name):
                found.append(_definition(module, node, ""))
            elif isinstance(node, ast.ClassDef):
                found.append(_definition(module, node, ""))
                for inner in node.body:
                    if isinstance(inner, FunctionNode) and not _is_dunder(inner.name):
                        found.append(_definition(module, inner, node.name))
    return found


def _definition(module: Module, node: ast.AST, owner: str) -> Definition:
    where = f"{module.name}:{node.lineno}"
    if isinstance(node, ast.ClassDef):
        # A class reaches what its own body, decorators, bases and dunder methods mention; other methods stand alone.
        parts: list[ast.AST] = [*node.decorator_list, *node.bases, *node.keywords]
        parts += [part for part in node.body if not isinstance(part, FunctionNode) or _is_dunder(part.name)]
        names = frozenset(name for part in parts for name in mentions_of(part, words=False))
    else:
        names = frozenset(mentions_of(node, words=False))
    return Definition(where, node.name, owner, node, names)


def unreachable(modules: list[Module]) -> list[Definition]:
    """Definitions that no command, no name of the front door, no registry and no interface of a library reaches.

    Names stand for themselves: whatever is called ``open`` counts as reached when anything reached says
    ``open``. So the list errs on the short side, never on the long one.
    """
    everything = definitions(modules)
    reached = EXTENSION_POINTS | {"_repr_html_"}  # the latter is called by notebooks
    for module in modules:
        for node in module.tree.body:
            if not isinstance(node, (*FunctionNode, ast.ClassDef, ast.Import, ast.ImportFrom)):
                reached.update(_keys(module.name, mentions_of(node, words=module.name == "__init__.py")))
            elif isinstance(node, FunctionNode) and is_entry(node):
                reached.update((node.name, *_keys(module.name, mentions_of(node, words=False))))
            elif isinstance(node, ast.ImportFrom):
                reached.update(alias.name for alias in node.names if alias.name.startswith("_"))
        if module.name == "cli.py":
            reached.update(_keys(module.name, mentions_of(module.tree)))
        if module.name in SCRIPTS:
            reached.update(_keys(module.name, mentions_of(module.tree, words=False)))
            reached.update(entry.name for entry in everything if entry.where.startswith(module.name))
    # What the specification's import paths lead to, and the methods that it calls of it.
    specified = {target.rpartition(":")[2] for _, names in MODULES.values() for target in names.values()}
    reached |= specified
    reached.update(
        entry.name
        for entry in everything
        if entry.where.startswith("specified/") and entry.owner in specified
    )
    for template in PACKAGE.rglob("*.j2"):
        reached.update(re.findall(r"[A-Za-z_]\w+", template.read_text(encoding="utf-8")))
    overrides = _foreign_overrides(modules)
    pending = list(everything)
    progress = True
    while progress:
        progress, left = False, []
        for entry in pending:
            module = entry.where.partition(":")[0]
            # A private function belongs to its module; a private method may be called by a base class elsewhere.
            names = {entry.name} if entry.owner else {entry.name, f"{module}:{entry.name}"}
            if entry.owner and entry.name.startswith("_"):
                names |= {f"{other.name}:{entry.name}" for other in modules}
            if names & reached or (entry.owner, entry.name) in overrides:
                reached |= _keys(module, entry.mentions)
                progress = True
            else:
                left.append(entry)
        pending = left
    return pending


def _keys(module: str, names: Iterable[str]) -> set[str]:
    """Names as the reach is counted by: a private one with its module."""
    return {f"{module}:{name}" if name.startswith("_") else name for name in names}


def _foreign_overrides(modules: list[Module]) -> set[tuple[str, str]]:
    """Methods of classes with bases from other libraries, or of decorated kinds: their callers are not ours."""
    own = {node.name for module in modules for node in module.nodes if isinstance(node, ast.ClassDef)}
    plain = own | {"ABC", "Protocol", "NamedTuple", "Enum", "Exception", "Generic"}
    found = set()
    for module in modules:
        for node in module.nodes:
            if not isinstance(node, ast.ClassDef):
                continue
            bases = {name for base in node.bases for name in list(mentions_of(base))[:1]}
            foreign = bool(bases - plain)
            for inner in node.body:
                if isinstance(inner, FunctionNode):
                    hooked = any(
                        {"field_validator", "model_validator", "field_serializer", "model_serializer"}
                        & set(mentions_of(decorator))
                        for decorator in inner.decorator_list
                    )
                    if foreign or hooked:
                        found.add((node.name, inner.name))
    return found


def is_entry(node: ast.AST) -> bool:
    """Whether a function is called by its name or decorator: a command, a hook or fixture of pytest, a figure."""
    registered = any(
        REGISTERING_DECORATORS & set(mentions_of(decorator)) for decorator in node.decorator_list
    )
    return registered or bool(re.match(r"(configure|execute|pytest)_", node.name))


def configuration_keys(modules: list[Module]) -> list[tuple[str, str, str]]:
    """Fields of the configuration models: module, class, key."""
    found = []
    for module in modules:
        if module.name.startswith("config/"):
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef):
                    for part in node.body:
                        named = isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
                        if named and not part.target.id.startswith("_"):
                            found.append((module.name, node.name, part.target.id))
    return found


def unread_keys(modules: list[Module]) -> list[str]:
    """Configuration keys whose value no code outside the definition ever takes.

    A key of a profile's section (``helm.enabled``) is read where one function takes both the section (by its key or as
    a parameter of its class) and the key; others are read where anything takes an attribute of that name. A module that
    takes attributes by name (``getattr(profile.suite, key)``) reads the keys that it spells out as strings, and a class
    that derives from a section those that its methods take.
    """
    read: set[str] = set()
    together: list[set[str]] = []
    for module in modules:
        for part in module.nodes:
            match part:
                case ast.Call(ast.Name("getattr"), [ast.Attribute(attr=section), ast.Name(), *_]):
                    spelt = set(mentions_of(module.tree))
                    read |= spelt
                    together.append(spelt | {section})
                case ast.Call(ast.Name("getattr"), [ast.Name(), ast.Name(), *_]):
                    texts = (node.value for node in module.nodes if isinstance(node, ast.Constant))
                    read |= {text for text in texts if isinstance(text, str)}
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load):
                read.add(part.attr)
            elif isinstance(part, FunctionNode):
                together.append(set(mentions_of(part)))
            elif isinstance(part, ast.ClassDef) and not module.name.startswith("config/"):
                together.append(
                    set(mentions_of(part))
                )  # one that derives from a section reads its keys as its own
    sections = _section_names(modules)
    unread = []
    for where, owner, key in configuration_keys(modules):
        names = sections.get(owner)
        in_section = names is None or any(key in taken and names & taken for taken in together)
        if key not in read or not in_section:
            unread.append(f"{where} {owner}.{key}")
    return unread


def _section_names(modules: list[Module]) -> dict[str, set[str]]:
    """Classes of the profile's sections, each with the keys under which it stands."""
    found: dict[str, set[str]] = {}
    for module in modules:
        if module.name == "config/profile.py":
            classes = [node for node in module.tree.body if isinstance(node, ast.ClassDef)]
            for node in classes:
                for part in node.body:
                    if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                        for name in set(mentions_of(part.annotation)) & {entry.name for entry in classes}:
                            found.setdefault(name, {name}).add(part.target.id)
    return found


def code_lines(module: Module) -> int:
    """Lines that hold code: blank lines, comments and docstrings are none."""
    docstrings: set[int] = set()
    for node in module.nodes:
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    blank = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    lines: set[int] = set()
    with tokenize.open(module.path) as stream:
        for token in tokenize.generate_tokens(stream.readline):
            if token.type not in blank:
                lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


VAGUE = frozenset(["found", "own", "wanted", "said", "made", "given", "taken", "told", "seen", "meant"])
"""Words that name a variable without saying what it is."""


def vague_names(modules: list[Module]) -> int:
    """How often a name of :data:`VAGUE` is bound."""
    stored = (node for module in modules for node in module.nodes if isinstance(node, ast.Name))
    return sum(node.id in VAGUE for node in stored if isinstance(node.ctx, ast.Store))


def mirrored(modules: list[Module]) -> tuple[list[str], int]:
    """Modules with logic that have no test file of their name, and the number of modules with logic."""
    tests = {path.stem for path in TESTS.rglob("test_*.py")}
    missing, total = [], 0
    for module in modules:
        if module.path.name == "__init__.py" or not any(True for _ in functions_of(module.tree)):
            continue
        total += 1
        stem = module.path.stem.strip("_")
        parent = module.path.parent.name
        if f"test_{stem}" not in tests and f"test_{parent}_{stem}" not in tests:
            missing.append(module.name)
    return missing, total


def is_ours(code: CodeType) -> bool:
    """Whether a piece of code is a function that somebody wrote in the package.

    Templates are compiled to functions under their own file's name: nobody wrote or reads those.
    """
    inside = code.co_filename.startswith(str(PACKAGE)) and code.co_filename.endswith(".py")
    return inside and "<" not in code.co_name


def trace_row() -> list[tuple[str, str]]:
    """Distinct functions of the package on one row's way from the plan into the log, each with its file.

    Rows of one cell are asked one after the other and traced from the end of the first on, until the executor is done:
    what is done once for a run or a cell is left out.
    """
    import json
    import tempfile

    from pcsuite.config.load import bundled_configs, load_suite
    from pcsuite.logging import log
    from pcsuite.runners.executors.local import LocalExecutor
    from pcsuite.runners.progress import RowSink
    from pcsuite.runners.run_suite import run_suite

    model = {"provider": "simulated", "family": "sim", "size": "7B", "params_b": 7}
    seen: set[tuple[str, str, int]] = set()

    def profiler(frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and is_ours(code):
            seen.add((code.co_filename, code.co_name, code.co_firstlineno))

    accept, untraced = RowSink.accept, LocalExecutor.run

    def traced_from_here(sink: RowSink, row: Any) -> None:
        accept(sink, row)
        sys.setprofile(profiler)

    async def traced_to_its_end(*args: Any) -> None:
        try:
            await untraced(*args)
        finally:
            sys.setprofile(None)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "models.yaml").write_text(json.dumps({"version": "1.0", "models": {"sim": model}}), "utf-8")
        suite = load_suite(
            bundled_configs() / "quickstart.yaml",
            {
                "run.output_dir": f"{folder}/out",
                "run.cache_dir": f"{folder}/cache",
                "repro.max_inflight": 1,
                "suite.models_ref": f"{folder}/models.yaml",
                "selection.models": ["sim"],
                "selection.tasks": ["agnews_json"],
                "selection.conditions": ["C3"],
                "selection.decoding_regimes": ["D1"],
                "limits.max_items_per_task": 2,
            },
        )
        # The log is synced once a second, whatever rows come: on a slow machine that would fall into the trace.
        setattr(log, "_SYNC_SECONDS", float("inf"))  # noqa: B010
        setattr(RowSink, "accept", traced_from_here)  # noqa: B010
        setattr(LocalExecutor, "run", traced_to_its_end)  # noqa: B010
        run_suite(suite, quiet=True)
    inside = [(Path(file).relative_to(PACKAGE).as_posix(), line, name) for file, name, line in seen]
    return [(file, name) for file, _, name in sorted(inside)]


class CallTrace:
    """Functions and class bodies of the package that run while it is on, how often each, and rows that are decoded.

    Class bodies run when their module is imported: they tell which rooms a command enters without need.
    """

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str, int]] = Counter()
        self.classes: set[tuple[str, str, int]] = set()
        self.rows_decoded = 0

    def __enter__(self) -> CallTrace:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: Any, event: str, called: Any) -> None:
        code = frame.f_code
        if event == "call" and is_ours(code):
            file = Path(code.co_filename).relative_to(PACKAGE).as_posix()
            where = (file, code.co_name, code.co_firstlineno)
            if code.co_flags & inspect.CO_OPTIMIZED:
                self.calls[where] += 1
            else:
                self.classes.add(where)
        elif event == "c_call" and called.__name__ == "decode":
            # Of a row, in whole or in part: whatever has an id and errors.
            decoded = getattr(getattr(called.__self__, "type", None), "__struct_fields__", ())
            self.rows_decoded += {"run_id", "errors"} <= set(decoded)

    def times(self, file: str, name: str) -> int:
        """Calls of a function by its file and name."""
        return sum(count for (where, what, _), count in self.calls.items() if (where, what) == (file, name))


def trace_ablation() -> tuple[dict[str, int], list[str]]:
    """What a whole simulated ``pcsuite ablate`` passes, reads and writes, and the functions it passes.

    Four blocks in all 16 subsets, each on 40 items, and what shams and trimming add to them.
    """
    import io
    import tempfile
    from contextlib import chdir, redirect_stdout

    names = ("role", "rules", "tone", "noise")
    queues = ("billing", "delivery", "account")
    prompt = "".join(f"# {name}\nThis is about {name}.\n\n" for name in names) + "# Ticket\n{{ text }}\n"
    table = "text,queue\n" + "".join(f"ticket {i} about {queues[i % 3]},{queues[i % 3]}\n" for i in range(40))
    with tempfile.TemporaryDirectory() as name, redirect_stdout(io.StringIO()):
        folder = Path(name)
        (folder / "prompt.md").write_text(prompt, "utf-8")
        (folder / "tickets.csv").write_text(table, "utf-8")
        words = [
            "ablate",
            f"{folder}/prompt.md",
            "--data",
            f"{folder}/tickets.csv",
            "--answer",
            "queue",
            "--quiet",
        ]
        words += ["--model", "simulated", "--output-dir", f"{folder}/out"]
        with chdir(folder), CallTrace() as trace:  # what is kept between runs lies in the working folder
            from pcsuite.cli import main as pcsuite_main

            status = pcsuite_main([*words, "--margin", "0.1"])
        assert status == 0, "the ablation went through"
        rows = (folder / "out/ablations/prompt/runs/prompt.jsonl").read_bytes().count(b"\n")
    figures = {
        "rows": rows,
        "functions": len(trace.calls),
        "files of functions": len({file for file, _, _ in trace.calls}),
        "classes imported": len(trace.classes),
        "files entered": len({file for file, _, _ in (*trace.calls, *trace.classes)}),
        "rows decoded": trace.rows_decoded,
        "suites loaded": trace.times("config/load.py", "load_suite"),
        "YAML texts written": trace.times("ablation/study.py", "as_yaml"),
        "files of items read": trace.times("data/items.py", "read_items"),
    }
    return figures, [f"{file} {name}" for file, name, _ in sorted(trace.calls)]


def print_ablation_trace(*, listed: bool) -> None:
    """Print what an ablation passes today beside what it did, a line each; ``listed`` also names the functions."""
    figures, functions = trace_ablation()
    for label, count in figures.items():
        before = ABLATION_BASE.get(label)
        print(f"{label:<22} {f'{before:,} → ' if before is not None else ''}{count:,}")
    if listed:
        print(*functions, sep="\n")


def count_options() -> int:
    """Options of all commands and their actions, ``--help`` left out: what a newcomer would have to read."""
    from pcsuite.cli import COMMANDS, command_parser

    waiting: list[argparse.ArgumentParser] = [command_parser(command) for command in COMMANDS]
    options = 0
    for parser in waiting:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += dict.fromkeys(action.choices.values())
            options += bool(action.option_strings) and not isinstance(action, argparse._HelpAction)
    return options


def main() -> int:
    """Print the measures, each with what is wanted of it; exit status 1 where anything is unread or out of reach.

    The others are a compass: they say where the house stands, and no change is made for their sake.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="name what was found")
    parser.add_argument("--trace", action="store_true", help="run one simulated row and count what it passes")
    about = "only run a whole simulated ablation and count what it passes, reads and writes"
    parser.add_argument("--trace-ablation", action="store_true", help=about)
    parser.add_argument("--package", type=Path, default=PACKAGE, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.trace_ablation:
        print_ablation_trace(listed=args.list)
        return 0
    modules = read_modules(args.package)
    once, functions = called_once(modules)
    several, public = docstring_share(modules)
    keys, lost = unread_keys(modules), unreachable(modules)
    missing, logic = mirrored(modules)
    median = statistics.median(module.lines for module in modules if module.path.name != "__init__.py")
    way = trace_row() if args.trace else []
    files = len({file for file, _ in way})
    rows = [
        ("files", f"{len(modules)}", "", True),
        ("lines", f"{sum(module.lines for module in modules):,}", "", True),
        ("lines of code", f"{sum(map(code_lines, modules)):,}", "50,000 or fewer", True),
        ("names that say nothing", f"{vague_names(modules)}", "0", True),
        ("module length p50 (without __init__)", f"{median:.0f}", "200 or more", median >= 200),
        (
            "private functions called from one place",
            f"{len(once)} of {functions} ({len(once) / functions:.1%})",
            "under 15 %",
            len(once) / functions < 0.15,
        ),
        (
            "public functions with several lines of docstring",
            f"{several} of {public} ({several / public:.1%})",
            "over 60 %",
            several / public > 0.6,
        ),
        (
            "modules with logic and a test file of their name",
            f"{logic - len(missing)} of {logic}",
            "over 80 %",
            len(missing) / logic < 0.2,
        ),
        ("configuration keys that nothing reads", f"{len(keys)}", "0", not keys),
        ("definitions out of reach", f"{len(lost)}", "0", not lost),
        ("options of all commands", f"{count_options()}", "", True),
    ]
    if way:
        wanted = f"under {FEWER_FUNCTIONS_THAN} in at most {MOST_FILES}"
        short = len(way) < FEWER_FUNCTIONS_THAN and files <= MOST_FILES
        rows.append(
            ("functions on one row's way from plan to log", f"{len(way)} in {files} files", wanted, short)
        )
    for label, value, wanted, reached in rows:
        print(f"{label:<50} {value:<22} {wanted}{'' if reached else '  (not reached)'}".rstrip())
    if args.list:
        listed = [f"{file} {name}" for file, name in way]
        for title, names in (
            ("called once", once),
            ("without a test file", missing),
            ("a row's way", listed),
        ):
            print(f"\n{title}:", *names, sep="\n  ")
    for title, names in (
        ("unread configuration keys", keys),
        (
            "out of reach",
            [f"{entry.where} {entry.owner + '.' if entry.owner else ''}{entry.name}" for entry in lost],
        ),
    ):
        if names:
            print(f"\n{title}:", *names, sep="\n  ")
    return 1 if keys or lost else 0


if __name__ == "__main__":
    sys.exit(main())
