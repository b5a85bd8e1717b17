"""What a gate can find, in words: the one line beside every gate, and the answer of ``pcsuite gate plan``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pcsuite._util.text import aligned, counted
from pcsuite.contrasts import Gate

_QUICK, _QUICK_GRADED = 500, 100
"""Simulated runs behind the line beside a gate, which must not keep anybody waiting; graded scores take longer."""


def gate_line(gates: Sequence[Gate]) -> str:
    """What the weakest of some gates can find, in one line; empty where nothing can be said.

    Of several cells the one with the fewest items is meant.
    """
    if not gates:
        return ""
    smallest = min(gates, key=lambda entry: entry.items)
    gate = replace(smallest, studies=_QUICK_GRADED if smallest.graded else _QUICK)
    loss = min(2 * gate.margin or 0.1, gate.largest_loss)
    least = gate.least_loss()
    reach = "no loss" if least is None else f"a loss of {least:.2f}"
    parts = [
        f"a true loss of {loss:.2g} fails it in {_percent(gate.fails(loss))} of runs",
        f"{reach} is found with 80 %",
        f"where nothing changed it fails in {_percent(gate.fails(0.0))}",
    ]
    if gate.margin:
        parts[-1] += f" and shows 'no worse' in {_percent(gate.shows_no_worse())}"
    cells = f", the smallest of {len(gates)} cells" if len(gates) > 1 else ""
    return f"What this gate can find ({_size(gate)}{cells}): {', '.join(parts)}."


def _size(gate: Gate) -> str:
    repeats = f" × {gate.repeats} repeats" if gate.repeats > 1 else ""
    return f"{counted(gate.items, gate.unit)}{repeats}, margin {gate.margin:g}"


def _percent(share: float) -> str:
    return "under 1 %" if share < 0.01 else "over 99 %" if share > 0.99 else f"{100 * share:.0f} %"


class GatePlan:
    """A gate's chances at some losses, and what would be needed: computed once, told in text or as a document."""

    def __init__(self, gate: Gate, losses: Sequence[float], *, power: float) -> None:
        self.gate, self.power = gate, power
        fitting = sorted({round(loss, 6) for loss in losses if 0 < loss <= gate.largest_loss})
        self.fails = {loss: gate.fails(loss) for loss in (0.0, *fitting)}
        self.shows = {loss: gate.shows_no_worse(loss) for loss in self.fails} if gate.margin else {}
        self.least_loss = gate.least_loss(power)
        # At a loss of the margin itself about half the runs show less than the margin: no number of items finds it.
        self.sought = min(2 * gate.margin or 0.1, gate.largest_loss)
        self.items_to_find = gate.items_to_find(self.sought, power)
        self.repeats_to_find = gate.repeats_to_find(self.sought, power)
        self.items_to_show = gate.items_to_show(power) if gate.margin else None
        self.repeats_to_show = gate.repeats_to_show(power) if gate.margin else None

    def document(self) -> dict[str, object]:
        """The plan for a program."""
        gate = self.gate
        return {
            "items": gate.items,
            "unit": gate.unit,
            "repeats": gate.repeats,
            "margin": gate.margin,
            "alpha": gate.alpha,
            "power": self.power,
            "losses": [
                {"loss": loss, "fails": chance, "shows_no_worse": self.shows.get(loss)}
                for loss, chance in self.fails.items()
            ],
            "fails_where_nothing_changed": self.fails[0.0],
            "shows_no_worse_where_nothing_changed": self.shows.get(0.0),
            "least_loss": self.least_loss,
            "wanted": {
                "loss": self.sought,
                "items_to_find": self.items_to_find,
                "repeats_to_find": self.repeats_to_find,
                "items_to_show_no_worse": self.items_to_show,
                "repeats_to_show_no_worse": self.repeats_to_show,
            },
        }

    def text(self) -> str:
        """The plan for a reader: could it fail, could it pass, and what would be needed."""
        gate = self.gate
        chance = f"{100 * self.power:.0f} %"
        able = (
            f"It can fail: a loss of {self.least_loss:.2f} is found with {chance}."
            if self.least_loss is not None
            else f"It cannot fail reliably: not even a loss of {gate.largest_loss:.2f} is found with {chance}."
        )
        rows = [["true loss", "fails"] + (["shows 'no worse'"] if self.shows else [])]
        for loss, share in self.fails.items():
            shown = [_percent(self.shows[loss])] if self.shows else []
            rows.append([f"{loss:g}" if loss else "0 (nothing changed)", _percent(share), *shown])
        units = f"{gate.unit}s"
        lines = [f"A gate of {_size(gate)}.", able, "", *aligned(rows), ""]
        lines.append(
            f"To find a loss of {self.sought:.2g} with {chance}: {_needed(self.items_to_find, units)}, or"
            f" {_needed(self.repeats_to_find, 'repeats of these')}."
        )
        if self.shows:
            lines.append(
                f"To show 'no worse' with {chance} where nothing changed: {_needed(self.items_to_show, units)}, or"
                f" {_needed(self.repeats_to_show, 'repeats of these')}."
            )
        return "\n".join(lines)


def _needed(number: int | None, what: str) -> str:
    return f"no number of {what} suffices" if number is None else f"{number:,} {what}"
