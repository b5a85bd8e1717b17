"""What an answer claims and what it only mentions: denials, exclusions, hedges, retractions, questions, hearsay.

A reader finds where values are mentioned (labels, letters, yes and no, a reference); here it is decided which of the
mentions stand. Every pattern is linear in the length of the text: answers are whatever a model wrote.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple


class Unsure(Enum):
    """An answer that names several values, hedges, or takes back what it said: a person should look at it."""

    AMBIGUOUS = "ambiguous"


AMBIGUOUS = Unsure.AMBIGUOUS
Conclusion = str | Unsure | None
"""The value that an answer claims, :data:`AMBIGUOUS`, or ``None`` where it claims none."""

ASIDE, PLAIN, POINTED, MARKED, FINAL = range(5)
"""How much a mention weighs: said by the way, named, pointed at ("it is …", bold), marked as the answer, as final."""


class Mention(NamedTuple):
    """A value that a text names, and where."""

    value: str
    start: int
    end: int
    weight: int = PLAIN


# Entered at the head of a run of marks alone: from each of its marks it would be read to its end again.
_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’»)*_\]]*(?=\s|$)|[。！？।؟]|\n+|;(?=\s)")

_HARD = (
    r"\bscratch (?:that|this)|\bstrike that|\b(?:ignore|disregard|forget) (?:that|this|the above|my|what)"
    r"|\btake (?:that|it) back"
    r"|\b(?:that|this|it|which)(?:['’]s| is| was| can['’]t be| cannot be| isn['’]t| is not| wasn['’]t)"
    r" (?:\w+ )?(?:wrong|incorrect|not right|not correct|a mistake|an error|mistaken)\b"
    r"|\b(?:that|this) (?:can['’]t be|cannot be|isn['’]t|is not|wasn['’]t|doesn['’]t (?:look|seem)) (?:right"
    r"|correct)\b"
    r"|\bi (?:made|see|spot|found|have made) (?:a|an|my) (?:\w+ )?(?:mistake|error|slip)|\bi(?: was|['’]m"
    r"| am| got (?:it|that)) wrong\b"
    r"|\bi stand corrected|\bi (?:misread|misspoke|miscounted|miscalculated|misunderstood)|\bmy (?:mistake"
    r"|bad)\b|\b(?:w?oops)\b"
)
_SOFT = (
    r"(?<!n['’]t )(?<!not )\bwait\b(?! for| until)|\bhold on\b|\bhmm+\b|\bactually\b|\bcorrection\b"
    r"|\bcorrected\b|\bon (?:second thought|reflection)"
    r"|\bi (?:meant|revise|change my)|\bsorry\b|\blet me (?:re\w+|correct|fix|try again|start over"
    r"|think again)|\bno,? (?:it|the|that|i|wait|sorry)\b"
    r"|(?:[—–]|\.\.\.|…|,) ?no[,:]|(?<=[.!?] )no, (?=\S)|\bupdate:|\bedit:|\bupon (?:re\w+|closer)|\brather:"
    r"|\bchecking again"
    r"|\bthought about it again"
)
RETRACTION = re.compile(rf"({_HARD})|{_SOFT}", re.IGNORECASE)
"""Words that take back what was said before; the group is set where they do so even if nothing follows."""

_EXCLUDES = re.compile(
    r"\b(?:any|every|all|each|anything|everything|anyone|everyone|anybody|everybody)(?: [\w-]+){0,3} but"
    r"|\bexcept(?:ing)?\b(?: for)?"
    r"|\bother than|\bapart from|\baside from|\bexcluding|\bwith the exception of|\brather than|\binstead of"
    r"|\bas opposed to|\bunlike"
    r"|\b(?:far|away) from|\bthan\b(?: to| in| as)?|\bneither|\bnor\b|\bversus|\bvs\b|\b(?:rul(?:e|es|ed"
    r"|ing) out"
    r"|eliminat\w+|discard\w*|reject\w*|dismiss\w*)",
    re.IGNORECASE,
)
_DENIES = re.compile(
    r"\b(?:not|never|no longer|cannot|hardly|scarcely|\w+n['’]t|nicht|kein\w*|n['’]est pas|pas|fail(?:s"
    r"|ed)? to|lacks?|refuses? to"
    r"|(?:wrong|incorrect|false|a mistake|an error) to|nothing(?! but| else| other)|unlikely(?: to)?"
    r"|(?<!no )(?<!out )(?<!a )(?<!ond )doubt|no(?! doubt| question"
    r"| other| matter)(?= ))\b"
    r"(?! only| just| without)",
    re.IGNORECASE,
)
_SCOPE_END = re.compile(
    r"\b(?:but|so|because|since|however|it['’]s|therefore|hence|thus|actually|instead|sondern|mais)\b"
    r"|[:;—–!?]",
    re.IGNORECASE,
)
_LIST_WORDS = frozenset({"or", "and", "nor", "oder", "und", "ou", "et", "option", "options", "either"})
_DENIED_AFTER = re.compile(
    r"[\s\"'*`)\]]*(?:[,:(—–-]\s*)?(?:\b(?:is|are|was|would be|seems|must be|sounds)\b (?:\w+ ){0,2}?(?:wrong"
    r"|incorrect|false|out\b|a myth|unlikely|untrue|excluded"
    r"|eliminated|ruled out|not\b|never\b)|\b(?:is|are|was|does|do|did|ca|wo|would)n['’]t\b|\bdoes not\b"
    r"|\bdo not\b|\bcannot\b|\bcan be (?:ruled|eliminated|excluded)"
    r"|\bnever\b|\bno longer\b|(?:wrong|incorrect)\b|[|:(\s]*(?:✗|✘|❌|×))",
    re.IGNORECASE,
)
_REFUTED_AFTER = re.compile(
    r"[\s\"'*`)\]]*(?:\b(?:is|was|would be)(?:n['’]t| not)? (?:\w+ )?(?:wrong|incorrect|false|out\b|a myth"
    r"|ruled out|untrue)"
    r"|\b(?:is|was)(?:n['’]t| not) (?:the |an? )?(?:right|correct|it\b|true|answer|one\b)|\bnever\b"
    r"|\b(?:did|does|has|had)(?: not|n['’]t)\b"
    r"|\b(?:can['’]t|cannot) be\b)",
    re.IGNORECASE,
)
_CONFIRMED_AFTER = re.compile(
    r"[\s\"'*`)\]]*(?:\b(?:is|was|would be|seems|must be) (?:the |a )?(?:\w+ )?(?:correct|right|best|answer"
    r"|true)\b|\bfits (?:best|better)\b|[|:(\s]*(?:✓|✔|✅|☑|(?:right|correct)\b))",
    re.IGNORECASE,
)
_DOUBT = (
    r"\b(?:not|n['’]t)(?: \w+)? (?:sure|certain|know|clear)\b|\bunsure\b|\buncertain\b|\bunclear\b"
    r"|\bdon['’]t know\b|\bhard to (?:say|tell)"
    r"|\b(?:cannot|can['’]t|can not|unable to|impossible to|difficult to) (?:\w+ )?(?:tell|say|determine"
    r"|decide|know|judge|be sure)"
    r"|\bwhether\b|\bit depends|\bdepends on|\bjust guessing|\bwild guess|\bno idea\b"
)
_DOUBTED = re.compile(_DOUBT, re.IGNORECASE)
_PERHAPS = re.compile(
    r"\b(?:might|may|could)(?: \w+)? (?:be|have|also|well)\b|\bmaybe\b|\bperhaps\b|\bpossibly\b"
    r"|\bconceivably\b|\bpotentially\b"
    r"|\beither\b|\bbetween\b|\botherwise\b|\bor else\b|\bpeut-être\b|\bvielleicht\b|\bquizás?\b|\btal vez\b"
    r"|\btalvez\b|\bforse\b",
    re.IGNORECASE,
)
_PERHAPS_AFTER = re.compile(
    rf"\bmaybe\b|\bperhaps\b|\bpossibly\b|\bonly if\b|\bunless\b|\botherwise\b|\bdepend(?:s|ing)\b|, if\b|\?"
    rf"|\bis (?:also )?(?:possible|plausible|conceivable)\b"
    rf"|{_DOUBT}",
    re.IGNORECASE,
)
_DOUBT_FOLLOWS = re.compile(
    rf"\W*(?:(?:but|though|although|however),? )?(?:(?:i|that['’]s|it['’]s|this is"
    rf"|then again)\b.{{0,40}})?(?:{_DOUBT}|\bjust a guess\b)",
    re.IGNORECASE,
)
_HEARSAY = re.compile(
    r"\b(?:some|many|most (?:people|would|readers|students|of)|people|others?|they|critics|everyone|students?"
    r"|often|commonly|widely|popularly)\b(?: \w+){0,3}?"
    r" (?:say|says|said|think|thinks|thought|believe|believes|believed|argue|claim|assume|assumed|expect"
    r"|guess|suggest|answer|file|call|label|classify|put|choose|pick|go|vote|opt|consider|treat)\b"
    r"|\b(?:you|one|it is|it['’]s)(?: \w+){0,2}? (?:say|says|said|think|thinks|thought|believe|believed"
    r"|assume|assumed"
    r"|expect|guess)\b|\bi (?:was going|was about|wanted|was tempted) to\b|\bsorry (?:to hear|about|for)\b"
    r"|\bthank(?:s| you) for\b"
    r"|\bi (?:first|initially|originally|almost|at first)\b|\bi had (?:thought|said|guessed|assumed)\b"
    r"|\bat first\b|\binitially\b"
    r"|\boriginally\b|\b(?:wrongly|mistakenly|falsely|erroneously)\b|\bformerly\b|\bpreviously\b"
    r"|\bused to be\b|\bmy first (?:guess|answer|thought)"
    r"|\bthe (?:naive|tempting) ",
    re.IGNORECASE,
)
_CONCEDES = re.compile(
    r"\b(?:although|though|even though|even if|while|whereas|despite|in spite of|whatever)\b[^,]*$",
    re.IGNORECASE,
)
_CONTRAST = re.compile(
    r"\b(?:but|however|yet|instead|so|therefore|hence|thus)\b|[—–]|: |, (?=(?:it|this|that|the|i|we)\b)",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\bonly if\b|\bunless\b|\bprovided (?:that )?|\bif\b(?=.*\b(?:would|were|had|could)\b)", re.IGNORECASE
)
_WOULD_IF = re.compile(r"\bwould(?: \w+)? $", re.IGNORECASE)
REFUSAL = re.compile(
    r"\b(?:i(?:['’]m| am) (?:sorry|afraid)\b.{0,20})?\b(?:i (?:cannot|can['’]t|can not|won['’]t|will not"
    r"|must decline|decline to|do not want to)"
    r"|i(?:['’]m| am) (?:unable|not able) to|as an ai\b.{0,40}) ?(?:\w+ ){0,2}?(?:help|assist|answer|provide"
    r"|comply|discuss|categori[sz]e|classify"
    r"|determine|do|write|extract|read|solve|calculate|compute|confirm|fix|give|share|decide|choose|label"
    r"|process|handle|engage|fulfil)",
    re.IGNORECASE,
)
"""A sentence that declines to do what was asked: what it names is no answer."""
_JOINED = re.compile(
    r"[\s\"'*`)(\]\[.,/&|:=–-]{0,6}(?:(?:and/or|or even|or maybe|or perhaps|as well as|or|and|oder|und|ou|et"
    r"|y|o)\b)?"
    r"(?: (?:a|an|the|option|choice|letter|either|maybe|perhaps|possibly|also|even|in"
    r"|of))*[\s\"'*`(\[,]{0,4}",
    re.IGNORECASE,
)


class Statement:
    """A text in which values are mentioned, cut into sentences; it says which mentions stand."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _ends(self) -> list[tuple[int, int]]:
        """Where each sentence ends: before its mark, and behind it."""
        ends = [(match.start(), match.end()) for match in _SENTENCE_END.finditer(self.text)]
        return [*ends, (len(self.text), len(self.text))]

    def sentence(self, position: int) -> tuple[int, int, int]:
        """Start, end and end with its mark of the sentence around a position."""
        index = bisect(self._ends, (position, len(self.text)))
        index = min(index, len(self._ends) - 1)
        if index and self._ends[index - 1][1] > position:
            index -= 1
        start = self._ends[index - 1][1] if index else 0
        return start, *self._ends[index]

    def settle(self, mentions: Sequence[Mention], *, closed: bool = True) -> Conclusion:
        """The one value that stands among the mentions of a text.

        Mentions that are denied, excluded, hearsay or part of a refusal fall away; so do those before words that take
        them back, if another follows or the words leave no doubt. Of what stands the heaviest mentions count, and must
        be of one value: several, or none but doubtful ones, are :data:`AMBIGUOUS`. ``closed`` says that all values that
        could be named are among the mentions, so that whatever is said against one behind it ("B is not …") denies it.

        >>> text = "London rather than Paris"
        >>> Statement(text).settle([Mention("London", 0, 6), Mention("Paris", 19, 24)])
        'London'
        """
        ordered = _with_inherited(sorted(mentions, key=lambda mention: mention.start), self.text)
        standing: list[Mention] = []
        doubtful: list[Mention] = []
        spans = [(mention.start, mention.end) for mention in ordered]
        for mention in ordered:
            verdict = self._status(mention, spans, closed)
            if verdict == "stands":
                standing.append(mention)
            elif verdict == "confirmed":
                standing.append(mention._replace(weight=max(mention.weight, MARKED)))
            elif verdict == "doubtful":
                doubtful.append(mention)
        kept = self._unretracted(standing)
        if not kept:
            return AMBIGUOUS if doubtful or standing else None
        heaviest = max(mention.weight for mention in kept)
        if heaviest == ASIDE:
            return None
        values = {mention.value for mention in kept if mention.weight == heaviest}
        # "No. It could also be yes": what is granted afterwards takes the certainty away.
        granted = {mention.value for mention in doubtful if mention.start > kept[-1].end and heaviest < FINAL}
        return values.pop() if len(values | granted) == 1 else AMBIGUOUS

    def _unretracted(self, standing: list[Mention]) -> list[Mention]:
        """The mentions that are not taken back: those behind the last words that do so."""
        for cue in reversed(list(RETRACTION.finditer(self.text))):
            after = [mention for mention in standing if mention.start >= cue.end() and mention.weight > ASIDE]
            before = [mention for mention in standing if mention.start < cue.end()]
            if before and (after or cue[1]):
                return [mention for mention in standing if mention.start >= cue.end()]
        return standing

    def _status(self, mention: Mention, spans: Sequence[tuple[int, int]], closed: bool) -> str:
        """``stands``, ``confirmed``, ``denied`` or ``doubtful``."""
        start, end, marked_end = self.sentence(mention.start)
        head, tail = (
            self._blanked(start, mention.start, spans),
            self.text[mention.end : max(end, mention.end)],
        )
        if REFUSAL.search(head) and " but " not in head:
            return "denied"
        if self._is_denied(head):
            return "denied"
        after = _DENIED_AFTER if closed else _REFUTED_AFTER
        if after.match(self.text, mention.end, max(marked_end, mention.end)) and not tail.lstrip().startswith(
            ","
        ):
            return "denied"
        if any(sign in self.text[end:marked_end] for sign in "?？؟"):
            return "doubtful"
        clause = head[max((cut.end() for cut in _CONTRAST.finditer(head)), default=0) :]
        if _HEARSAY.search(clause) or _CONCEDES.search(clause):
            return "denied"
        if _DOUBTED.search(head) or _PERHAPS.search(clause) or _CONDITION.search(head):
            return "doubtful"
        cut = _CONTRAST.search(tail)
        if _PERHAPS_AFTER.search(tail[: cut.start()] if cut and not _DOUBTED.search(tail) else tail):
            return "doubtful"
        if _WOULD_IF.search(head) and re.search(r"\bif\b", tail):
            return "doubtful"
        if marked_end < len(self.text) and _DOUBT_FOLLOWS.match(self.text, marked_end, marked_end + 120):
            return "doubtful"
        if _CONFIRMED_AFTER.match(self.text, mention.end, max(marked_end, mention.end)):
            return "confirmed"
        return "stands"

    def _blanked(self, start: int, end: int, spans: Sequence[tuple[int, int]]) -> str:
        """A part of the text in which mentions are no words."""
        part = list(self.text[start:end])
        for left, right in spans:
            if left >= end:
                break
            if right > start:
                left, right = max(left, start), min(right, end)
                part[left - start : right - start] = "\x00" * (right - left)
        return "".join(part)

    def _is_denied(self, head: str) -> bool:
        """Whether what stands before a mention denies or excludes it."""
        for pattern in (_EXCLUDES, _DENIES):
            cues = list(pattern.finditer(head))
            if not cues:
                continue
            between = head[cues[-1].end() :]
            if _SCOPE_END.search(between):
                continue
            words = re.findall(r"[^\W_]+(?:['’]\w+)?", between)
            if "," in between and not {word.casefold() for word in words} <= _LIST_WORDS:
                continue
            if len(words) <= 7:
                return True
        return False


def _with_inherited(mentions: Sequence[Mention], text: str) -> list[Mention]:
    """The mentions, each with the weight of the one that it is joined to ("B or C", "B. red")."""
    weighed = list(mentions)
    for index, (left, right) in enumerate(pairwise(mentions)):
        left = weighed[index]
        between = text[left.end : right.start]
        if right.weight != left.weight and len(between) < 40 and _JOINED.fullmatch(between):
            weight = max(left.weight, right.weight)
            weighed[index], weighed[index + 1] = left._replace(weight=weight), right._replace(weight=weight)
    return weighed
