"""The arms of the designs ``order`` and ``repeat``: the whole prompt with one block elsewhere, or said twice.

Every arm shows all blocks. ``order`` takes one block out and puts it before the examples, before the question, behind
it or into the system's message; ``repeat`` says one block, or the whole prompt, twice. Shams have the length of what
they stand for: the moved block as filler at its new place, filler of the block's length behind it, and filler of the
whole prompt's length, item included, before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from pcsuite.ablation.arms import AGAIN, FULL, SHAM_PREFIX, AddedPiece, Design, PromptArm
from pcsuite.config.operator_definitions import Place
from pcsuite.errors import ConfigError
from pcsuite.prompts.blocks import HOLDS_INPUT, PromptBlock, SplitPrompt
from pcsuite.prompts.tools import DESCRIPTION
from pcsuite.prompts.verbatim import chat_piece, decode_chat

WHOLE = "prompt"
TWICE = ".x2"
MOVES: Mapping[Place, str] = {
    "before_examples": "before the examples",
    "before_question": "before the question",
    "after_question": "behind the question",
    "system": "in the system's message",
}
"""Places that a block can be moved to, in words."""
_HEAD = re.compile(r"\x1e(\d+):(\w+)\n")
_CHANGE = re.compile(r"@|\.x2$|\.again$")
_EXAMPLES = re.compile(r"(?:few_?shot|examples?|demonstrations?|solved)(?:_|\d|$)")
Neighbour = PromptBlock | None


def changed_design(prompt: SplitPrompt, name: str, places: Sequence[Place], *, with_controls: bool) -> Design:
    """The arms of a design that moves (``order``) or repeats (``repeat``) the blocks of a prompt.

    ``places`` are those that are asked for, by default all that the prompt has. Raises ``ConfigError`` of one line for
    a place that it does not have, and where nothing can be moved or repeated.
    """
    everything = frozenset(block.name for block in prompt.free)
    full = PromptArm(FULL, everything, "full")
    controls = [PromptArm(AGAIN, everything, "again")] if with_controls else []
    if name == "order":
        arms, why = _moves(prompt, places, everything)
    else:
        arms, why = _repeats(prompt, everything)
    shams = _shams(prompt, arms, everything) if with_controls else []
    return Design(name, (full, *arms, *controls, *shams), why)


def sham_of(arm: str) -> str:
    """Id of the sham of an arm, or of a block where it stands.

    >>> sham_of("rules@system"), sham_of("rules")
    ('~rules@system', '~rules')
    """
    return f"~{arm}"


def plain_block(name: str) -> str:
    """The block that the name of an arm's piece is about.

    >>> [plain_block(name) for name in ("rules@system", "~rules.x2", "SHAM_rules", "rules")]
    ['rules', 'rules', 'rules', 'rules']
    """
    return _CHANGE.split(name.removeprefix(SHAM_PREFIX).removeprefix("~"))[0]


# Moved.


def _moves(
    prompt: SplitPrompt, asked: Sequence[Place], everything: frozenset[str]
) -> tuple[list[PromptArm], str]:
    missing = {place: reason for place in MOVES if (reason := _no_place(prompt, place))}
    for place in asked:
        if place in missing:
            raise ConfigError(f"--at {place}: {missing[place]}", hint=f"it has {_listed(prompt)}")
    arms = []
    for block in filter(_is_one_piece, prompt.free):
        for place in asked or [place for place in MOVES if place not in missing]:
            moved = _moved(prompt, block, place)
            if moved is not None:
                arms.append(PromptArm(f"{block.name}@{place}", everything, "changed", sequence=moved))
    if not arms:
        raise ConfigError(
            "no block of the prompt can be moved: each is several messages, a tool's description or stands there",
            hint="part the prompt with blank lines or with marks such as <!-- block: name -->",
        )
    why = f"order: {len(arms)} prompts with one block elsewhere ({', '.join(dict.fromkeys(_place(a) for a in arms))})"
    return arms, why + "".join(f"; none {MOVES[place]}: {reason}" for place, reason in missing.items())


def _place(arm: PromptArm) -> str:
    return MOVES[arm.id.rpartition("@")[2]]  # type: ignore[index]


def _listed(prompt: SplitPrompt) -> str:
    return ", ".join(place for place in MOVES if not _no_place(prompt, place)) or "none"


def _no_place(prompt: SplitPrompt, place: Place) -> str:
    """Why a prompt has no such place; empty where it has."""
    blocks = _shown(prompt)
    if place == "before_examples":
        examples = [index for index, block in enumerate(blocks) if _is_example(block)]
        if not examples:
            return "the prompt shows no examples"
        if prompt.is_chat and examples[0] == 0:
            return "nothing stands before its examples"
    elif place in ("before_question", "after_question") and not any(map(_is_question, blocks)):
        return "no block of the prompt holds the item"
    elif place == "system" and any(block.kind == DESCRIPTION for block in blocks) and not prompt.is_chat:
        return "the prompt is a list of tools"
    return ""


def _moved(prompt: SplitPrompt, block: PromptBlock, place: Place) -> tuple[str | AddedPiece, ...] | None:
    """The pieces of the prompt with a block elsewhere; ``None`` where it stands there already."""
    before = _shown(prompt)
    others = [other for other in before if other is not block]
    index, neighbour, role = _target(prompt, others, place)
    if place == "before_examples" and _is_example(block):
        return None
    if role is None and [*others[:index], block, *others[index:]] == before:
        return None
    if (
        role is not None and not prompt.is_chat
    ):  # the only piece with a role, so that the prompt becomes a chat
        text = _content(block).strip("\r\n")
        return (_piece(f"{block.name}@{place}", text, block, role=role), *(other.name for other in others))
    if role is not None:
        text = chat_piece(0, role, _content(block).strip("\r\n"))
        text = text.replace("\x1e0:", f"\x1e{len(prompt.source.texts) + 1}:", 1)
    else:
        text = _set_in(block, others, index, neighbour)
    moved = _piece(f"{block.name}@{place}", text, block)
    names = [other.name for other in others]
    return (*names[:index], moved, *names[index:])


def _target(
    prompt: SplitPrompt, others: Sequence[PromptBlock], place: Place
) -> tuple[int, Neighbour, str | None]:
    """Before which of the other blocks a block goes, whose message it joins, and the role of one that is new."""
    questions = [index for index, other in enumerate(others) if _is_question(other)]
    if place == "before_examples":
        index = next((index for index, other in enumerate(others) if _is_example(other)), questions[0])
        own_turn = prompt.is_chat and len(_HEAD.findall(others[index].text)) > 1
        return index, others[max(index - 1, 0)] if own_turn else others[index], None
    if place == "before_question":
        return questions[0], others[questions[0]], None
    if place == "after_question":
        return questions[-1] + 1, others[questions[-1]], None
    systems = [index for index, other in enumerate(others) if _role(other) in ("system", "developer")]
    if systems:
        return systems[-1] + 1, others[systems[-1]], None
    return 0, None, "system"


def _set_in(block: PromptBlock, others: Sequence[PromptBlock], index: int, neighbour: Neighbour) -> str:
    """The text of a block where it goes: parted by a blank line from what stands around it in the same message."""
    end = "\r\n" if any("\r\n" in other.text for other in others) else "\n"
    before = others[index - 1] if index else None
    after = others[index] if index < len(others) else None
    if neighbour is not None and _heads(neighbour):
        head = _heads(neighbour)[-1 if neighbour is before else 0]
        before = before if before is not None and _heads(before)[-1:] == [head] else None
        after = after if after is not None and _heads(after)[:1] == [head] else None
    text = _content(block).strip("\r\n")
    shown = (_gap(_content(before), end) if before is not None else "") + text + (end * 2 if after else "")
    if neighbour is None or not _heads(neighbour):
        return shown
    return chat_piece(int(head[0]), head[1], shown)


def _gap(before: str, end: str) -> str:
    """Line ends that make a blank line after a text."""
    ends = len(re.search(r"(?:\r\n|\n|\r)*\Z", before)[0].replace("\r\n", "\n"))  # type: ignore[index]
    return end * max(0, 2 - ends)


# Repeated.


def _repeats(prompt: SplitPrompt, everything: frozenset[str]) -> tuple[list[PromptArm], str]:
    arms = [
        PromptArm(f"{block.name}{TWICE}", everything, "changed", sequence=_doubled(prompt, block, _content))
        for block in prompt.free
        if _is_one_piece(block)
    ]
    whole = (
        [] if any(block.kind == DESCRIPTION for block in prompt.blocks) else [_whole(prompt, filler=False)]
    )
    arms += [PromptArm(f"{WHOLE}{TWICE}", everything, "changed", sequence=one) for one in whole]
    if not arms:
        raise ConfigError("nothing of the prompt can be repeated: tools are described once each")
    which = (
        "the whole prompt twice" if whole else "tools are described once each, so the whole is not repeated"
    )
    return arms, f"repeat: {len(arms) - len(whole)} prompts with one block twice; {which}"


def _doubled(
    prompt: SplitPrompt, block: PromptBlock, content: Callable[[PromptBlock], str]
) -> tuple[str | AddedPiece, ...]:
    """The prompt with a block followed by itself, or by what ``content`` makes of it."""
    text = _content(block)
    end = "\r\n" if "\r\n" in text else "\n"
    last = _shown(prompt)[-1] is block
    copy = _gap(text, end) + (content(block).strip("\r\n") if last else content(block).lstrip("\r\n"))
    heads = _heads(block)
    copy = chat_piece(int(heads[0][0]), heads[0][1], copy) if heads else copy
    mark = "" if content is _content else "~"
    pieces: list[str | AddedPiece] = []
    for other in _shown(prompt):
        pieces.append(other.name)
        if other is block:
            pieces.append(_piece(f"{mark}{block.name}{TWICE}", copy, block))
    return tuple(pieces)


def _whole(prompt: SplitPrompt, *, filler: bool) -> tuple[str | AddedPiece, ...]:
    """The prompt after a copy of itself, or after filler of its length; of a chat its last message."""
    blocks = _shown(prompt)
    section, start = blocks, 0
    if prompt.is_chat:
        last = _heads(blocks[-1])[-1]
        section = [block for block in blocks if _heads(block)[-1:] == [last]]
        start = blocks.index(section[0])
    end = "\r\n" if any("\r\n" in block.text for block in section) else "\n"
    mark = "~" if filler else ""
    copies = []
    for block in section:
        text = _content(block) + (_gap(_content(block), end) if block is section[-1] else "")
        heads = _heads(block)
        text = chat_piece(int(heads[-1][0]), heads[-1][1], text) if heads else text
        copies.append(_piece(f"{mark}{block.name}.again", text, block, filler=filler))
    names = [block.name for block in blocks]
    return (*names[:start], *copies, *names[start:])


# Shams.


def _shams(prompt: SplitPrompt, arms: Sequence[PromptArm], everything: frozenset[str]) -> list[PromptArm]:
    """A sham of every arm, and of a moved block also one where it stood."""
    shams: list[PromptArm] = []
    for arm in arms:
        name = plain_block(arm.id)
        block = next((block for block in prompt.free if block.name == name), None)
        if block is None:
            sequence = _whole(prompt, filler=True)
        elif arm.id.endswith(TWICE):
            sequence = _doubled(prompt, block, lambda one: _without_heads(one.sham))
        else:
            sequence = tuple(
                piece
                if isinstance(piece, str)
                else _piece(f"~{piece.name}", piece.text, block, role=piece.role, filler=True)
                for piece in arm.sequence
            )
            at_home = tuple(
                other.name if other is not block else SHAM_PREFIX + other.name for other in _shown(prompt)
            )
            shams.append(PromptArm(sham_of(name), everything - {name}, "sham", name, at_home))
        shams.append(PromptArm(sham_of(arm.id), everything, "sham", name, sequence))
    return list({arm.id: arm for arm in shams}.values())


# Blocks.


def _shown(prompt: SplitPrompt) -> list[PromptBlock]:
    """Blocks that a model gets."""
    return [block for block in prompt.blocks if block.text]


def _is_one_piece(block: PromptBlock) -> bool:
    """Whether a block is a stretch of one message that can stand elsewhere."""
    return bool(block.text) and block.kind != DESCRIPTION and len(_heads(block)) < 2


def _is_example(block: PromptBlock) -> bool:
    return block.kind == "example" or (not _is_question(block) and bool(_EXAMPLES.match(block.name)))


def _is_question(block: PromptBlock) -> bool:
    return block.pinned == HOLDS_INPUT


def _heads(block: PromptBlock) -> list[tuple[str, str]]:
    """Number and role of the messages that a block is of; none where the prompt is one text."""
    return _HEAD.findall(block.text)


def _role(block: PromptBlock) -> str:
    heads = _heads(block)
    return heads[-1][1] if heads else ""


def _content(block: PromptBlock) -> str:
    """What a block says, without the marks of its messages."""
    return _without_heads(block.text)


def _without_heads(text: str) -> str:
    messages = decode_chat(text)
    return text if messages is None else "".join(message["content"] for message in messages)


def _piece(
    name: str, text: str, block: PromptBlock, *, role: str | None = None, filler: bool = False
) -> AddedPiece:
    return AddedPiece(name, text, role, filler, block.jinja)
