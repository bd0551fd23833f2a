"""A conversation as one page of HTML that needs nothing else: no script, no picture, no style from elsewhere.

What people and models wrote is rendered as Markdown without HTML of its own, links lead to the web alone, and the page
forbids its browser to run or load anything, so that nothing in a conversation acts when it is opened.
"""

import html
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from datetime import tzinfo

from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from nanobot.archive.exchanges import SourceLine, TalkExchange, exchanges_of, speaker_of
from nanobot.archive.markdown import markdown_parser
from nanobot.archive.text import about
from nanobot.session.listing import SessionEntry
from nanobot.session.store import Record
from nanobot.utils.marks import find_marks
from nanobot.utils.translation import _, listed

#: What stands around the numbers of a mark while its answer is rendered; taken out of everything that people wrote.
_OPEN, _CLOSE = "\ue000", "\ue001"
_HELD = re.compile(f"{_OPEN}([0-9,]+){_CLOSE}")
# English: a browser reads it
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
# English: a browser reads it
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a;
  background: #fff; overflow-wrap: break-word; }
.question { background: #eef3fa; border-radius: .6rem; padding: .6rem 1rem; white-space: pre-wrap; }
.answer { padding: 0 1rem; } .about, time, .steps, .sources, .done { color: #555; font-size: .85rem; }
.summary { border-left: 3px solid #bbb; padding-left: 1rem; }
pre { overflow-x: auto; background: #f5f5f5; padding: .6rem; }
table { border-collapse: collapse; } td, th { border: 1px solid #ccc; padding: .2rem .5rem; }
a.mark { text-decoration: none; font-size: .8em; vertical-align: super; } .wrong { color: #a00; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #161616; } .question { background: #22303f; }
  pre { background: #222; } a { color: #8ab4f8; } .about, time, .steps, .sources, .done { color: #999; } }
"""
# English: a browser reads it
_PAGE = """<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
<p class="about">{about}</p>
{body}
</body>
</html>
"""


def page_of(entry: SessionEntry, records: Sequence[Record], zone: tzinfo | None) -> str:
    """The page; each mark of an answer leads to its source below that answer."""
    exchanges = enumerate(exchanges_of(records), 1)
    body = "\n".join(_section(number, one, zone) for number, one in exchanges)
    texts = {"policy": _POLICY, "title": html.escape(entry.title), "about": html.escape(about(entry, zone))}
    return _PAGE.format(**texts, style=_STYLE, body=body)


def _section(number: int, one: TalkExchange, zone: tzinfo | None) -> str:
    at = one.at.astimezone(zone)
    parts = [f'<time datetime="{at.isoformat(timespec="seconds")}">{at:%Y-%m-%d %H:%M}</time>']
    if one.summary:
        title = html.escape(_("What was said before, summed up:"))
        # English: it has tags alone
        parts += [f'<div class="summary"><p class="about">{title}</p>']
        parts += [_rendered(one.question, number, {}), "</div>"]
    elif one.question or one.files:
        name = speaker_of(one)
        speaker = f"<strong>{html.escape(name)}:</strong> " if name else ""
        files = html.escape(_("\nFiles: {files}", files=listed(one.files))) if one.files else ""
        parts.append(f'<div class="question">{speaker}{html.escape(one.question)}{files}</div>')
    parts += _list("steps", "", one.steps)
    if one.answer:
        parts.append(
            f'<div class="answer">{_rendered(one.answer, number, {mark.number: mark for mark in one.sources})}</div>'
        )
    if one.sources:
        lines = "\n".join(_source(number, mark) for mark in one.sources)
        parts.append(f'<div class="sources">{html.escape(_("Sources"))}<ol>{lines}</ol></div>')
    parts += _list("done", _("Done"), one.receipts)
    parts += _list("done wrong", _("Claimed, and not done by any call"), one.unbacked)
    return f'<section id="e{number}">\n' + "\n".join(parts) + "\n</section>"


def _list(kind: str, title: str, lines: Sequence[str]) -> list[str]:
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return [f'<div class="{kind}">{html.escape(title)}<ul>{items}</ul></div>'] if lines else []


def _source(exchange: int, mark: SourceLine) -> str:
    name = html.escape(mark.title or mark.url)
    link = f'<a href="{html.escape(mark.url)}" rel="noreferrer noopener">{name}</a>' if _is_web(mark.url) else name
    wrong = "".join(f'<div class="wrong">{html.escape(text)}</div>' for text in mark.wrong)
    where = f" <span>{html.escape(mark.url)}</span>" if mark.title else ""
    # English: it has tags alone
    return f'<li id="e{exchange}-s{mark.number}" value="{mark.number}">{link}{where}{wrong}</li>'


def _is_web(url: str) -> bool:
    return url.casefold().startswith(("https://", "http://"))


def _rendered(text: str, exchange: int, marks: Mapping[int, SourceLine]) -> str:
    """Markdown as HTML, with a link for each mark that has a source."""
    text = text.replace(_OPEN, "").replace(_CLOSE, "")
    for mark in reversed(find_marks(text)):
        if all(number in marks for number in mark.numbers):
            held = ",".join(map(str, mark.numbers))
            text = f"{text[: mark.start]}{_OPEN}{held}{_CLOSE}{text[mark.end :]}"
    parser = markdown_parser().disable("image")
    parser.validateLink = _is_web  # type: ignore[method-assign]  # as its documentation has it
    parser.add_render_rule("text", _text_rule(exchange))
    parser.add_render_rule("link_open", _link_rule)
    return _HELD.sub(_plain, str(parser.render(text)))


def _text_rule(exchange: int) -> Callable[..., str]:
    """How words become HTML: escaped, and then the marks among them as links. Nothing else is ever turned into one."""

    def link(match: re.Match[str]) -> str:
        numbers = match[1].split(",")
        return "".join(f'<a class="mark" href="#e{exchange}-s{number}">[{number}]</a>' for number in numbers)

    def rule(
        renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, str]
    ) -> str:
        del renderer, options, env
        return _HELD.sub(link, escapeHtml(tokens[index].content))

    return rule


def _link_rule(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    tokens[index].attrSet("rel", "noreferrer noopener")
    return renderer.renderToken(tokens, index, options, env)


def _plain(match: re.Match[str]) -> str:
    """A mark that came to stand where there are no words, such as in a code block or an attribute."""
    return f"[{match[1]}]"
