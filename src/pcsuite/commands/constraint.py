"""``pcsuite constraint``: who can enforce a schema, a pattern or a grammar, and what answers look like under it."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pcsuite._util.files import unreadable_text
from pcsuite._util.json_schema import misspelt_keywords, schema_problem
from pcsuite._util.patterns import PatternError, read_pattern
from pcsuite.commands import options
from pcsuite.config.definitions import ModelsFile
from pcsuite.config.load import bundled_configs
from pcsuite.config.yaml_source import YamlSource
from pcsuite.engines.adapters.base import Constraint, ConstraintKind, Decoding, ModelAdapter, Request
from pcsuite.engines.constrained import AUTO_ORDER, CONSTRAINTS, backend_named
from pcsuite.engines.session import build_adapter, check_model
from pcsuite.errors import ConfigError, ConstraintUnavailableError, Exit, PcsuiteError

NATIVE_MODEL, STEERED_MODEL = "smollm2-135m", "smollm2-135m-hf"
PROMPT = "Give a short example."
SAMPLES = ((0.0, 0), (1.0, 1), (1.0, 2))
"""Temperature and seed of the answers that are shown."""
GRAMMAR_ENDINGS = (".lark", ".gbnf", ".ebnf", ".cfg")


@dataclass(slots=True)
class BackendCheck:
    """What one backend makes of the constraint."""

    backend: str
    model: str
    enforced: bool
    reason: str = ""
    answers: list[str] = field(default_factory=list)
    cut: int = 0
    """Answers that reached the token limit."""


def configure_constraint(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite constraint``.

    Says for each backend whether it enforces the constraint in full, or what it cannot, and shows three answers of
    the embedded model under it (one greedy, two sampled). Exit status 1 where no backend that was asked enforces it.

    examples:
      pcsuite constraint check my_schema.json
      pcsuite constraint check '[A-Z]{2}-[0-9]{3}'               # a pattern, or a file that holds one
      pcsuite constraint check query.lark --backend native
      pcsuite constraint check my_schema.json --samples 0 --json  # no model needed but for its vocabulary
    """
    actions = parser.add_subparsers(dest="action", required=True, metavar="check")
    check = actions.add_parser("check", help="who can enforce a schema, a pattern or a grammar")
    add = check.add_argument
    add(
        "constraint",
        metavar="SCHEMA|PATTERN|GRAMMAR",
        help="a file (.json, .lark, .gbnf, else a pattern) or a pattern",
    )
    add(
        "--kind",
        choices=("json_schema", "regex", "cfg"),
        help="what it is, where the file's name does not say",
    )
    about = "ask this backend only; may be given several times"
    add("--backend", action="append", choices=sorted(CONSTRAINTS), help=about)
    add("--max-tokens", type=int, default=60, metavar="N", help="limit of the answers shown (default 60)")
    add("--samples", type=int, default=3, choices=range(4), help="answers shown (default 3)")
    add("--json", action="store_true", help="print as JSON")


def execute_constraint(args: argparse.Namespace) -> int:
    """Check one constraint on the embedded model.

    What is no schema, pattern or grammar at all is a ``ConfigError``.
    """
    from rich.markup import escape
    from rich.table import Table

    kind, value = read_constraint(args.constraint, args.kind)
    warnings = []
    if kind == "json_schema":
        schema = json.loads(value)
        problem = schema_problem(schema)
        if problem is not None:
            raise ConfigError(f"{args.constraint}: not a valid JSON schema: {problem}")
        warnings = misspelt_keywords(schema)
    elif kind == "regex":
        try:
            read_pattern(value, "answer")
        except PatternError as error:
            raise ConfigError(str(error)) from error
    opened: dict[str, ModelAdapter] = {}
    try:
        findings = [
            _checked(name, Constraint(kind, value, name), args.max_tokens, args.samples, opened)
            for name in args.backend
            or (*AUTO_ORDER, *(name for name in CONSTRAINTS if name not in AUTO_ORDER))
        ]
    finally:
        for adapter in opened.values():
            adapter.close()
    status = Exit.DONE if any(finding.enforced for finding in findings) else Exit.BELOW_GATE
    if args.json:
        document = {"kind": kind, "warnings": warnings, "backends": [asdict(finding) for finding in findings]}
        print(json.dumps(document, indent=1, ensure_ascii=False))
        return status
    console = options.output_console()
    for line in warnings:
        console.print(f"[yellow]warning:[/yellow] {escape(line)}")
    table = Table("backend", "enforces it", "reason", title=f"{kind} on the embedded model")
    for finding in findings:
        reason = finding.reason or (f"{finding.cut} of {len(finding.answers)} cut off" if finding.cut else "")
        table.add_row(finding.backend, "yes" if finding.enforced else "no", escape(reason))
    console.print(table)
    for finding in findings:
        for (temperature, _), answer in zip(SAMPLES, finding.answers, strict=False):
            line = f"{finding.backend}  temperature {temperature:g}  {answer!r}"
            console.print(line, markup=False, highlight=False)
    return status


def read_constraint(given: str, kind: ConstraintKind | None = None) -> tuple[ConstraintKind, str]:
    """The kind and the text of a constraint: of a file by its ending, of a word by what it looks like.

    Raises ``ConfigError`` where a file cannot be read or a schema is no JSON.
    """
    path = Path(given)
    named = path.suffix.casefold() in (".json", ".txt", ".regex", *GRAMMAR_ENDINGS)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # too long for a name, or with a character that none has
        is_file = False
    if named and not is_file:
        raise ConfigError(f"{given}: no such file")
    try:
        text = path.read_text(encoding="utf-8") if is_file else given
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{given}: {unreadable_text(path, error)}") from error
    if kind is None:
        if path.suffix.casefold() in GRAMMAR_ENDINGS:
            kind = "cfg"
        else:
            kind = "json_schema" if path.suffix == ".json" or text.lstrip().startswith('{"') else "regex"
    if kind == "json_schema":
        try:
            json.loads(text)
        except ValueError as error:
            raise ConfigError(f"{given if is_file else 'the schema'}: not JSON ({error})") from error
        return kind, text
    return kind, text.strip("\n") if is_file and kind == "regex" else text


def _checked(
    name: str, constraint: Constraint, limit: int, samples: int, opened: dict[str, ModelAdapter]
) -> BackendCheck:
    """What one backend makes of the constraint; the models it needs are kept in ``opened``."""
    backend = backend_named(name)
    model = NATIVE_MODEL if name == "native" else STEERED_MODEL
    spec = YamlSource.read(bundled_configs() / "models_v1.yaml").parse(ModelsFile).models[model]
    missing = backend.missing()
    if missing is not None:
        extra = backend.extra or name
        return BackendCheck(
            name, model, False, f"{missing} is not installed: pip install 'prompt-control-suite[{extra}]'"
        )
    found = BackendCheck(name, model, True)
    try:
        if not backend.steers(*check_model(model, spec), constraint.kind):
            return BackendCheck(name, model, False, f"takes no constraint of kind {constraint.kind}")
        if model not in opened:
            opened[model] = build_adapter(model, spec)
        # One token shows whether a backend takes a constraint at all.
        for temperature, seed in SAMPLES[: max(1, samples)]:
            decoding = Decoding("check", temperature, 1.0, limit if samples else 1)
            request = Request(PROMPT, decoding, seed, constraint)
            answer = backend.generate_constrained(opened[model], request, constraint)
            if samples:
                found.answers.append(answer["text"])
                found.cut += answer["finish_reason"] != "stop"
    except ConstraintUnavailableError as error:
        return BackendCheck(name, model, False, str(error))
    except PcsuiteError as error:
        return BackendCheck(name, model, False, f"could not be tried: {error}")
    return found
