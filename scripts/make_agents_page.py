"""Writes what came of the tutorial's agent into its page, from the result that lies beside the agent.

python scripts/make_agents_page.py                          # the page anew, from docs/tutorial/agent/result.json
python scripts/make_agents_page.py outputs/ablations/AGENTS/ablation.json     # the result too, from a run's
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from pcsuite.ablation.sentences import margin_words

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tutorial" / "agents.md"
RESULT = ROOT / "docs" / "tutorial" / "agent" / "result.json"
RULES = ROOT / "docs" / "tutorial" / "agent" / "project" / "AGENTS.md"
MARKS = re.compile(r"(<!-- result: [^\n]* -->\n).*?(<!-- end of result -->)", re.DOTALL)
KEPT = ("says", "verdicts", "trim", "arms", "adherence")


def section(result: dict) -> str:
    """The page's section on a result: a table of the rules, and what follows in words."""
    arms = {arm["id"]: arm for arm in result["arms"]}
    followed = {entry["block"]: entry["says"] for entry in result["adherence"]}
    lines = RULES.read_text(encoding="utf-8").splitlines()
    full, again = arms["full"], arms["again"]
    told = [
        f"{result['rows']:,} calls of {result['model']} ({result['date']}), {full['items']} tasks under each arm;"
        f" scores are shares of tasks solved. With all rules it solves {full['score']:.2f}, asked the same again"
        f" {again['score']:.2f}.",
        "",
        "| without this line | solves | changes by | says |",
        "|---|---|---|---|",
    ]
    for line, entry in zip(lines, result["verdicts"], strict=True):
        without = arms[f"-{entry['block']}"]["score"]
        low, high = entry["effect_low"], entry["effect_high"]
        limits = f"worth [{low:+.2f}, {high:+.2f}]" if low is not None else "without limits"
        verdict = entry["verdict"]
        if verdict == "no worse without it":
            verdict += f" ({margin_words(entry['margin'], entry['most_lost'])})"
        change, says = without - full["score"], f"{verdict}, {limits}"
        told.append(f"| {line.removeprefix('- ')} | {without:.2f} | {change:+.2f} | {says} |")
    told += ["", *(f"- Rule `{block}`: {says}." for block, says in followed.items())]
    told += [
        "",
        " ".join(
            text for text in map(result["says"].get, ("answer", "margin", "trimmed", "control")) if text
        ),
    ]
    told += [
        "",
        "This is one model of half a billion parameters, on tasks chosen so that it can solve some of them, under one"
        f" seed, the same for all arms: with {full['items']} tasks only large effects show. It says how such a"
        " result is read, and nothing about larger models. `undecided` is no sign that a line does nothing.",
    ]
    return "\n".join(told) + "\n"


def renewed(page: str, result: dict) -> str:
    """The page with its section written anew."""
    return MARKS.sub(lambda match: f"{match[1]}\n{section(result)}\n{match[2]}", page)


def kept_of(path: Path) -> dict:
    """What the page needs of a run's ``ablation.json`` and its log."""
    document = json.loads(path.read_text(encoding="utf-8"))
    (log,) = (one for one in (path.parent / "runs").glob("*.jsonl") if not one.name.endswith(".spent.jsonl"))
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    kept = {key: document[key] for key in KEPT}
    for entry in kept["adherence"]:
        del entry["check"]  # where it lay on that machine
    kept["says"]["trimmed"] = kept["says"]["trimmed"].partition(" It saves ")[0]
    return {
        "model": "Qwen2.5-Coder-0.5B as an agent",
        "date": rows[-1]["timestamp_utc"][:10],
        "rows": len(rows),
    } | kept


def main() -> None:
    """Renew the page, and the result where a run is named."""
    if sys.argv[1:]:
        RESULT.write_text(json.dumps(kept_of(Path(sys.argv[1])), indent=1) + "\n", encoding="utf-8")
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), result), encoding="utf-8")


if __name__ == "__main__":
    main()
