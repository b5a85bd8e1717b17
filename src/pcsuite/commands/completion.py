"""``pcsuite completion``: a script for the shell, and what may come next on a line that is being typed.

The script is a few lines that never change: it asks the suite itself, which reads the parsers of its commands and the
ids of the profile on the line. So what is completed is what is understood.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pcsuite.commands import CommandTable
from pcsuite.errors import PcsuiteError

FILES, FOLDERS = ":files", ":folders"
"""Said in place of candidates where the shell knows better: any file, or any folder."""

BASH = r"""# pcsuite completion for bash: pcsuite completion bash > ~/.local/share/bash-completion/completions/pcsuite
_pcsuite() {
  local line="${COMP_LINE:0:COMP_POINT}" cur="${COMP_WORDS[COMP_CWORD]}" word given value
  word="${line##*[[:space:]]}"
  # Bash takes : and = for ends of words; what it will replace is only what stands after the last of them.
  [[ $cur == [:=] ]] && cur=""
  given="${word%"$cur"}"
  COMPREPLY=()
  while IFS=$'\t' read -r value _; do
    case $value in
      :files) compopt -o default 2>/dev/null; COMPREPLY=(); return ;;
      :folders) compopt -o dirnames 2>/dev/null; COMPREPLY=(); return ;;
      "") ;;
      *) COMPREPLY+=("${value#"$given"}") ;;
    esac
  done < <("${COMP_WORDS[0]}" completion words -- "$line" 2>/dev/null)
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *, ]] && compopt -o nospace 2>/dev/null
}
complete -F _pcsuite pcsuite
"""

ZSH = r"""#compdef pcsuite
# pcsuite completion for zsh: pcsuite completion zsh > a folder of $fpath, as _pcsuite; or source it after compinit
_pcsuite() {
  local -a found shown
  local value about
  while IFS=$'\t' read -r value about; do
    case $value in
      :files) _files; return ;;
      :folders) _files -/; return ;;
      "") ;;
      *) found+=("$value"); shown+=("$value${about:+  -- $about}") ;;
    esac
  done < <("${words[1]}" completion words -- "${LBUFFER}" 2>/dev/null)
  (( ${#found} )) && compadd -l -d shown -a found
}
if [[ ${funcstack[1]} == _pcsuite ]]; then _pcsuite "$@"; else compdef _pcsuite pcsuite; fi
"""

FISH = r"""# pcsuite completion for fish: pcsuite completion fish > ~/.config/fish/completions/pcsuite.fish
function __pcsuite_words
  set -l line (commandline -cp)
  for found in (pcsuite completion words -- "$line" 2>/dev/null)
    switch $found
      case ':files' ':folders'
        __fish_complete_path (commandline -ct)
      case '*'
        echo $found
    end
  end
end
complete -c pcsuite -f -a '(__pcsuite_words)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def configure_completion(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite completion``.

    examples:
      source <(pcsuite completion bash)                                     # for this shell
      pcsuite completion bash > ~/.local/share/bash-completion/completions/pcsuite
      pcsuite completion zsh > ~/.zfunc/_pcsuite                            # with fpath+=~/.zfunc before compinit
      pcsuite completion fish > ~/.config/fish/completions/pcsuite.fish
      pcsuite completion words -- "pcsuite run --conditions C0,"            # what the scripts ask
    """
    actions = parser.add_subparsers(dest="action", required=True, metavar="bash|zsh|fish|words")
    for shell in SCRIPTS:
        actions.add_parser(shell, help=f"print the script for {shell}")
    words = actions.add_parser("words", help="what may come next on a line, one candidate a line")
    words.add_argument("line", help="the line up to the cursor")


def execute_completion(args: argparse.Namespace) -> int:
    """Print the script of a shell, or the candidates for a line, each with what it is about after a tab.

    What completes as a file or folder of the shell's own is ``:files`` or ``:folders``.
    """
    if args.action != "words":
        sys.stdout.write(SCRIPTS[args.action])
        return 0
    for candidate in complete(args.line, args.known):
        print("\t".join(part for part in candidate if part))
    return 0


class Completion(NamedTuple):
    """A word that may stand at the cursor, and a few words about it."""

    word: str
    about: str = ""


def complete(line: str, known: CommandTable) -> list[Completion]:
    """What may come next on a line that ends at the cursor; the last word of it may be half typed.

    Candidates are whole words. :data:`FILES` or :data:`FOLDERS` alone leave it to the shell. A profile that cannot be
    read has no ids to offer; nothing is raised.

    >>> from pcsuite.cli import COMMANDS, command_parser
    >>> [candidate.word for candidate in complete("pcsuite mod", CommandTable(COMMANDS, command_parser))]
    ['models']
    """
    try:
        words = shlex.split(line)
    except ValueError:  # an open quote: the shell completes inside it
        return [Completion(FILES)]
    if not words or line[-1:].isspace():
        words.append("")
    _, *words = words or [""]
    if not words:
        return []
    if len(words) == 1:
        first = [
            Completion(command.name, f"{command.group}: {command.summary}") for command in known.commands
        ]
        first += [Completion("--help"), Completion("--version"), Completion("--debug")]
        return _beginning(first, words[0])
    command = next((one for one in known.commands if one.name == words[0]), None)
    if command is None:
        return []
    return _of_parser(known.parser_of(command), words[1:], words)


def _of_parser(parser: argparse.ArgumentParser, words: list[str], line: list[str]) -> list[Completion]:
    """Candidates for the last of ``words``, the others being what was said before it."""
    *before, current = words
    flags = parser._option_string_actions
    positionals = [action for action in parser._actions if not action.option_strings]
    waiting: argparse.Action | None = None
    earlier: set[argparse.Action] = set()
    for index, word in enumerate(before):
        if waiting is not None:
            waiting = None
            continue
        name, equals, _ = word.partition("=")
        if name in flags:
            earlier.add(flags[name])
            waiting = flags[name] if flags[name].nargs != 0 and not equals else None
        elif positionals:
            action = positionals[0]
            if isinstance(action, argparse._SubParsersAction):
                chosen = action.choices.get(word)
                return [] if chosen is None else _of_parser(chosen, [*before[index + 1 :], current], line)
            if action.nargs not in ("*", "+"):
                positionals.pop(0)
    if waiting is not None:
        return _values(waiting, current, line)
    name, equals, value = current.partition("=")
    if equals and name in flags:
        return [
            candidate
            if candidate.word.startswith(":")
            else Completion(f"{name}={candidate.word}", candidate.about)
            for candidate in _values(flags[name], value, line)
        ]
    if current.startswith("-") or not positionals:
        repeatable = (argparse._AppendAction,)
        open_flags = [
            Completion(flag, (action.help or "").partition(";")[0])
            for flag, action in flags.items()
            if flag.startswith("--") and (action not in earlier or isinstance(action, repeatable))
        ]
        return _beginning(open_flags, current)
    return _values(positionals[0], current, line)


IDS = {
    "tasks": "tasks",
    "task": "tasks",
    "models": "models",
    "model": "models",
    "ids": "models",
    "conditions": "conditions",
    "condition": "conditions",
    "diff": "conditions",
    "baseline": "conditions",
    "regimes": "regimes",
    "regime": "regimes",
}
"""What the value of a flag or a positional argument is, by its name in the parser."""
RUNS = ("run", "runs", "first", "second", "pilot")
LISTS = ("tasks", "models", "conditions", "regimes")


def _values(action: argparse.Action, current: str, line: list[str]) -> list[Completion]:
    """Candidates for the value of a flag or a positional argument."""
    if isinstance(action, argparse._SubParsersAction):
        about = {sub.dest: sub.help or "" for sub in action._choices_actions}
        return _beginning([Completion(name, about.get(name, "")) for name in action.choices], current)
    if action.choices is not None:
        return _beginning([Completion(str(choice)) for choice in action.choices], current)
    if action.dest in RUNS:
        from pcsuite.logging.segments import run_names

        runs = _beginning(
            [Completion(name) for name in run_names(_flag_value(line, "--output-dir") or "outputs")], current
        )
        return runs or [Completion(FILES)]
    if action.dest in ("config", "file"):
        from pcsuite.config.bundled import bundled_profiles

        known = [Completion(name, "bundled profile") for name in bundled_profiles()]
        known += [Completion(name) for name in sorted(path.name for path in Path().glob("*.yaml"))]
        return _beginning(known, current) or [Completion(FILES)]
    if action.dest in IDS and action.type is not Path:
        known = _ids(IDS[action.dest], line)
        if action.dest not in LISTS:
            return _beginning(known, current)
        before, comma, last = current.rpartition(",")
        named = before.split(",")
        fresh = [candidate for candidate in known if candidate.word not in named]
        return [
            Completion(f"{before}{comma}{candidate.word}", candidate.about)
            for candidate in _beginning(fresh, last)
        ]
    if action.metavar == "DIR":
        return [Completion(FOLDERS)]
    if action.type is Path or action.metavar in ("FILE", "PROMPT", "LOG", "TABLE|TASK"):
        return [Completion(FILES)]
    return []


def _beginning(candidates: Iterable[Completion], typed: str) -> list[Completion]:
    return [candidate for candidate in candidates if candidate.word.startswith(typed)]


def _flag_value(line: list[str], *flags: str) -> str | None:
    """The value that a flag has on the line, if it has one."""
    for index, word in enumerate(line[:-1]):
        name, equals, value = word.partition("=")
        if name in flags:
            return value if equals else line[index + 1]
    return None


def _ids(kind: str, line: list[str]) -> list[Completion]:
    """Ids of the profile that the line names, else of the bundled files; none where it cannot be read."""
    from pcsuite.config.load import load_suite
    from pcsuite.prompts.conditions.conditions import expand_conditions

    sets = [word.partition("=")[::2] for flag, word in pairwise(line) if flag == "--set"]
    references = {key: value for key, value in sets if key.startswith("suite.") and value}
    try:
        suite = load_suite(_flag_value(line, "--config", "-c") or "quickstart", references, check_names=False)
        if kind == "conditions":
            return [Completion(name, spec.title) for name, spec in suite.conditions.items()] + [
                Completion(member.id, member.title)
                for name, spec in suite.conditions.items()
                if spec.design
                for member in expand_conditions([name], suite.conditions, suite.operators)
            ]
        specs = {"tasks": suite.tasks, "models": suite.models, "regimes": suite.regimes}[kind]
        return [Completion(name, str(getattr(spec, "title", ""))) for name, spec in specs.items()]
    except PcsuiteError:
        return []
