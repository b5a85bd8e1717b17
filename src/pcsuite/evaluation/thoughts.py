"""What a model thought before it answered: set aside, whatever its family writes around it.

One table declares the families. Every pattern is linear in the length of the text.
"""

from __future__ import annotations

import json
import re
from bisect import bisect
from contextlib import suppress
from typing import NamedTuple

from pcsuite._util.text import storable
from pcsuite.evaluation.json_spans import object_spans


class ThoughtFamily(NamedTuple):
    """How one family of models writes its thoughts: patterns of what opens and what closes them."""

    name: str
    opens: str
    closes: str


_TAG = (
    r"(?:\w{1,12}:)?(?:think(?:ing)?|thoughts?|thought_process|reason(?:ing)?|scratch_?pad|reflection"
    r"|analysis"
    r"|inner_?monologue|monologue|antthinking|deliberation|planning)"
)
THOUGHTS = (
    ThoughtFamily("tags, with a prefix or not (<think>, <seed:think>, <analysis>)", rf"<{_TAG}\s*>", rf"</{_TAG}\s*>"),
    ThoughtFamily("triangles (◁think▷)", r"◁think▷", r"◁/think▷"),
    ThoughtFamily("brackets ([THINK])", r"\[THINK\]", r"\[/THINK\]"),
    ThoughtFamily("tokens (<|begin_of_thought|>)", r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    ThoughtFamily("tokens in capitals (<|START_THINKING|>)", r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    ThoughtFamily("bars (<|thinking|>)", r"<\|think(?:ing)?\|>", r"<\|/think(?:ing)?\|>"),
    ThoughtFamily(
        "channels (harmony)",
        r"<\|channel\|>(?:analysis|commentary)[^<]{0,60}<\|message\|>",
        r"<\|channel\|>final[^<]{0,60}<\|message\|>",
    ),
    ThoughtFamily("channels whose tokens were lost", r"\Aanalysis(?=[A-Z])", r"assistantfinal"),
    ThoughtFamily("announced", r"\AHere is my thought process:", r"Here is my response:"),
)  # fmt: skip
"""The families of thoughts that are known; one more is one line here."""

_THOUGHT = re.compile(
    "|".join(f"(?P<o{n}>{one.opens})|(?P<c{n}>{one.closes})" for n, one in enumerate(THOUGHTS)), re.IGNORECASE
)
# Tokens around an answer that say nothing themselves. The end of a message also ends a channel of thoughts.
_MESSAGE_END = "<|end|>"
_TOKEN = re.compile(
    rf"{re.escape(_MESSAGE_END)}|<\|start\|>assistant|<\|(?:channel\|>final<\|)?(?:message|return|start"
    rf"|im_end|eot_id|endoftext)\|>"
    r"|<\|(?:begin|end)_of_solution\|>|<\|(?:START|END)_RESPONSE\|>"
)
_HINTS = ("<", "◁", "THINK]", "[/think]", "analysis", "Here is my thought process")


def clean_text(text: str) -> str:
    """The text to score: lone surrogates made storable, thoughts (``<think>…</think>`` and the like) set aside.

    Every evaluator cleans an answer's text first; :func:`set_aside` says how much went. What closes a block that is not
    open ends one that the chat template opened; a block that never ends takes all the rest. A text that is JSON as it
    stands is left alone, and so is a tag inside an object: it is a part of some value.

    >>> clean_text("<think>7 or 8?</think>It is 8."), clean_text("◁think▷7?◁/think▷8")
    ('It is 8.', '8')
    """
    text = storable(text)
    if not any(hint in text for hint in _HINTS):
        return text
    tags = list(_THOUGHT.finditer(text))
    if not tags:
        return _TOKEN.sub("", text) if "<|" in text else text
    if "{" in text or text.lstrip()[:1] in ('"', "["):
        with suppress(ValueError, RecursionError):
            json.loads(text)
            return text
        tags = _outside_objects(tags, text)
    kept: list[str] = []
    position, searched, inside = 0, 0, False
    for tag in tags:
        # A channel may end without another: what follows the end of the message is no thought.
        end = text.find(_MESSAGE_END, max(position, searched), tag.start()) if inside else -1
        searched = tag.start()
        if end >= 0:
            position, inside = end + len(_MESSAGE_END), False
        if (tag.lastgroup or "o").startswith("c"):
            if not inside:
                kept.clear()
            position, inside = tag.end(), False
        elif not inside:
            kept.append(text[position : tag.start()])
            position, inside = tag.end(), True
    if not inside:
        kept.append(text[position:])
    cleaned = "".join(kept)
    return (_TOKEN.sub("", cleaned) if "<|" in cleaned else cleaned).strip()


def _outside_objects(tags: list[re.Match[str]], text: str) -> list[re.Match[str]]:
    """Those of the tags that stand in no object."""
    objects = sorted(span for span in object_spans(text) if _is_object(text[slice(*span)]))
    starts = [start for start, _ in objects]

    def is_outside(tag: re.Match[str]) -> bool:
        before = bisect(starts, tag.start()) - 1
        return before < 0 or objects[before][1] <= tag.start()

    return list(filter(is_outside, tags))


def _is_object(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def set_aside(text: str) -> int:
    """How many characters of an answer :func:`clean_text` sets aside.

    >>> set_aside("<think>7?</think>8"), set_aside("8")
    (17, 0)
    """
    if not any(hint in text for hint in _HINTS):
        return 0
    return len(storable(text)) - len(clean_text(text))


def without_reasoning_tags(text: str) -> str:
    """The whole text with the tags of thoughts blanked: what a lenient reader still sees.

    >>> without_reasoning_tags("<think>It is 8.</think>")
    ' It is 8. '
    """
    return _TOKEN.sub(" ", _THOUGHT.sub(" ", text))
