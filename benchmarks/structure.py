"""How much of a documentation page's structure reaches the Markdown.

    python benchmarks/structure.py --data FOLDER

FOLDER holds pages as `*.html` (or `*.html.gz`), at any depth. The truth of `page.html` is `page.md` beside it where
there is one, else the page's own main part (`role="main"`, `main` or `article`). Headings, links, code blocks, table
cells, list items and inline code are compared as multisets of their words; a page's fidelity is the mean of the six F1,
those that neither side has left out. Links to places in the same page are not counted.
"""

import argparse
import gzip
import re
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

import lxml.html
from lxml.html import HtmlElement
from markdown_it import MarkdownIt

from nanobot.web.extract.article import read_tree
from nanobot.web.extract.dom import parse
from nanobot.web.fetch.charset import decode

KINDS = {
    "headings": ".//h1|.//h2|.//h3|.//h4|.//h5|.//h6",
    "links": './/a[@href and not(starts-with(@href, "#"))]',
    "code blocks": ".//pre",
    "table cells": ".//td|.//th",
    "list items": ".//li",
    "inline code": ".//code[not(ancestor::pre)]",
}
MAIN = '//*[@role="main"]|//main|//article|//div[@class="body"]'
MARKDOWN = MarkdownIt("commonmark").enable("table")


def words(element: HtmlElement) -> str:
    return " ".join(re.findall(r"\w+", element.text_content()))[:80]


def structure(root: HtmlElement) -> dict[str, Counter[str]]:
    for anchor in root.xpath('.//a[contains(@class, "headerlink") or contains(@class, "anchor")]'):
        anchor.drop_tree()
    return {kind: Counter(filter(None, map(words, root.xpath(path)))) for kind, path in KINDS.items()}


def of_markdown(text: str) -> dict[str, Counter[str]]:
    return structure(lxml.html.fromstring(f"<div>{MARKDOWN.render(text)}</div>"))


def of_page(html: str) -> dict[str, Counter[str]] | None:
    root = lxml.html.document_fromstring(html.encode(), parser=lxml.html.HTMLParser(encoding="utf-8"))
    found = root.xpath(MAIN)
    first = found[0] if isinstance(found, list) and found else None
    return structure(first) if isinstance(first, HtmlElement) else None


def fidelity(truth: dict[str, Counter[str]], got: dict[str, Counter[str]]) -> float:
    scores = []
    for kind, wanted in truth.items():
        total = wanted.total() + got[kind].total()
        if total:
            scores.append(2 * (wanted & got[kind]).total() / total)
    return statistics.fmean(scores) if scores else 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--bar", type=float, default=0.95, help="exit 1 below this mean (default %(default)s)")
    parser.add_argument("--every", type=int, default=1, help="take every N-th page")
    parser.add_argument("--worst", type=int, default=0, help="list the N worst pages")
    arguments = parser.parse_args()
    pages = sorted([*arguments.data.rglob("*.html"), *arguments.data.rglob("*.html.gz")])[:: arguments.every]
    rows, seconds = [], []
    for path in pages:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        html = decode(raw, "").text
        given = path.with_name(path.name.removesuffix(".gz").removesuffix(".html") + ".md")
        truth = of_markdown(given.read_text(encoding="utf-8")) if given.exists() else of_page(html)
        if truth is None or not any(truth.values()):
            continue
        start = time.process_time()
        article = read_tree(parse(html), "https://docs.example.org/guide/page.html")
        seconds.append(time.process_time() - start)
        rows.append((fidelity(truth, of_markdown(article.markdown)), str(path.relative_to(arguments.data))))
    if not rows:
        print("fidelity 0: no pages found")
        return 1
    for score, name in sorted(rows)[: arguments.worst]:
        print(f"{score:.3f} {name}")
    mean = statistics.fmean(score for score, _ in rows)
    median, worst = statistics.median(seconds) * 1000, max(seconds) * 1000
    print(f"fidelity {mean:.4f} pages {len(rows)} CPU median {median:.1f} ms max {worst:.0f} ms")
    return 0 if mean >= arguments.bar else 1


if __name__ == "__main__":
    sys.exit(main())
