"""`python -m numod completion SHELL`: completion for a shell, made of the commands' own parsers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import NamedTuple


class Words(NamedTuple):
    """What may follow a command: words with their descriptions, and the choices of options that have some."""

    path: str  # the words of the command, "" for `python -m numod` itself
    words: dict[str, str]
    choices: dict[str, list[str]]


def add_command(commands: argparse._SubParsersAction) -> None:
    """Register `completion`."""
    parser = commands.add_parser("completion", help="print completion for a shell; the guide says where to put it")
    parser.add_argument("shell", choices=tuple(_SHELLS), help="the shell: %(choices)s")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    print(_SHELLS[options.shell](list(words_of(options.parser))), end="")
    return 0


def words_of(parser: argparse.ArgumentParser, path: str = "") -> Iterator[Words]:
    """The words after each command, from the parser of `python -m numod` and those of its commands."""
    words: dict[str, str] = {}
    choices: dict[str, list[str]] = {}
    inner: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            inner = dict(action.choices)
            words |= {choice.dest: choice.help or "" for choice in action._choices_actions}
            continue
        names = [name for name in action.option_strings if name.startswith("--")]
        words |= dict.fromkeys(names, _plain(action.help))
        allowed = [str(choice) for choice in action.choices or ()]
        choices |= dict.fromkeys(names if names and allowed else (), allowed)
        if not action.option_strings:
            words |= dict.fromkeys(allowed, _plain(action.help))
    yield Words(path, words, choices)
    for name, command in inner.items():
        yield from words_of(command, f"{path} {name}".strip())


def _plain(text: str | None) -> str:
    """The help of an option, without what argparse fills in."""
    return re.sub(r"\s*(\(default: [^)]*\)|; one of %\(choices\)s|: %\(choices\)s)", "", text or "")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "’").replace("\\", "/") + "'"


def _options_with_values(commands: list[Words]) -> Iterator[tuple[str, list[str]]]:
    for command in commands:
        for name, values in command.choices.items():
            yield f"{command.path} {name}", values


_WALK = """\
    local numod_path="" word
    for word in "${numod_words[@]}"; do
        case "$numod_path $word" in
            %s) numod_path="${numod_path:+$numod_path }$word" ;;
        esac
    done
    case "$numod_path $numod_previous" in
%s
    esac
    case "$numod_path" in
%s
    esac
"""


def _walk(commands: list[Words], answer: str) -> str:
    """Lines, for bash and zsh, that find the command among the words before the cursor and give what may follow."""
    paths = "|".join(_quoted(f"{path} {name}" if path else f" {name}") for path, _, name in _steps(commands))
    by_option = [
        f"        {_quoted(key)}) {answer % ' '.join(values)} ;;" for key, values in _options_with_values(commands)
    ]
    by_path = [f"        {_quoted(command.path)}) {answer % ' '.join(command.words)} ;;" for command in commands]
    return _WALK % (paths, "\n".join(by_option), "\n".join(by_path))


def _steps(commands: list[Words]) -> list[tuple[str, str, str]]:
    return [command.path.rpartition(" ") for command in commands if command.path]


def _bash(commands: list[Words]) -> str:
    return f"""\
# completion of `numod` and `python -m numod` for bash: eval "$(python -m numod completion bash)"
_numod() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" numod_previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local numod_words=("${{COMP_WORDS[@]:1:COMP_CWORD-1}}")
    [[ "${{COMP_WORDS[0]}}" == *python* ]] && numod_words=("${{COMP_WORDS[@]:3:COMP_CWORD-3}}")
{_walk(commands, 'COMPREPLY=($(compgen -W "%s" -- "$current")); return')}}}
_numod_python() {{
    COMPREPLY=()
    if [[ "${{COMP_WORDS[1]}}" == -m && "${{COMP_WORDS[2]}}" == numod && $COMP_CWORD -gt 2 ]]; then _numod; fi
}}
complete -o bashdefault -o default -F _numod numod
complete -o bashdefault -o default -F _numod_python python python3
"""


def _zsh(commands: list[Words]) -> str:
    return f"""\
# completion of `numod` and `python -m numod` for zsh, after compinit: eval "$(python -m numod completion zsh)"
_numod() {{
    local numod_previous="${{words[CURRENT-1]}}" first=2
    [[ "${{words[1]}}" == *python* ]] && first=4
    local -a numod_words=("${{(@)words[first,CURRENT-1]}}")
{_walk(commands, "compadd -- %s && return; _files; return")}}}
_numod_python() {{
    if [[ "${{words[2]}}" == -m && "${{words[3]}}" == numod && $CURRENT -gt 3 ]]; then _numod; else _files; fi
}}
compdef _numod numod
compdef _numod_python python python3
"""


def _fish(commands: list[Words]) -> str:
    lines = [
        "# completion of `numod` and `python -m numod` for fish: python -m numod completion fish | source",
        "function __numod_at",
        "    set -l tokens (commandline -opc)",
        "    set -e tokens[1]",
        '    if test "$argv[1]" = python',
        "        test \"$tokens[1..2]\" = '-m numod'; or return 1",
        "        set -e tokens[1..2]",
        "    end",
        "    set -l path",
        "    for token in $tokens",
        f"        contains -- (string join ' ' $path $token) {' '.join(_quoted(entry.path) for entry in commands[1:])}",
        "        and set -a path $token",
        "    end",
        '    test "$path" = "$argv[2]"',
        "end",
    ]
    for shell_word, start in (("numod", "numod"), ("python", "python"), ("python3", "python")):
        for command in commands:
            condition = f"-n \"__numod_at {start} '{command.path}'\""
            for word, text in command.words.items():
                values = " ".join(command.choices.get(word, ()))
                argument = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
                argument += f" -xa {_quoted(values)}" if values else ""
                lines.append(f"complete -c {shell_word} {condition} {argument} -d {_quoted(text)}")
    return "\n".join(lines) + "\n"


_SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
