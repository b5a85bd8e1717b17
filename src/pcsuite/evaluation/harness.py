"""The verdicts of lm-evaluation-harness and HELM on the same answers, so that figures can be set beside published ones.

Each is written from the tool's published definition (lm-evaluation-harness 0.4.13 task files, HELM 0.5.16 metrics) and
looks at the raw text alone, as the tool does: abstentions, truncation and reasoning blocks mean nothing to it.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from functools import lru_cache

from pcsuite.evaluation.base import harmonic_mean, squad_normalise

_STRICT = re.compile(r"#### (\-?[0-9\.\,]+)")
_FLEXIBLE = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")
_ELSE = re.compile(r"[^-$0-9.,]")
_END = 24
_HELM_NUMBER = re.compile(r"-?[\d,]+(?:.\d+)?")
_NOT_IN_NUMBERS = str.maketrans("", "", ",$")
_NQ_STOP = re.compile(r"[\n.,]")
_NQ_ARTICLES = re.compile(r"\b(?:The |the |An |A |The |a |an )")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def lm_eval_strict_match(text: str, gold: str) -> bool:
    """``exact_match,strict-match`` of GSM8K: the number after the first ``#### ``, compared as text.

    >>> lm_eval_strict_match("so #### 1,200", "1200"), lm_eval_strict_match("It is 1200.", "1200")
    (True, False)
    """
    match = _STRICT.search(text) if "#### " in text else None
    return match is not None and _bare(match[1].strip()) == _bare_gold(gold)


def lm_eval_flexible_extract(text: str, gold: str) -> bool:
    """``exact_match,flexible-extract`` of GSM8K: the last number of the text, compared as text.

    >>> lm_eval_flexible_extract("It is $1,200.", "1200"), lm_eval_flexible_extract("1200, in 3 days", "1200")
    (True, False)
    """
    # No match crosses a character that is in none, so the last of a long text is mostly the last of its end.
    end = _ELSE.search(text, max(0, len(text) - _END))
    numbers = (_FLEXIBLE.findall(text, end.end()) if end else []) or _FLEXIBLE.findall(text)
    return bool(numbers) and _bare((numbers[-1][0] or numbers[-1][1]).strip()) == _bare_gold(gold)


def _bare(number: str) -> str:
    """What exact_match compares: no commas, no dollar signs, nothing before ``#### ``, no final full stop."""
    number = number.translate(_NOT_IN_NUMBERS).rpartition("#### ")[2]
    return (number[:-1] if number.endswith(".") else number).lower()


def helm_final_number_exact_match(text: str, gold: str) -> bool:
    """HELM's ``final_number_exact_match``: the last numbers of answer and gold answer are the same text.

    >>> helm_final_number_exact_match("The answer is 15 eggs.", "15"), helm_final_number_exact_match("15.0", "15")
    (True, False)
    """
    number = _helm_number(text)
    return bool(number) and number.strip() == _helm_gold(gold).strip()


def _helm_number(text: str) -> str:
    """The last match without its commas; the pattern's dot is any character but a line break, so lines stand alone."""
    end = len(text)
    while end >= 0:
        start = text.rfind("\n", 0, end)
        numbers = _HELM_NUMBER.findall(text, start + 1, end)
        if numbers:
            return str(numbers[-1]).replace(",", "")
        end = start
    return ""


_bare_gold = lru_cache(maxsize=4096)(_bare)
_helm_gold = lru_cache(maxsize=4096)(_helm_number)


def lm_eval_exact_match(text: str, references: Sequence[str]) -> bool:
    """``exact_match`` of Natural Questions: the first phrase of the text, without case, punctuation and articles.

    The tool stops generating at a line break, a full stop or a comma; here the text is cut there.

    >>> lm_eval_exact_match(" The Shelleys, of course", ["the Shelleys"])
    True
    """
    phrase = _phrase(_NQ_STOP.split(text.strip(), maxsplit=1)[0].strip())
    return any(phrase == _phrase(reference) for reference in references)


def _phrase(text: str) -> str:
    return _NQ_ARTICLES.sub("", text).lower().translate(_PUNCTUATION)


def helm_quasi_prefix_exact_match(text: str, references: Sequence[str]) -> bool:
    """HELM's ``quasi_prefix_exact_match``: the normalised answer begins with a normalised reference.

    >>> helm_quasi_prefix_exact_match("The Shelleys, of course", ["Shelleys"])
    True
    """
    normalised = squad_normalise(text)
    return bool(text) and any(normalised.startswith(squad_normalise(reference)) for reference in references)


def helm_f1_score(text: str, references: Sequence[str]) -> float:
    """HELM's ``f1_score``: the best F1 (0..1) of the sets of normalised words; a repeated word counts once.

    >>> helm_f1_score("Mary Mary Shelley", ["Mary W. Shelley"])
    0.8
    """
    words = set(squad_normalise(text).split())
    best = 0.0
    for expected in (set(squad_normalise(reference).split()) for reference in references):
        if words and expected:
            common = len(words & expected)
            best = max(best, harmonic_mean(common / len(words), common / len(expected)))
    return best
