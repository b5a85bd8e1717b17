"""What a prompt's text is made of, judged by cues: which operators' work its words do.

A free text that an optimiser found has no operators, so its make-up is read off its words: each operator has a few
patterns that its own wordings show and that people use for the same purpose. The judgement is deterministic and
shallow. It sees that a text says what to do when unsure, not whether it says it well; other words for the same thing
can be missed. Every bundled wording of an operator is recognised, and no bare instruction is taken for one.
"""

from __future__ import annotations

import re

_CUES: dict[str, tuple[str, ...]] = {
    "ROLE": (
        r"\byou are (?:a|an|the) (?!given\b)",
        r"\bact as\b",
        r"\btake the part of\b",
        r"\byour role is\b",
        r"\bimagine (?:that )?you(?: are|'re)\b",
        r"^as an? [\w -]*(?:expert|editor|teacher|analyst|specialist|assistant)\b",
    ),
    "GOAL": (
        r"^(?:your |the )?(?:goal|aim|objective)(?: is)?\b",
        r"^the purpose of your work\b",
        r"^what you are to achieve\b",
        r"\b(?:your|the) (?:goal|aim|objective|purpose) is\b",
    ),
    "CONSTRAINTS": (
        r"^(?:follow (?:these|the) |these )?(?:rules|constraints|requirements|guidelines)\b.*:",
        r"\byou are bound by the following\b",
        r"\binvent nothing\b",
        r"\b(?:do not|don't|never) (?:invent|make up|make anything up|add information)\b",
        r"\bmake nothing up\b",
        r"\bnothing may be invented\b",
        r"\b(?:use|rely) only (?:on )?(?:what|the (?:input|text|given|information))\b",
    ),
    "ABSTAIN": (
        r"\babstain(?:ing)?\b",
        r"\brather than guess(?:ing)?\b",
        r"\binstead of guessing\b",
        r"\b(?:do not|don't|never) guess\b",
        r"\b(?:if|when) (?:you are )?(?:unsure|uncertain|not sure|in doubt)\b",
        r"\bsay (?:that )?you (?:do not|don't) know\b",
    ),
    "SCHEMA": (
        r"\bjson schema\b",
        r"^(?:output|answer|response) format\b",
        r"^how to answer\b",
        r"^form of the answer\b",
        r"\bthe answer must look like this\b",
        r'"type": ?"object"',
        r"\bformat(?:ted)? (?:of )?(?:your|the) (?:answer|output|reply|response)\b",
    ),
    "DECOMPOSE": (
        r"\b(?:work|go|proceed|think) (?:in steps|step[ -]by[ -]step)\b",
        r"\btake these steps\b",
        r"\bproceed in this order\b",
        r"\b(?:break|split) (?:it|the \w+) (?:down )?into (?:steps|parts)\b",
        r"^step 1\b",
    ),
    "REASONING_MODE": (
        r"^(?:reasoning|how to reason|thinking|on reasoning)\b.*:",
        r"\b(?:explain|show|write out|lay out) (?:your|all|the) (?:whole )?(?:reasoning|thinking|work|steps)\b",
        r"\bthink (?:in at most|carefully|it through|everything through)\b",
        r"\bwithout (?:any )?explanation\b",
    ),
    "VERIFIER": (
        r"\bbefore you (?:answer|reply)\b.*\bcheck",
        r"\bask yourself before you reply\b",
        r"\bgo through these checks\b",
        r"\bchecklist for your answer\b",
        r"\b(?:double-check|check|verify|review) (?:your|the) (?:answer|work|result|output)\b",
        r"\bif a check fails\b",
    ),
    "EXEMPLARS": (
        r"^(?:examples?|solved cases|for illustration|demonstrations?)\b.*:",
        r"^here is how it is done\b",
        r"^answer:$",
    ),
    "REACT_LOOP": (r"^action: search\[", r"\bto search, write\b"),
}  # fmt: skip
_COMPILED = {
    name: re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE) for name, patterns in _CUES.items()
}


def operator_makeup(text: str) -> tuple[str, ...]:
    """Operators whose work the text does, by its cues, in the order of the ladder."""
    return tuple(name for name, pattern in _COMPILED.items() if pattern.search(text))


def makeup_cues(text: str) -> dict[str, str]:
    """For each operator found, the words that gave it away."""
    found = {}
    for name, pattern in _COMPILED.items():
        match = pattern.search(text)
        if match is not None:
            found[name] = match.group().strip()
    return found
