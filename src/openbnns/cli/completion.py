"""``openbnns completion``: scripts that let a shell complete commands and options, generated from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from .arguments import OK, Commands, print_json

_INSTALL = {
    "bash": 'eval "$(openbnns completion bash)"    # in ~/.bashrc',
    "zsh": 'eval "$(openbnns completion zsh)"     # in ~/.zshrc, behind compinit',
    "fish": "openbnns completion fish > ~/.config/fish/completions/openbnns.fish",
}


def add(commands: Commands) -> None:
    completion = commands.add_parser(
        "completion", help="completion of commands and options for a shell",
        description="Print a script that lets a shell complete the commands and options of openbnns.",
        examples=tuple(_INSTALL.values()),
    )  # fmt: skip
    completion.add_argument("shell", choices=tuple(_INSTALL), help="bash, zsh or fish")
    completion.add_argument("--quiet", action="store_true", help="print nothing")
    completion.add_argument("--json", action="store_true", help="print one JSON object in place of the script alone")
    completion.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from . import parser_of_all

    commands = _commands(parser_of_all())
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](commands)
    if options.json:
        print_json({"shell": options.shell, "script": script})
    elif not options.quiet:
        print(script)
    return OK


Parsers = dict[str, tuple[str, argparse.ArgumentParser]]


def _commands(parser: argparse.ArgumentParser) -> Parsers:
    """Every command with its help and its parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            return {name: (helps.get(name, ""), sub) for name, sub in action.choices.items()}
    return {}


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[list[str], str, list[str] | None]]:
    """The names of every option, its help, and its choices: None if it takes no value, an empty list if any value will
    do."""
    for action in parser._actions:
        if action.option_strings:
            choices = None if action.nargs == 0 else [str(choice) for choice in action.choices or ()]
            yield list(action.option_strings), (action.help or "").partition(" (default")[0], choices


def _positional(parser: argparse.ArgumentParser) -> list[str]:
    """Choices of arguments without a name."""
    return [str(c) for a in parser._actions if not a.option_strings for c in a.choices or ()]


def _bash(commands: Parsers) -> str:
    lines = [
        "_openbnns() {",
        '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" words="" value=""',
    ]
    lines += ['  if [ "$COMP_CWORD" -eq 1 ]; then', f'    words="{" ".join(commands)} --help --version"', "  else"]
    lines += ['    case "${COMP_WORDS[1]}:$prev" in']
    for name, (_, parser) in commands.items():
        for flags, _, choices in _options(parser):
            if choices is not None:
                chosen = f'words="{" ".join(choices)}"' if choices else "value=1"
                lines.append(f"      {'|'.join(f'{name}:{flag}' for flag in flags)}) {chosen} ;;")
    lines += ["    esac", '    if [ -z "$words$value" ]; then', '      case "${COMP_WORDS[1]}" in']
    for name, (_, parser) in commands.items():
        flags = [flag for names, _, _ in _options(parser) for flag in names]
        lines.append(f'        {name}) words="{" ".join([*flags, *_positional(parser)])}" ;;')
    lines += ["      esac", "    fi", "  fi", '  COMPREPLY=($(compgen -W "$words" -- "$cur"))']
    lines += ['  [ "${#COMPREPLY[@]}" -gt 0 ] || COMPREPLY=($(compgen -f -- "$cur"))', "}"]
    return "\n".join([*lines, "complete -o filenames -F _openbnns openbnns"])


def _zsh(commands: Parsers) -> str:
    lines = ["#compdef openbnns", "_openbnns() {", "  local -a commands; commands=("]
    lines += [f"    {_quoted(f'{name}:{text}')}" for name, (text, _) in commands.items()]
    lines += ["  )", "  if (( CURRENT == 2 )); then _describe command commands; return; fi", '  case "$words[2]" in']
    for name, (_, parser) in commands.items():
        specs = []
        for flags, text, choices in _options(parser):
            for flag in flags:
                value = "" if choices is None else f":value:({' '.join(choices)})" if choices else ":value:_files"
                specs.append(_quoted(f"{flag}[{_plain(text)}]{value}"))
        rest = f"'*:value:({' '.join(_positional(parser))})'" if _positional(parser) else "'*:file:_files'"
        lines.append(f"    {name}) shift words; (( CURRENT-- )); _arguments {' '.join(specs)} {rest} ;;")
    return "\n".join([*lines, "  esac", "}", "compdef _openbnns openbnns"])


def _fish(commands: Parsers) -> str:
    lines = []
    for name, (text, parser) in commands.items():
        lines.append(f"complete -c openbnns -n __fish_use_subcommand -a {name} -d {_quoted(text)}")
        here = f"complete -c openbnns -n '__fish_seen_subcommand_from {name}'"
        for flags, described, choices in _options(parser):
            names = " ".join(f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in flags)
            given = "" if choices is None else f" -x -a {_quoted(' '.join(choices))}" if choices else " -r"
            lines.append(f"{here} {names} -d {_quoted(described)}{given}")
        if _positional(parser):
            lines.append(f"{here} -a {_quoted(' '.join(_positional(parser)))}")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """A text without the signs that zsh reads in descriptions."""
    return "".join(" " if sign in "[]:\\" else sign for sign in text)


def _quoted(text: str) -> str:
    """A text in single quotes, for any of the shells."""
    return "'" + "".join("\u2019" if sign == "'" else sign for sign in text) + "'"
