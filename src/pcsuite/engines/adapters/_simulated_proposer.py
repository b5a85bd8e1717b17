"""What a simulated model writes when it is asked for an instruction: sentences that do the work of operators.

It knows a sentence for each operator and nothing of what the operators are worth. Asked without any of its sentences in
the prompt, it takes each with chance one half; asked to vary an instruction that holds some, it puts one or two
operators in or out. Of several instructions it varies the last one: lists of attempts end with the best. Asked for
anything else (optimisers want the data described, say), it writes a line that does no operator's work. A compiled text
is read by the cues of :mod:`pcsuite.prompts.makeup`, and these sentences show exactly their operator's cue, so the true
effect of whatever it writes is known.
"""

from __future__ import annotations

from random import Random

NOTHING_TO_SAY = "These are texts of one kind, and each calls for one answer."
OPENING = "Do the task for the input that follows."
SENTENCES = {
    "ROLE": "You are a specialist in this kind of task.",
    "GOAL": "The goal is an answer that is right in every detail.",
    "CONSTRAINTS": "Go by the input alone and invent nothing.",
    "ABSTAIN": "Hold back instead of guessing.",
    "SCHEMA": "Output format: exactly the form that the task asks for.",
    "DECOMPOSE": "Go step by step.",
    "REASONING_MODE": "Think carefully first.",
    "VERIFIER": "Check your answer once before you give it.",
}
"""One sentence for each operator that words alone can do."""


def propose_instruction(prompt: str, rng: Random) -> str:
    """An instruction of operator sentences."""
    request = prompt.rstrip().rpartition("\n\n")[2]
    if "instruction" not in request.casefold():
        return NOTHING_TO_SAY
    shown = prompt.rpartition(OPENING)[2]
    held = {name for name, sentence in SENTENCES.items() if sentence in shown}
    if held:
        for name in rng.sample(list(SENTENCES), 1 if rng.random() < 0.6 else 2):
            held ^= {name}
    else:
        held = {name for name in SENTENCES if rng.random() < 0.5}
    return "\n".join([OPENING, *(sentence for name, sentence in SENTENCES.items() if name in held)])
