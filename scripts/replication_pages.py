"""The pages of the replications: what was registered, and, once it was run, what came of it; one page has all verdicts.

    python scripts/replication_pages.py                              # every page from the rows that are published
    python scripts/replication_pages.py --check                      # exit status 1 where a page says something else
    python scripts/replication_pages.py prompt_twice --rows FOLDER --to FOLDER
    python scripts/replication_pages.py prompt_twice --log outputs/runs/replication_prompt_twice.jsonl   # your own run

Every number between the two marks of a page is computed from the published rows (`scripts/replication_rows.py` puts
them there), by the rules that the page states (`scripts/replication_verdicts.py`).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from replication_rows import (
    LOOKS,
    NAMES,
    PAGES,
    PROFILES,
    Answer,
    given,
    landed,
    of_one_engine,
    read_rows,
    rows_of_log,
)
from replication_verdicts import (
    COUNTED_BY_THE_PAPER,
    LENIENT,
    STRICT,
    VERDICTS,
    Cells,
    Ended,
    Judged,
    ended,
    wins_and_losses,
)

from pcsuite.config.load import load_suite
from pcsuite.contrasts import FORM

BEGIN, END = "<!-- results: written by scripts/replication_pages.py -->", "<!-- end of results -->"
OVERVIEW = "README.md"
"""The page that has the verdicts of all claims."""


def overview(published: Mapping[str, Sequence[Answer]]) -> str:
    """What stands on the page of all claims, of the rows of each: its verdicts, or how far its studies have come."""
    head = ["claim", "model", "engine", "verdict, strictly read", "read leniently", "items a task", "rows"]
    body = []
    for name, rows in published.items():
        cells = Cells(name, load_suite(str(PROFILES / f"{name}.yaml")), of_one_engine(rows))
        for model in cells.models:
            mine = cells.of_model(model)
            found = ended(mine)
            lenient = VERDICTS[name](found.cells, LENIENT).verdict if found.verdict else ""
            title = (PAGES / f"{name}.md").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
            verdict = f"**{found.verdict}**" if found.verdict else "none yet"
            body.append(
                f"| [{title}]({name}.md) | {model} | `{mine.rows[0].engine}` | {verdict} | {lenient or '–'} |"
                f" {found.items or '–'} | {len(mine.rows):,} |"
            )
    if not body:
        return "No result is here yet."
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *body])


def results(name: str, rows: Sequence[Answer], *, published: bool = True) -> str:
    """What stands between the marks of a page: that nothing was run yet, or verdicts, figures and tables.

    Of rows that are not published it is the same without links to what stands beside the page.
    """
    suite = load_suite(str(PROFILES / f"{name}.yaml"))
    registered = f"registered as `{str(landed(name)['design'])[:12]}`"
    if not rows:
        return (
            f"**Not yet run.** {registered.capitalize()}. Verdicts, figure and tables will stand here, computed from"
            " published rows."
        )
    cells = Cells(name, suite, of_one_engine(rows))
    lines = [f"{len(rows):,} {f'[rows](rows/{name})' if published else 'rows'}, {registered}.", ""]
    for model in cells.models:
        lines += _of_model(cells.of_model(model), model in suite.profile.selection.models)
    if published and any(ended(cells.of_model(model)).items for model in cells.models):
        drawn = "scores of all templates" if name == "reading_artefact" else "registered contrasts"
        lines.append(f"![The {drawn} over all live tasks]({name}.png)")
    return "\n".join(lines).rstrip("\n")


def _of_model(cells: Cells, registered: bool) -> list[str]:
    """What is said of one model: its verdict, then the tables of the rows that it rests on."""
    model = cells.model
    found, aside = ended(cells), "" if registered else " (not registered by name, judged by the same rule)"
    engine = cells.rows[0].engine
    if found.verdict:
        leniently = VERDICTS[cells.name](found.cells, LENIENT)
        other = leniently.verdict != found.verdict
        lines = [
            f"### {model}: {found.verdict}{f' (read leniently: {leniently.verdict})' if other else ''}",
            "",
            f"On the engine `{engine}`{aside}, after {found.items} items a task: {found.told}.",
        ]
        if cells.name != "reading_artefact":
            lines += ["", f"Read leniently at the same look: {leniently.verdict}; {leniently.told}."]
    else:
        lines = [f"### {model}: no verdict yet", "", f"On the engine `{engine}`{aside}. {_to_come(found)}"]
    later = len(cells.rows) - len(found.cells.rows)
    if found.verdict and later > 0:
        lines += ["", f"{later:,} rows were asked after that look; they change nothing and are in no table."]
    # Effects between looks are nobody's to see: they would say whether to go on.
    return [*lines, "", *(_tables(found.cells) if found.items else [])]


def _to_come(found: Ended) -> str:
    told = "; ".join(found.missing[:3])
    more = f" and {len(found.missing) - 3} more" if found.missing[3:] else ""
    before = f"The look after {found.items} items settled nothing ({found.told}). " if found.items else ""
    after = next(items for items, _ in LOOKS if items > found.items)
    return f"{before}The look after {after} items a task lacks {told}{more}."


def _tables(cells: Cells) -> list[str]:
    lines = []
    dead = [(task, why) for task in cells.tasks if (why := cells.dead(cells.model, task))]
    if dead:
        lines += ["Not counted: " + "; ".join(f"{task} ({why})" for task, why in dead) + ".", ""]
    lines += _levels(cells, cells.model)
    lines += _contrast_table([one for task in cells.live for one in cells.both([task])], len(cells.live))
    if cells.name == "prompt_twice":
        wins, losses, count = wins_and_losses(cells, STRICT)
        lines += [
            f"Counted as the paper counts (p < {COUNTED_BY_THE_PAPER:g}, uncorrected): {wins} wins and {losses} losses"
            f" in {count}.",
            "",
        ]
    return [*lines, *_pooled_table(cells)]


def _levels(cells: Cells, model: str) -> list[str]:
    head = ["condition", *cells.tasks, "commonest answer", "abstained", "unreadable", "cut off"]
    lines = [
        "Score read strictly / leniently:",
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
    ]
    for name in cells.conditions:
        figures = []
        for task in cells.tasks:
            pair = [cells.level(model, task, name, reading) for reading in (STRICT, LENIENT)]
            figures.append("–" if None in pair else f"{pair[0]:.2f} / {pair[1]:.2f}")
        answers = [one for task in cells.tasks for one in cells.answers(model, task, name)]
        constant = max((cells.constant(model, task, name) for task in cells.tasks), default=0.0)
        shares = [
            fmean(told) if answers else 0.0
            for told in (
                [one.abstained for one in answers],
                [not one.answer for one in answers],
                [one.outcome == "cut" for one in answers],
            )
        ]
        told = " | ".join(f"{share:.0%}" for share in shares)
        lines.append(f"| {name} | {' | '.join(figures)} | up to {constant:.0%} | {told} |")
    return [*lines, ""]


def _contrast_table(found: Sequence[Judged], live: int) -> list[str]:
    head = ["contrast, task by task", "better", "worse", "neither", "live tasks"]
    body = []
    for first, second in dict.fromkeys((one.first, one.second) for one in found):
        mine = [one for one in found if (one.first, one.second) == (first, second)]
        counts = Counter(one.strict.verdict for one in mine)
        better, worse = counts["better"], counts["worse"]
        body.append(f"| {first} − {second} | {better} | {worse} | {live - better - worse} | {live} |")
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *body, ""]


def _pooled_table(cells: Cells) -> list[str]:
    head = ["over all live tasks", "verdict", "strict, 95 % limits", "lenient, 95 % limits"]
    body = []
    for one in cells.both(cells.live):
        pair = one.first, one.second
        told = []
        for reading in (STRICT, LENIENT):
            limits = cells.limits(reading, cells.live, pair, 0.95)
            told.append(f"{limits.value:+.3f} [{limits.low:+.3f}, {limits.high:+.3f}]")
        form = f" ({FORM})" if one.form else ""
        body.append(f"| {one.first} − {one.second} | {cells.word(STRICT, pair)}{form} | {' | '.join(told)} |")
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *body, ""]


COLOURS = {STRICT: "#1b5e8c", LENIENT: "#c76b1e"}
READ = {STRICT: "strictly read", LENIENT: "leniently read"}


def draw_figure(cells: Cells, path: Path) -> None:
    """What every model's look came to, strict and lenient beside each other, as a picture.

    Where the claim is about the spread over templates these are their scores, else the registered contrasts with their
    limits, over live tasks.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    looks = [found.cells for model in cells.models if (found := ended(cells.of_model(model))).items]
    spread = cells.name == "reading_artefact"
    drawn = (
        [(look, (name,)) for look in looks if look.live for name in look.conditions]
        if spread
        else [(look, (one.first, one.second)) for look in looks for one in look.both(look.live)]
    )
    titles = {name: one.title or name for name, one in cells.suite.conditions.items()}
    labels = ["\nless ".join(titles[name] for name in names) + f" ({look.model})" for look, names in drawn]
    height = 1 + (0.25 if spread else 0.45) * max(1, len(drawn))
    figure, axes = pyplot.subplots(figsize=(10, height), layout="constrained")
    for row, (look, names) in enumerate(drawn):
        if spread:
            _draw_levels(axes, row, look, names[0])
        else:
            _draw_limits(axes, row, look, names)
    if not spread:
        registered = cells.suite.profile.preregistration
        assert registered is not None
        for edge, style in ((0, "-"), (-registered.margin, ":"), (registered.margin, ":")):
            axes.axvline(edge, color="#888888", lw=0.8, ls=style)
    axes.set_yticks(range(len(drawn)), labels, fontsize=8)
    axes.set_ylim(len(drawn) - 0.5, -0.5)
    axes.set_xlabel(
        "mean score over live tasks of each template"
        if spread
        else "difference of the score, 95 % limits; dotted: the margin"
    )
    for reading, colour in COLOURS.items():
        axes.plot([], [], "o", ms=3.5, color=colour, label=READ[reading])
    figure.legend(loc="outside upper right", ncols=2, fontsize=8)
    figure.savefig(path, dpi=120, metadata={"Software": ""})
    pyplot.close(figure)


def _draw_levels(axes: Any, row: int, look: Cells, template: str) -> None:
    """A template's mean score over live tasks under both readings, joined by a line."""
    levels = {
        reading: fmean(look.level(look.model, task, template, reading) or 0.0 for task in look.live)
        for reading in COLOURS
    }
    axes.plot(list(levels.values()), [row, row], color="#888888", lw=0.8)
    # The strict one on top: it hides the lenient one where the two are the same.
    for reading, size in ((LENIENT, 5.5), (STRICT, 3.5)):
        axes.plot(levels[reading], row, "o", ms=size, color=COLOURS[reading])


def _draw_limits(axes: Any, row: int, look: Cells, pair: tuple[str, str]) -> None:
    """A contrast's estimate over live tasks and its limits, under both readings."""
    for offset, (reading, colour) in zip((-0.12, 0.12), COLOURS.items(), strict=True):
        value = look.limits(reading, look.live, pair, 0.95)
        axes.plot([value.low, value.high], [row + offset] * 2, color=colour, lw=1.5)
        axes.plot(value.value, row + offset, "o", ms=3.5, color=colour)


def written(page: str, content: str) -> str:
    """A page with other content between its marks; ``SystemExit`` where it has none."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise SystemExit(f"the page has no place for results: {BEGIN} … {END}")
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{content}\n{END}{rest.split(END)[1]}"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", choices=NAMES, help="this page only")
    parser.add_argument(
        "--rows", type=Path, help="folder of the published rows (default: rows beside the pages)"
    )
    parser.add_argument("--to", type=Path, default=PAGES, help="folder of the pages")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where a page would change")
    parser.add_argument("--log", type=Path, help="print what came of this log, and write nothing")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="with --log: as the run was given it"
    )
    args = parser.parse_args(words)
    if args.log:
        if args.name is None:
            parser.error("which replication?")
        suite = load_suite(str(PROFILES / f"{args.name}.yaml"), given(args.set))
        print(results(args.name, rows_of_log(args.log, suite, for_all=False), published=False))
        return 0
    changed = False
    folder = args.rows or args.to / "rows"
    front = args.to / OVERVIEW
    if front.exists():
        changed = _write(front, overview({name: read_rows(folder / name) for name in NAMES}), args.check)
    for name in [args.name] if args.name else NAMES:
        rows = read_rows(folder / name)
        content = results(name, rows)
        changed = _write(args.to / f"{name}.md", content, args.check) or changed
        if f"({name}.png)" in content and not args.check:
            suite = load_suite(str(PROFILES / f"{name}.yaml"))
            draw_figure(Cells(name, suite, rows), args.to / f"{name}.png")
    return int(args.check and changed)


def _write(path: Path, content: str, check: bool) -> bool:
    """Put content between the marks of a page, or with ``check`` leave it; whether it was another."""
    before = path.read_text(encoding="utf-8")
    after = written(before, content)
    if not check:
        path.write_text(after, encoding="utf-8")
    return after != before


if __name__ == "__main__":
    sys.exit(main())
