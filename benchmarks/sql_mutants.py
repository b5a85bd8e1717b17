"""How many wrong queries the SQL scorer takes for right: golds of Spider with one thing changed, scored as answers.

The changes are made here by patterns, and are not those that the scorer makes contents for
(``pcsuite.evaluation.sql_mutants``): an always-true filter by OR, a comparison with or without its equal sign, a
constant one higher, another aggregate, AND for OR, a DISTINCT more or less, the other direction of an order, a limit
one higher, a LEFT JOIN. Some mean the same as the gold query on any content that keeps the database's promises; they
stay among the survivors. Right queries in other words are scored beside them: each that is refused would be a false
alarm.

    python benchmarks/sql_mutants.py --data ../shared/data/spider --every 6 --list
    PYTHONPATH=OTHER_CHECKOUT/src python benchmarks/sql_mutants.py …        # the same of another version
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pcsuite.data.items import Item
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.sql import SqlEvaluator, SqlOptions


def changed(query: str) -> Iterator[tuple[str, str]]:
    """Queries with one thing changed, and what it is."""
    bare = query.strip().rstrip("; ")
    for pattern, other, kind in (
        (r"\bWHERE\b(?!.*\bWHERE\b)\s+(?P<rest>[^()]+?)(?=\s+(?:GROUP|ORDER|LIMIT|INTERSECT|UNION|EXCEPT)\b|$)",
         r"WHERE (\g<rest>) OR 1 = 1", "always-true filter"),
        (r"(?<![<>!=])>(?!=)", ">=", "> for >="), (r">=", ">", ">= for >"),
        (r"(?<![<>!=])<(?![>=])", "<=", "< for <="), (r"<=", "<", "<= for <"),
        (r"\bmax\s*\(", "min(", "aggregate"), (r"\bmin\s*\(", "max(", "aggregate"),
        (r"\bavg\s*\(", "sum(", "aggregate"), (r"\bsum\s*\(", "avg(", "aggregate"),
        (r"\bDISTINCT\b", "", "no DISTINCT"),
        (r"\A\s*SELECT\s+(?!DISTINCT|count|max|min|avg|sum)", "SELECT DISTINCT ", "DISTINCT"),
        (r"\bDESC\b", "ASC", "direction"), (r"\bASC\b", "DESC", "direction"),
        (r"(?<!LEFT )\bJOIN\b", "LEFT JOIN", "join"),
        (r"\bOR\b", "AND", "AND and OR"), (r"(?<!\d )\bAND\b(?! \d)", "OR", "AND and OR"),
    ):  # fmt: skip
        for match in re.finditer(pattern, bare, re.IGNORECASE):
            yield bare[: match.start()] + match.expand(other) + bare[match.end() :], kind
    for match in re.finditer(r"(?<![\w.'\"])(\d+)(?![\w.'\"])", bare):
        limit = re.search(r"LIMIT\s+$", bare[: match.start()], re.IGNORECASE)
        number = str(int(match[1]) + 1)
        yield bare[: match.start()] + number + bare[match.end() :], "limit" if limit else "constant + 1"


def main() -> None:
    """Print how many mutants score 1, by what was changed, and how long scoring took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/spider"), help="Spider's folder")
    parser.add_argument("--every", type=int, default=6, help="every so many golds")
    parser.add_argument("--offset", type=int, default=0, help="the first gold")
    parser.add_argument("--list", action="store_true", help="print the mutants that score 1")
    args = parser.parse_args()
    records = json.loads((args.data / "dev.json").read_text(encoding="utf-8"))
    golds = {
        (record["db_id"], record["query"])
        for record in records
        if (args.data / "database" / record["db_id"] / f"{record['db_id']}.sqlite").is_file()
    }
    evaluator = SqlEvaluator(SqlOptions(time_limit_s=5.0))
    scored, survived, seconds, alarms, slowest = Counter[str](), Counter[str](), 0.0, 0, 0.0
    chosen = sorted(golds)[args.offset :: args.every]
    for name, query in chosen:
        database = args.data / "database" / name / f"{name}.sqlite"
        item = Item("gold", "", {"query": query, "db_id": name, "database": str(database)})
        started = time.perf_counter()
        reworded = f"SELECT * FROM ({query.strip().rstrip('; ')})"
        if not evaluator.evaluate(item, Answer(reworded)).metrics["task_score"]:
            alarms += 1
            print(f"a right query is refused: {reworded}")
        slowest = max(slowest, time.perf_counter() - started)
        for mutant, kind in dict(changed(query)).items():
            metrics = evaluator.evaluate(item, Answer(mutant)).metrics
            if not metrics["executed"]:
                continue
            scored[kind] += 1
            if metrics["task_score"]:
                survived[kind] += 1
                if args.list:
                    print(f"{kind}: {mutant}    ({name}: {query})")
        seconds += time.perf_counter() - started
    print(f"{len(chosen)} golds, {sum(scored.values())} mutants that run: {sum(survived.values())} score 1")
    for kind, count in scored.most_common():
        print(f"  {kind:<20} {survived[kind]:>4} of {count}")
    print(f"right queries in other words refused: {alarms}")
    print(
        f"{seconds / len(chosen):.2f} s a gold with all its mutants, at most {slowest:.2f} s for its first answer"
    )


if __name__ == "__main__":
    main()
