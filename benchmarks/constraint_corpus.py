"""Run the corpus of schemas, patterns and grammars through every constraint backend; what happened goes into the docs.

Random weights behind the embedded model's tokenizer, greedily and at temperature 1.6: a model that knows nothing tries
everything that a mask lets through. The table in docs/reference/constraints.md is what this saw. Exits with 1 where an
answer ended and does not conform, or where a backend did not refuse what it should have.

Run: OMP_NUM_THREADS=1 python benchmarks/constraint_corpus.py [--limit N] [--check]     (--check writes nothing)
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
# ruff: noqa: E402

from constraints.corpus import GRAMMARS, PATTERNS, SCHEMAS
from pcsuite._util.json_schema import KEYWORDS, map_schema
from pcsuite._util.patterns import read_pattern
from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.engines.constrained import CONSTRAINTS
from pcsuite.errors import ConstraintUnavailableError
from pcsuite.evaluation.schema_check import schema_error
from support.docs_blocks import write_block
from support.tiny_gguf import tiny_gguf
from support.tiny_hf import tiny_chat_adapter

BACKENDS = ("native", "outlines_json", "guidance_cfg", "lmql_program")
REGIMES = (
    (Decoding("greedy", 0.0, 1.0, 64), 0),
    (Decoding("hot", 1.6, 1.0, 64), 1),
    (Decoding("hot", 1.6, 1.0, 64), 2),
)
DOCS = ROOT / "docs" / "reference" / "constraints.md"


def models():
    """The model that each backend steers."""
    from pcsuite.engines.adapters.llamacpp import LlamaCppAdapter, LlamaCppOptions

    steered = tiny_chat_adapter()
    native = LlamaCppAdapter("tiny", LlamaCppOptions(path=tiny_gguf(), workers=1))
    return {name: native if name == "native" else steered for name in BACKENDS}


def conforms(kind, case, text):
    """Whether an answer that ended is what the constraint promised."""
    if kind == "regex":
        return read_pattern(case.value, "answer").fullmatch(text)
    if kind == "cfg":
        return True  # judged by the byte mask in the tests
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return isinstance(case.value, bool) or schema_error(value, case.value) is None


def outcome(backend, model, kind, case):
    """What happened to one case: ``refused`` with the reason, or how many answers were valid, cut or wrong."""
    value = json.dumps(case.value) if kind == "json_schema" else case.value
    constraint = Constraint(kind, value, backend)
    counts = Counter()
    for decoding, seed in REGIMES:
        request = Request("Give an example.", decoding, seed, constraint)
        try:
            answer = CONSTRAINTS.get(backend)().generate_constrained(model, request, constraint)
        except ConstraintUnavailableError as error:
            return "refused", str(error)
        if answer["finish_reason"] != "stop":
            counts["cut"] += 1
        elif conforms(kind, case, answer["text"]):
            counts["valid"] += 1
        else:
            counts["wrong"] += 1
            print(f"WRONG {backend} {case.name}: {answer['text']!r}", file=sys.stderr)
    return "enforced", counts


def keywords_of(schema):
    """Keywords anywhere in a schema."""
    found = set()
    map_schema(schema, lambda part, where: found.update(set(part) & KEYWORDS) or part)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, help="cases of each kind")
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    steered = models()
    totals = {backend: Counter() for backend in BACKENDS}
    by_keyword = defaultdict(lambda: {backend: Counter() for backend in BACKENDS})
    unlike = []
    for kind, cases in (("json_schema", SCHEMAS), ("regex", PATTERNS), ("cfg", GRAMMARS)):
        for case in cases[: args.limit]:
            states = {}
            for backend in BACKENDS:
                state, told = outcome(backend, steered[backend], kind, case)
                states[backend] = state
                totals[backend][state] += 1
                if state == "enforced":
                    totals[backend].update(told)
                # llama.cpp reads its own notation, which the others refuse.
                own = case.name == "GBNF" and backend == "native"
                if (state == "refused") != bool(case.refused) and not own:
                    unlike.append(f"{backend}: {case.name} was {state}: {told}")
                if state == "refused" and case.refused and not re.search(case.refused, told, re.IGNORECASE):
                    unlike.append(f"{backend}: {case.name} was refused for another reason: {told}")
                if kind == "json_schema":
                    for keyword in keywords_of(case.value):
                        named = state == "enforced" or re.search(rf"\b{re.escape(keyword)}\b", str(told))
                        by_keyword[keyword][backend][state if named else "beside"] += 1
    for line in unlike:
        print(f"UNLIKE {line}", file=sys.stderr)
    table = [
        "| backend | cases enforced | refused by name | answers valid | cut at 64 tokens | wrong |",
        "|---|---|---|---|---|---|",
    ]
    for backend, seen in totals.items():
        cells = (seen[name] for name in ("enforced", "refused", "valid", "cut", "wrong"))
        table.append(f"| `{backend}` | " + " | ".join(str(cell) for cell in cells) + " |")
    table += [
        "",
        "| keyword | " + " | ".join(f"`{backend}`" for backend in BACKENDS) + " |",
        "|---|" + "---|" * len(BACKENDS),
    ]
    for keyword in sorted(by_keyword):
        table.append(
            f"| `{keyword}` | "
            + " | ".join(shown(by_keyword[keyword][backend]) for backend in BACKENDS)
            + " |"
        )
    print("\n".join(table))
    if not args.check:
        write_block(DOCS, "benchmarks/constraint_corpus.py", table)
    return 1 if unlike or any(seen["wrong"] for seen in totals.values()) else 0


def shown(seen):
    """One cell: in how many cases a keyword was enforced, and in how many it was the reason for a refusal."""
    parts = [f"enforced ({seen['enforced']})"] if seen["enforced"] else []
    parts += [f"refused ({seen['refused']})"] if seen["refused"] else []
    return ", ".join(parts) or "not reached"


if __name__ == "__main__":
    sys.exit(main())
