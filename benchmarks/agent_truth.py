"""What ablate says of an agent whose every rule has a known worth: verdicts, adherence and the trimmed file.

    python benchmarks/agent_truth.py                      # 200 studies, in this process
    python benchmarks/agent_truth.py --real 3             # so many through the command: a process a call, in copies

The agent is scripted. It reads the ``AGENTS.md`` of the folder it works in and succeeds with a chance that depends on
which of its ten lines are there: two are worth something, one a little, one does harm, two say the same (either is
enough), four do nothing. Five lines also ask for something that leaves a trace, more or less often with the line than
without. How much each is worth differs by study (0.6 to 1.4 times the figures of :data:`RULES`), and items differ in
difficulty. The agent draws its luck anew in each call, so that the A/A arm differs too.

A claim is false where the truth is otherwise: helps where it does not, hurts, no worse without it where it costs the
margin or more, and so for following a rule and for the A/A arm. A study counts as false where any of its claims of a
kind is. Studies in this process use the functions that the command uses: verdicts, adherence, and the trim.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

MARGIN = 0.1


class Rule(NamedTuple):
    """A line: what it adds to the chance of success, and how often its trace is left with it and without."""

    line: str
    worth: float = 0.0
    trace: tuple[float, float] | None = None


RULES = {
    "tests": Rule("Run the tests before you answer.", 0.25, (0.95, 0.15)),
    "plan": Rule("Write a long plan into PLAN.md before anything else.", -0.2, (0.9, 0.02)),
    "names": Rule("Use the names that the code has.", 0.15),
    "look": Rule("Read a file before you change it."),
    "see": Rule("Never touch code that you have not looked at."),
    "style": Rule("Write small functions.", 0.0, (0.97, 0.97)),
    "types": Rule("Give every parameter a type.", 0.0, (0.7, 0.25)),
    "english": Rule("Write comments in English.", 0.0, (0.99, 0.99)),
    "polite": Rule("Be friendly and professional."),
    "tidy": Rule("Leave the folder tidy.", 0.03),
}
LOOKING = 0.25
"""What it is worth that one of ``look`` and ``see`` is there; both are worth no more."""
BASE = 0.15


class Agent:
    """The agent of one study."""

    def __init__(self, study: int) -> None:
        draw = random.Random(f"agent {study}")
        self.scale = {name: draw.uniform(0.6, 1.4) for name in [*RULES, "looking"]}

    def chance(self, kept: frozenset[str], difficulty: float) -> float:
        """Chance of success on an item (difficulty from -0.1 to 0.1) under these rules."""
        worth = sum(RULES[name].worth * self.scale[name] for name in kept)
        looks = LOOKING * self.scale["looking"] if kept & {"look", "see"} else 0.0
        return min(1.0, max(0.0, BASE + worth + looks - difficulty))

    def expected(self, kept: frozenset[str]) -> float:
        """Expected success over all difficulties."""
        grid = [-0.1 + 0.2 * (step + 0.5) / 50 for step in range(50)]
        return sum(self.chance(kept, difficulty) for difficulty in grid) / len(grid)

    def loss(self, dropped: frozenset[str]) -> float:
        """What leaving these rules out costs."""
        return self.expected(EVERY) - self.expected(EVERY - dropped)


EVERY = frozenset(RULES)
TRACED = [name for name, rule in RULES.items() if rule.trace]


def work(study: int) -> None:
    """Be the agent: a question a line, the folder of each by the rules' own place in it."""
    agent = Agent(study)
    luck = random.SystemRandom()
    for line in sys.stdin:
        question = json.loads(line)
        text = Path("AGENTS.md").read_text(encoding="utf-8") if Path("AGENTS.md").exists() else ""
        kept = frozenset(name for name, rule in RULES.items() if rule.line in text)
        difficulty = random.Random(question["item"]["task"]).uniform(-0.1, 0.1)
        if luck.random() < agent.chance(kept, difficulty):
            Path("passed").touch()
        for name in TRACED:
            if luck.random() < RULES[name].trace[name not in kept]:
                Path(f"trace-{name}").touch()
        answer = {
            "output": "done",
            "steps": 3 + ("plan" in kept) * 4,
            "loaded": ["AGENTS.md"] if text else [],
        }
        print(json.dumps(answer), flush=True)


# -- what is false --------------------------------------------------------------------------------------------------


def false_of_verdict(verdict: str, loss: float) -> bool:
    """Whether a verdict on a block is false where leaving it out costs so much."""
    if verdict.startswith("helps"):
        return loss <= 1e-9
    if verdict == "hurts":
        return loss >= -1e-9
    return verdict == "no worse without it" and loss >= MARGIN


def longest_free(agent: Agent) -> int:
    """Lines of the longest set that costs nothing."""
    return max(
        size
        for size in range(len(RULES) + 1)
        if any(agent.loss(frozenset(one)) <= 1e-9 for one in combinations(RULES, size))
    )


def count(tally: dict[str, float], agent: Agent, said: dict) -> None:
    """Add a study's claims to the counts."""
    false = [
        name
        for name, verdict in said["blocks"].items()
        if false_of_verdict(verdict, agent.loss(frozenset([name])))
    ]
    gains = {name: RULES[name].trace[0] - RULES[name].trace[1] for name in TRACED}
    false_traces = [
        name for name, verdict in said["traces"].items() if false_of_verdict(verdict, gains[name])
    ]
    dropped = frozenset(said["dropped"])
    tally["studies"] += 1
    tally["false verdict"] += bool(false)
    tally["false adherence"] += bool(false_traces)
    tally["false A/A"] += said["again"] in ("helps", "hurts")
    tally["false trim"] += agent.loss(dropped) >= MARGIN
    tally["trimmed"] += bool(dropped)
    tally["lines dropped"] += 0 if agent.loss(dropped) >= MARGIN else min(len(dropped), longest_free(agent))
    tally["lines that can go"] += longest_free(agent)
    for kind, names, verdict in (
        ("helps", ("tests", "names"), "helps"),
        ("hurts", ("plan",), "hurts"),
        ("idle", ("style", "types", "english", "polite", "look", "see"), "no worse without it"),
    ):
        tally[f"{kind} there"] += len(names)
        tally[f"{kind} found"] += sum(said["blocks"].get(name, "").startswith(verdict) for name in names)
    tally["followed there"] += 3
    tally["followed found"] += sum(said["traces"].get(name) == "helps" for name in ("tests", "plan", "types"))
    tally["anyway there"] += 2
    tally["anyway found"] += sum(
        said["traces"].get(name) == "no worse without it" for name in ("style", "english")
    )


# -- studies in this process ----------------------------------------------------------------------------------------


def simulated(study: int, items: int) -> dict:
    """What the functions of ``ablate`` say of one study."""
    import numpy as np

    from pcsuite.ablation.adherence import judge_adherence
    from pcsuite.ablation.trim import choose_drops, confirm_drops
    from pcsuite.ablation.verdicts import judge_blocks
    from pcsuite.contrasts import ArmScores

    agent, rng, names = Agent(study), np.random.default_rng([39, study, items]), list(RULES)
    difficulties = rng.uniform(-0.1, 0.1, items)

    def scores(kept: frozenset[str]) -> np.ndarray:
        chances = np.array([agent.chance(kept, difficulty) for difficulty in difficulties])
        return (rng.random(items) < chances).astype(float)

    def traces(name: str, there: bool) -> np.ndarray:
        return (rng.random(items) < RULES[name].trace[not there]).astype(float)

    full, again = scores(EVERY), scores(EVERY)
    stored = {frozenset([name]): scores(EVERY - {name}) for name in names}
    arms = {"full": ArmScores(full), "again": ArmScores(again)}
    arms |= {f"-{name}": ArmScores(stored[frozenset([name])]) for name in names}
    arms |= {f"~{name}": ArmScores(scores(EVERY - {name})) for name in names}  # other words do nothing
    verdicts = judge_blocks(arms, names, margin=MARGIN, rng=rng, resamples=100)
    noise = judge_blocks(
        {"full": arms["full"], "-again": arms["again"]}, ["again"], margin=MARGIN, rng=rng, resamples=100
    )
    followed = judge_adherence(
        dict.fromkeys(TRACED, "test -f trace"),
        {
            name: {"full": ArmScores(traces(name, True)), f"-{name}": ArmScores(traces(name, False))}
            for name in TRACED
        },
        names,
        margin=MARGIN,
        rng=rng,
        missing="bound",
        comparisons=len(TRACED),
    )
    half = items // 2

    def part(place: slice):
        def measured(dropped: frozenset[str]) -> np.ndarray:
            if dropped not in stored:
                stored[dropped] = scores(EVERY - dropped)
            return stored[dropped][place]

        return measured

    first, second = slice(0, half), slice(half, None)
    cells = [(full[first], {name: stored[frozenset([name])][first] for name in names})]
    chosen = _answered(choose_drops(cells, margin=MARGIN), part(first))
    confirmed = _answered(
        confirm_drops(chosen, [ArmScores(full[second], bounds=(0.0, 1.0))], margin=MARGIN, rng=rng),
        part(second),
    )[0]
    return {
        "blocks": {verdict.block: verdict.verdict for verdict in verdicts},
        "traces": {entry.block: entry.verdict.verdict for entry in followed if entry.verdict},
        "again": noise[0].verdict,
        "dropped": sorted(confirmed.dropped),
    }


def _answered(search, measure):
    from pcsuite.contrasts import ArmScores

    try:
        asked = next(search)
        while True:
            asked = search.send([ArmScores(measure(frozenset(asked)), bounds=(0.0, 1.0))])
    except StopIteration as end:
        return end.value


# -- studies through the command ------------------------------------------------------------------------------------


def through_the_command(study: int, items: int, folder: Path) -> dict:
    """What ``pcsuite ablate`` says of one study: the agent is a worker in copies of a folder."""
    project = folder / "project"
    project.mkdir(parents=True)
    (project / "AGENTS.md").write_text(
        "".join(f"- {rule.line}\n" for rule in RULES.values()), encoding="utf-8"
    )
    (folder / "tasks.csv").write_text(
        "task\n" + "".join(f"Task {number} of {study}\n" for number in range(items))
    )
    names = dict(zip(_blocks(folder), RULES, strict=True))
    checks = [
        f"--block-check={block}=test -f trace-{name}" for block, name in names.items() if name in TRACED
    ]
    _command(folder, "--check", "test -f passed", *checks)
    document = json.loads(next((folder / "outputs").rglob("ablation.json")).read_text(encoding="utf-8"))
    return {
        "blocks": {
            names[entry["block"]]: entry["verdict"]
            for entry in document["verdicts"]
            if entry["block"] in names
        },
        "traces": {names[entry["block"]]: entry["verdict"] for entry in document["adherence"]},
        "again": "",
        "dropped": [names[block] for block in (document["trim"] or {"dropped": []})["dropped"]],
    }


def _command(folder: Path, *more: str) -> str:
    target = f"{sys.executable} -S {Path(__file__).resolve()} --agent {int(folder.name)}"
    words = [
        sys.executable, "-m", "pcsuite", "ablate", "project/AGENTS.md", "--in", "project", "--data", "tasks.csv",
        "--target", target, "--worker", "--margin", str(MARGIN), "--design", "leave-one-out", "--reach", "off",
        "--quiet",
    ]  # fmt: skip
    done = subprocess.run([*words, *more], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"study {folder.name}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def _blocks(folder: Path) -> list[str]:
    """Names that ``ablate`` gives the rules, in the order of the lines."""
    shown = _command(folder, "--check", "test -f passed", "--show")
    arms = shown[shown.index("\narms:") :].partition(";")[0].replace("\n", " ")
    return [word.strip(" -") for word in arms.split(",") if word.strip().startswith("-")]


def main() -> None:
    """Parse the words, make the studies, print what came of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=200, help="for each number of items")
    parser.add_argument("--items", type=int, nargs="+", default=[60, 120, 240, 480])
    parser.add_argument("--real", type=int, default=0, help="make so many through the command instead")
    parser.add_argument("--agent", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.agent is not None:
        work(args.agent)
        return
    print(
        "| items | studies | with a false verdict | with a false word on following | A/A called different |"
        " needed found | harmful found | idle found | following found | anyway found | trims | false trims |"
        " lines dropped of those that can go |"
    )
    print("|" + "---|" * 13)
    for items in args.items:
        tally: dict[str, float] = dict.fromkeys(_KEYS, 0)
        for study in range(args.real or args.studies):
            if args.real:
                with tempfile.TemporaryDirectory(prefix="pcsuite-agent-") as parent:
                    said = through_the_command(study, items, Path(parent) / str(study))
                print(f"study {study}: {json.dumps(said)}", file=sys.stderr)
            else:
                said = simulated(study, items)
            count(tally, Agent(study), said)
        shares = [
            f"{tally[f'{kind} found'] / tally[f'{kind} there']:.2f}"
            for kind in ("helps", "hurts", "idle", "followed", "anyway")
        ]
        cells = [
            items, int(tally["studies"]),
            *(int(tally[f"false {kind}"]) for kind in ("verdict", "adherence", "A/A")),
            *shares, int(tally["trimmed"]), int(tally["false trim"]),
            f"{tally['lines dropped'] / tally['lines that can go']:.2f}",
        ]  # fmt: skip
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


_KEYS = [
    "studies", "false verdict", "false adherence", "false A/A", "false trim", "trimmed", "lines dropped",
    "lines that can go",
    *(f"{kind} {what}" for kind in ("helps", "hurts", "idle", "followed", "anyway") for what in ("there", "found")),
]  # fmt: skip


if __name__ == "__main__":
    main()
