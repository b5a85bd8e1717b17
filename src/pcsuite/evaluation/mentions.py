"""Which label, choice, yes or no an answer in words claims.

Here values are found in a text; :mod:`~pcsuite.evaluation.marks` says how much each mention weighs and
:mod:`~pcsuite.evaluation.claims` which of them stand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from pcsuite.evaluation.abstention import text_abstains
from pcsuite.evaluation.claims import (
    AMBIGUOUS,
    ASIDE,
    MARKED,
    PLAIN,
    POINTED,
    Conclusion,
    Mention,
    Statement,
)
from pcsuite.evaluation.marks import BOLD, marks_of, weighed

_LONGEST = 4_000
_SHORT_TEXT = 400
_END_OF_TEXT = 300
_MOST_MENTIONS = 60
_ANY_CASE = 60
_FEW_WORDS = 4


def claimed_label(
    text: str,
    spellings: Mapping[str, str],
    fields: tuple[str, ...] = (),
    *,
    any_case: bool | None = None,
    verbs: bool = False,
) -> Conclusion:
    """The one label that a text claims; blanks, slashes and underscores within a label do not count.

    ``spellings`` map what a label may be called to the label, ``fields`` are names that a line may give its value by.
    In a text of more than 60 characters (or where ``any_case`` is false) capitals of a spelling must be capitals: "all
    over the world" does not name World. A word in lower case counts in a short text or where something points at it,
    and everywhere where the spellings are ``verbs`` that say nothing else ("the page supports the claim").

    >>> desks = {"Sports": "Sports", "Sci/Tech": "Sci/Tech"}
    >>> claimed_label("Rather sci_tech than Sports.", desks), claimed_label("Anything but Sports.", desks)
    ('Sci/Tech', None)
    """
    if not spellings:
        return None
    text = text[-_LONGEST:]
    loose = len(text) <= _ANY_CASE if any_case is None else any_case
    few_words = len(text.split()) <= _FEW_WORDS
    lookup = {_letters(name): (name, label) for name, label in spellings.items()}
    mentions = []
    for match in _spelling_pattern(tuple(spellings)).finditer(text):
        spelling, label = lookup.get(_letters(match[0]), (None, ""))
        # The dotless i of Turkish matches an i without folding to one.
        if spelling is None or not (loose or keeps_capitals(match[0], spelling)):
            continue
        counts = few_words or verbs or match[0][:1].isupper() or not match[0].islower()
        mentions.append(Mention(label, match.start(), match.end(), PLAIN if counts else ASIDE))
    return _settled(text, _without_lists(mentions, text), fields)


def _settled(
    text: str, mentions: Sequence[Mention], fields: tuple[str, ...], *, closed: bool = True
) -> Conclusion:
    """What stands among the mentions; of a long text those at its two ends and those that are marked."""
    if not mentions:
        return None
    weights = weighed(text, mentions, fields)
    if len(text) > _SHORT_TEXT:
        first_line = len(text) - len(text.lstrip()) + len(text.lstrip().partition("\n")[0])
        weights = [
            mention
            for mention in weights
            if mention.weight > POINTED
            or mention.start >= len(text) - _END_OF_TEXT
            or (mention.end <= first_line and mention.weight == POINTED)
        ]
    return Statement(text).settle(weights[-_MOST_MENTIONS:], closed=closed)


def _without_lists(mentions: list[Mention], text: str) -> list[Mention]:
    """The mentions less those of a list of three and more, the prompt repeated; all where there is nothing else."""
    listed: set[Mention] = set()
    run: list[Mention] = []
    for mention in mentions:
        joined = run and re.fullmatch(
            r"[\s\"'*`]*(?:,|/|\||or|and|,\s?or|,\s?and|;)[\s\"'*`]*", text[run[-1].end : mention.start]
        )
        run = [*run, mention] if joined else [mention]
        if len({one.value for one in run}) > 2:
            listed.update(run)
    rest = [mention for mention in mentions if mention not in listed]
    return rest or mentions


@lru_cache(maxsize=256)
def _spelling_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the names, longest first, as whole words; between their words any sign, or none."""
    forms = []
    for name in sorted(names, key=len, reverse=True):
        words = re.findall(r"[^\W_]+", name)
        forms.append(r"[\W_]{0,3}".join(map(re.escape, words)) if words else re.escape(name))
    return re.compile(rf"(?<![\w/-])(?:{'|'.join(forms)})(?![\w/-])", re.IGNORECASE)


def _letters(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold() or name


def keeps_capitals(mention: str, spelling: str) -> bool:
    """Whether what is a capital in the spelling is one in the mention; others may be.

    >>> keeps_capitals("world", "World"), keeps_capitals("POSITIVE", "positive")
    (False, True)
    """
    written = [letter for letter in mention if letter.isalnum()]
    expected = [letter for letter in spelling if letter.isalnum()]
    if len(written) != len(expected):
        return mention == spelling
    return all(one.isupper() for one, other in zip(written, expected, strict=True) if other.isupper())


YES_NO_WORDS = {
    "English": ("yes|yep|yeah|yup|true|affirmative", "no|nope|nah|false"),
    "German": ("ja|jawohl|doch|richtig", "nein"),
    "French": ("oui|vrai", "non|faux"),
    "Spanish": ("sí|si|verdadero|cierto", "no|falso"),
    "Portuguese": ("sim|verdadeiro", "não|nao"),
    "Italian": ("sì|si|vero", "no|falso"),
    "Dutch": ("ja", "nee|neen"),
    "Scandinavian": ("ja|jo", "nej|nei"),
    "Finnish": ("kyllä", "ei"),
    "Hungarian": ("igen", "nem"),
    "Polish": ("tak|prawda", "nie|fałsz"),
    "Czech and Slovak": ("ano|áno", "ne|nie"),
    "Romanian": ("da", "nu"),
    "Russian and Bulgarian": ("да|верно|правда", "нет|не|неверно"),
    "Ukrainian": ("так", "ні"),
    "Greek": ("ναι", "όχι|οχι"),
    "Turkish": ("evet|doğru", "hayır|yanlış"),
    "Arabic": ("نعم|أجل|صحيح", "لا|كلا|خطأ"),
    "Persian and Urdu": ("بله|بلی|ہاں|جی ہاں", "خیر|نه|نہیں|جی نہیں"),
    "Hebrew": ("כן", "לא"),
    "Hindi": ("हाँ|हां|जी हाँ|सही", "नहीं|जी नहीं|गलत"),
    "Bengali": ("হ্যাঁ|হাঁ", "না"),
    "Tamil": ("ஆம்", "இல்லை"),
    "Chinese": ("是的|是|对的|对|對|正确|可以|能|会", "不是的|不是|不对|否|不|没有|错误|不可以|不能|不会"),
    "Japanese": ("はい|ええ|そうです|可能です", "いいえ|いや|違います|不可能です"),
    "Korean": ("네|예|그렇습니다|맞습니다", "아니요|아니오|아뇨|아닙니다"),
    "Vietnamese": ("có|đúng|vâng", "không|sai"),
    "Indonesian and Malay": ("ya|benar|betul", "tidak|bukan"),
    "Thai": ("ใช่|จริง", "ไม่ใช่|ไม่|เท็จ"),
    "Swahili": ("ndiyo|ndio", "hapana|la"),
}
"""The words for yes and for no in the larger languages; those other than English count at the head of a sentence."""

_SETS_OFF = r"(?=\W*$|\s*[,.!;:*)\]}\"'”’»\n—–。，、！；،।]|\s*-(?!\w)"
# What may stand before a first word is taken whole or not at all: of a long run of line breaks each part would be tried
# with each word, which takes minutes.
_RUN = r"[\s*_\"'“‘`>#|({\[-]"
_HEAD = (
    rf"(?:^|[.!?;:。！？—–]|\n(?!{_RUN}*\n)){_RUN}*(?!{_RUN})"
    r"(?:(?:so|thus|therefore|hence|well|overall|in short|also|donc|alors)\b,?\s*)?"
)
_LIKELY = (
    r"(?:(?:most |very |quite |almost )?(?:likely|probably|certainly|definitely|surely|clearly|i(?:['’]d"
    r"| would)? say|i think|i believe|my answer is"
    r"|it is|it['’]s)[,:]? )?"
)


def _words(index: int, *, english: bool) -> str:
    columns = [words[index] for name, words in YES_NO_WORDS.items() if (name == "English") == english]
    return "|".join(sorted(set("|".join(columns).split("|")), key=lambda word: (-len(word), word)))


_YES_NO_HEAD = re.compile(
    rf"{_HEAD}{_LIKELY}(?:\b(?P<yes>{_words(0, english=True)})\b"
    rf"|\b(?P<no>{_words(1, english=True)})\b)(?!\s*(?:/|or\b))"
    rf"{_SETS_OFF}|\s+(?:it|they|he|she|the|this|that|there|these|those|because|since|as|you|we|i|not|a|an"
    rf"|in|by|according|based|for|and)\b)",
    re.IGNORECASE,
)
_FOREIGN_HEAD = re.compile(
    rf"(?:{_HEAD}|\b(?:lautet|ist|est|es|è|é|jest)\s+|[是为は]\s?)(?:(?P<yes>{_words(0, english=False)})"
    rf"|(?P<no>{_words(1, english=False)})){_SETS_OFF})",
    re.IGNORECASE,
)
_AFFIRMS = re.compile(
    rf"{_HEAD}(?:(?P<no>(?:absolutely|definitely|certainly|of course|surely|probably|most likely|likely"
    rf"|almost certainly|clearly) not|not at all|not really"
    r"|(?:that(?:['’]s| is) |it(?:['’]s| is) )?(?:not (?:true|correct|the case)|untrue|incorrect)|negative"
    r"|by no means|under no circumstances)"
    r"|(?P<yes>(?:absolutely|definitely|certainly|of course|indeed|without (?:a )?doubt|undoubtedly|surely"
    r"|(?:that(?:['’]s| is) )?(?:correct|right))))"
    rf"{_SETS_OFF}|\s+(?:it|they|he|she|the|this|that|you|we|a|an)\b)",
    re.IGNORECASE,
)
_PREDICATE = re.compile(
    r"\b(?:statement|claim|it|this|that|assertion|proposition|premise)(?:['’]s| is| seems"
    r"| would be) (?:indeed |certainly |actually |probably |most likely |likely )?"
    r"(?:(?P<yes>true)|(?P<no>false|untrue|not true))\b(?! (?:story|love|friend|to)\b)",
    re.IGNORECASE,
)
# Anywhere in a text: "yes" always names the answer, "no", "true" and "false" at the end of a clause or of a pair;
# "no limit" and "a true story" do not.
_YES_NO_WORD = re.compile(
    r"(?<![\w-])(?:(?P<yes>yes)(?![\w-])|(?P<no>no)(?=\s*(?:$"
    r"|[,.!?;:/|*)}\"'”’\n—–✓✔✅✗❌]|-\s|(?:or|and|but|in|for)\b))"
    r"|(?P<true>true)(?=\s*(?:$"
    r"|[,.!?;:/|*)}\"'”’\n—–]))|(?P<false>false)(?=\s*(?:$|[,.!?;:/|*)}\"'”’\n—–])))",
    re.IGNORECASE,
)
_YES_NO_FORM = re.compile(
    r"[(\[]?[\"'*]{0,2}\b(?:yes|true)\b[\"'*]{0,2}\s?(?:/|\||or)\s?[\"'*]{0,2}(?:no"
    r"|false)\b[\"'*]{0,2}[)\]]?",
    re.IGNORECASE,
)
_NO_IDIOM = re.compile(r"no,? (?:doubt|one|question|matter|wonder|problem|idea|way to)\b", re.IGNORECASE)


def claimed_yes_or_no(text: str, fields: tuple[str, ...] = ()) -> Conclusion:
    """``"yes"`` or ``"no"`` where the text claims one of them, in whatever larger language, and not the other.

    A sentence may open with the word, end on it, or be marked as the answer; true and false name them too. What is
    denied ("that is not true"), a repeated form ("Yes or No?") and other uses ("no limit") name nothing.

    >>> claimed_yes_or_no("Yes, birds have wings."), claimed_yes_or_no("No one knows."), claimed_yes_or_no("Ja.")
    ('yes', None, 'yes')
    >>> claimed_yes_or_no("The answer (Yes or No) is No."), claimed_yes_or_no("Yes, but also no.") is AMBIGUOUS
    ('no', True)
    """
    text = _YES_NO_FORM.sub(lambda form: "␣" * len(form[0]), text[:_LONGEST])
    if "␣" in text and not text.strip("␣ .!?\n"):
        return AMBIGUOUS
    at: dict[int, Mention] = {}
    patterns = [_YES_NO_HEAD, _FOREIGN_HEAD, _AFFIRMS, _PREDICATE, _YES_NO_WORD]
    for pattern in patterns:
        for match in pattern.finditer(text):
            group = match.lastgroup or "yes"
            start, end = match.span(group)
            if group == "no" and _NO_IDIOM.match(text, start):
                continue
            value = "yes" if group in ("yes", "true") else "no"
            if not any(one.start < end and start < one.end for one in at.values()):
                at[start] = Mention(value, start, end)
    mentions = [
        mention._replace(weight=max(mention.weight, POINTED))
        for mention in weighed(text, [at[k] for k in sorted(at)], fields)
    ]
    return Statement(text).settle(mentions[:_MOST_MENTIONS])


_LETTER = re.compile(r"(?<![A-Za-zÀ-ɏ0-9_'’])([A-Z])(?![A-Za-zÀ-ɏ0-9_'’])|\(([a-z])\)")
_BARE_LETTER = re.compile(r"[\s*_\"'`(]*([a-z])[)*_\"'`]*[.)]?\s*(?=$|\n)")
_ARTICLE = re.compile(
    r"A\s+(?!is\b|and\b|or\b|because\b|since\b|as\b|rather\b|was\b|would\b|seems\b|but\b|by\b|over\b"
    r"|instead\b|fits\b)[a-z]|I\s"
)
_LETTER_CUE = re.compile(
    r"(?:\b(?:option|choice|answer|letter|likely|probably|choose|pick|select|is|would be|be|than|of|except"
    r"|but|not|and|or|rather|both|either|neither|nor)|[:(,|]|^)[ :*\"'({]{0,4}$",
    re.IGNORECASE,
)
_LETTER_ENDS = re.compile(r"[\s\"'*`)}\]$.!]*(?:$|\n)")
_LETTER_OPENS = re.compile(r"(?:^|[.!?:;\n|])[\s*_\"'`>#(|$\[-]*$")
_LETTER_SET_OFF = re.compile(
    r"[\"'*`)\]]{0,4}\s?(?:[.,;:)/|—–-]|is\b|and\b|or\b|because\b|since\b|as\b|fits\b)|\s*$"
)


def claimed_choice(text: str, choices: Mapping[str, str], fields: tuple[str, ...] = ()) -> Conclusion:
    """The letter of the option that a text claims, by its letter, its text or both.

    A letter counts where words point at it ("most likely D"), at the head or the end of a sentence; "A" as an article
    does not. A letter with another option's text, and two options, are :data:`AMBIGUOUS`; options that are listed as
    the prompt lists them are none.

    >>> options = {"A": "river bank", "D": "beach"}
    >>> claimed_choice("D, beach", options), claimed_choice("most likely D", options)
    ('D', 'D')
    >>> claimed_choice("D. river bank", options) is AMBIGUOUS
    True
    """
    text = text[-_LONGEST:]
    letters = {letter.upper(): letter for letter in choices}
    mentions: list[Mention] = []
    texts = {option: letter for letter, option in choices.items() if re.search(r"\w", option)}
    if texts:
        lookup = {_letters(option): letter for option, letter in texts.items()}
        for match in _spelling_pattern(tuple(texts)).finditer(text):
            letter = lookup.get(_letters(match[0]))
            if letter is not None:
                mentions.append(Mention(letter, match.start(), match.end()))
    inside = [(mention.start, mention.end) for mention in mentions]
    for mark in marks_of(text, fields):
        bare = _BARE_LETTER.match(text, mark.start, mark.end)
        if bare is not None and bare[1].upper() in letters:  # "Answer: b"
            mentions.append(Mention(letters[bare[1].upper()], bare.start(1), bare.end(1)))
            inside.append(bare.span(1))
    for match in _LETTER.finditer(text):
        letter = letters.get((match[1] or match[2]).upper())
        if letter is None or any(start <= match.start() < end for start, end in inside):
            continue
        mention = _letter_mention(text, match, letter)
        if mention is not None:
            mentions.append(mention)
    mentions.sort(key=lambda mention: mention.start)
    return _settled(text, _without_options(mentions, text), fields)


def _letter_mention(text: str, match: re.Match[str], letter: str) -> Mention | None:
    """A letter that stands for its option; one that something else is named by ("Plan B") is said by the way."""
    start, end = match.span(1 if match[1] else 2)
    before = text[max(0, start - 40) : start]
    opens = _LETTER_OPENS.search(before) is not None and _LETTER_SET_OFF.match(text, end) is not None
    points = _LETTER_CUE.search(before) is not None
    if _ARTICLE.match(text, start) and not (points and match[1] == "I"):
        return None
    ends = _LETTER_ENDS.match(text, end) is not None
    if match[1] == "A" and not (opens or points or ends or _LETTER_SET_OFF.match(text, end)):
        return None
    named = re.search(
        r"\b(?:plan|vitamin|type|class|grade|section|hepatitis|team|group|appendix|side|model|schedule) $",
        before,
        re.IGNORECASE,
    )
    counts = (opens or points or ends or match[2] is not None) and not named
    return Mention(letter, start, end, PLAIN if counts else ASIDE)


def _without_options(mentions: list[Mention], text: str) -> list[Mention]:
    """The mentions less the options as the prompt lists them: three and more letters, each with its own text."""
    pairs = [
        (left, right)
        for left, right in pairwise(mentions)
        if left.value == right.value
        and left.end - left.start == 1
        and re.fullmatch(r"[.:)]\s{1,3}", text[left.end : right.start])
    ]
    if len({left.value for left, _ in pairs}) < 3:
        return mentions
    listed = {mention for pair in pairs for mention in pair}
    return [mention for mention in mentions if mention not in listed]


_REFERENCE, _RIVAL = "reference", "rival"
_RELATED = re.compile(
    r"\b(?:near|(?:inspired|influenced|admired|taught) by|based on|close to|(?:not )?far from|next to"
    r"|outside|beside|after|before|(?:west|east|north|south"
    r"|rival|son|daughter|brother|sister|wife|husband|friend"
    r"|student|pupil|teacher|successor|predecessor|neighbou?r|suburb|namesake|contemporary|disciple"
    r"|assistant|colleague|mother|father|miles|km|kilomet\w+)"
    r" (?:of|to|from))(?: the| a| old)? [\"'*]{0,3}$",
    re.IGNORECASE,
)
_OR_BEFORE = re.compile(
    r"\b(?:or|und/oder|oder|ou)(?: the| a| maybe| perhaps| possibly)? [\"'*(]{0,3}$", re.IGNORECASE
)
_OR_AFTER = re.compile(r"[\"'*)]{0,3}[,;]?\s?(?:[–—-]\s?)?(?:or|oder|ou)\b", re.IGNORECASE)
# "Armstrong and Aldrin" names two; "Armstrong, and he …" one.
_AND_BEFORE = re.compile(r"\b[A-Z][\w'’]*,? (?:and|&) $")
_AND_AFTER = re.compile(r",? (?:and|&) [A-Z][a-z]")
_BOUND_AFTER = re.compile(
    r" (?:at the (?:latest|earliest|most|least)|or (?:earlier|later|before|after))\b", re.IGNORECASE
)
_APPOSITION = re.compile(
    r"\W*(?:[A-Z][\w'’.-]*[ ]?){1,4},\s(?:a|an|the|who|which|near|not far|close|born|student|once)\b"
)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s")
_FAINTLY_BACK = re.compile(
    r"\b(?:no,? )?wait\b|\bsorry\b|\bhmm+\b|\bno,|\bactually,? (?:it|that|the|no)\b|\bi meant\b"
    r"|\bon (?:second thought|reflection)\b|\bor rather\b|\bcorrection\b|\brather,",
    re.IGNORECASE,
)


def claims_reference(text: str, references: Sequence[str], fields: tuple[str, ...] = ()) -> bool | None:
    """Whether a text claims one of an open question's references as its answer; ``None`` where that is unsure.

    The reference must stand there in whole words, and not as what is denied, doubted, hearsay, one of several, taken
    back, or a part of the description of another answer ("Bergen, a city west of Oslo").

    >>> claims_reference("It is Oslo.", ["Oslo"]), claims_reference("It isn't Oslo.", ["Oslo"])
    (True, False)
    >>> claims_reference("Oslo or Bergen", ["Oslo"]) is None
    True
    """
    text = text[:_LONGEST]
    if text_abstains(text) and not re.search(r"\b(?:but|however)\b", text):
        return None
    mentions = []
    for match in _spelling_pattern(tuple(references)).finditer(text):
        before = text[max(0, match.start() - 60) : match.start()]
        if any(pattern.search(before) for pattern in (_OR_BEFORE, _AND_BEFORE)):
            return None
        if any(pattern.match(text, match.end()) for pattern in (_OR_AFTER, _AND_AFTER, _BOUND_AFTER)):
            return None
        mentions.append(
            Mention(_REFERENCE, match.start(), match.end(), ASIDE if _RELATED.search(before) else PLAIN)
        )
    if not mentions:
        return False
    apposition = _APPOSITION.match(text)
    if apposition is not None and mentions[0].start >= apposition.end():
        mentions = [mention._replace(weight=ASIDE) for mention in mentions]
    items = [item.strip() for item in text.strip(" .\n").split(",")]
    is_list = len(items) > 2 and all(
        re.fullmatch(r"(?:and )?[A-Z0-9][^.!?:;\n]{0,40}", item) for item in items
    )
    if is_list and mentions[0].start > len(items[0]):
        return None
    for cue in _FAINTLY_BACK.finditer(text):
        rest = text[cue.end() :]
        if mentions[-1].end <= cue.start() and re.search(r"\b[A-Z0-9]\w", rest):
            return None
    conclusion = _settled(text, [*mentions, *_rivals(text, mentions, fields)], fields, closed=False)
    return None if conclusion is AMBIGUOUS else conclusion == _REFERENCE


def _rivals(text: str, mentions: Sequence[Mention], fields: tuple[str, ...]) -> list[Mention]:
    """What a text marks or sets in bold as its answer, where no reference stands in it."""
    spans = [
        (
            mark.start,
            mark.start + len(_SENTENCE_END.split(text[mark.start : mark.end], maxsplit=1)[0]),
            MARKED,
        )
        for mark in marks_of(text, fields)
        if text[mark.start : mark.end].strip()
    ]
    for match in BOLD.finditer(text):
        content = (match[1] or match[2]).strip()
        if len(content.split()) <= 6 and not content.endswith(":"):
            spans.append((match.start(), match.end(), POINTED))
    return [
        Mention(_RIVAL, start, start + 1, weight)
        for start, end, weight in spans
        if not any(start <= mention.start < end for mention in mentions)
    ]
