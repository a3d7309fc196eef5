"""Docstrings, which are reStructuredText with examples, as HTML."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from docutils import nodes
from docutils.core import publish_parts
from docutils.parsers.rst import roles
from docutils.writers import html5_polyglot
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonConsoleLexer, PythonLexer

SETTINGS = {
    "report_level": 5,  # docstrings are read by people first; text that is not markup stays as it is written
    "halt_level": 5,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "doctitle_xform": False,
    "initial_header_level": 4,
    "_disable_config": True,
}


def code(text: str, *, console: bool = False) -> str:
    """Code in colours, in the form that the theme has a button for copying for."""
    lexer = PythonConsoleLexer() if console else PythonLexer()
    kind = "pycon" if console else "python"
    shown = highlight(text.strip("\n"), lexer, HtmlFormatter(nowrap=True)).strip("\n")
    return f'<div class="language-{kind} highlight"><pre><span></span><code>{shown}\n</code></pre></div>\n'


class _Translator(html5_polyglot.HTMLTranslator):
    def visit_doctest_block(self, node: Any) -> None:
        self.body.append(code(node.astext(), console=True))
        raise nodes.SkipNode

    def visit_literal_block(self, node: Any) -> None:
        self.body.append(code(node.astext()))
        raise nodes.SkipNode

    def visit_literal(self, node: Any) -> None:
        self.body.append(f"<code>{self.encode(node.astext())}</code>")
        raise nodes.SkipNode


class _Writer(html5_polyglot.Writer):
    def __init__(self) -> None:
        super().__init__()
        self.translator_class = _Translator


def use_links(address: Callable[[str], str | None]) -> None:
    """From now on, roles such as ``:func:`nn.load_model``` lead to the address of that name, if it has one."""

    def role(kind: str, raw: str, text: str, line: int, inliner: Any, *unused: Any) -> tuple[list[Any], list[Any]]:
        target = address(text)
        shown = nodes.literal(raw, text)
        return ([nodes.reference(raw, "", shown, refuri=target)] if target else [shown]), []

    for name in ("attr", "class", "data", "func", "meth", "mod"):
        roles.register_local_role(name, role)


def html(text: str | None) -> str:
    """A docstring as HTML; nothing for none."""
    if not text:
        return ""
    parts = publish_parts(inspect.cleandoc(text), writer=_Writer(), settings_overrides=dict(SETTINGS))
    return f'<div class="docstring">\n{parts["fragment"].strip()}\n</div>\n'
