"""How well the content of a page is found: F1 of 4-word shingles against the hand-marked body text.

    python benchmarks/extraction.py --data FOLDER

FOLDER holds `ground-truth.json` ({ID: {"url": …, "articleBody": …}}) and `html/ID.html.gz`, as in the public
article extraction benchmark (scrapinghub, MIT licence). The score is that benchmark's: tokens are runs
of word characters; true and false positives and false negatives are counted on multisets of four-token shingles and
normalised per page; precision and recall are means over the pages; F1 is that of the two means.
"""

import argparse
import gzip
import json
import re
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

from nanobot.web.extract.article import read_tree
from nanobot.web.extract.dom import parse
from nanobot.web.fetch.charset import decode

_TOKEN = re.compile(r"\w+")


def shingles(text: str, size: int = 4) -> Counter[tuple[str, ...]]:
    tokens = _TOKEN.findall(text)
    if len(tokens) < size:
        return Counter([tuple(tokens)] if tokens else [])
    return Counter(tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1))


def compare(truth: str, found: str) -> tuple[float, float]:
    """Precision and recall of one page."""
    wanted, got = shingles(truth), shingles(found)
    both = sum((wanted & got).values())
    false_positives, false_negatives = sum((got - wanted).values()), sum((wanted - got).values())
    if not false_positives and not false_negatives:
        return 1.0, 1.0
    precision = both / (both + false_positives) if both + false_positives else float(not false_negatives)
    recall = both / (both + false_negatives) if both + false_negatives else 1.0
    return precision, recall


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--bar", type=float, default=0.975, help="exit 1 below this F1 (default %(default)s)")
    parser.add_argument("--worst", type=int, default=0, help="list the N worst pages")
    arguments = parser.parse_args()
    truth = json.loads((arguments.data / "ground-truth.json").read_text(encoding="utf-8"))
    rows, seconds, empty = [], [], 0
    for key, entry in truth.items():
        raw = gzip.decompress((arguments.data / "html" / f"{key}.html.gz").read_bytes())
        start = time.process_time()
        article = read_tree(parse(decode(raw, "").text), entry["url"])
        seconds.append(time.process_time() - start)
        empty += not article.text.strip()
        precision, recall = compare(entry["articleBody"], article.text)
        rows.append((precision, recall, entry["url"]))
    precision = statistics.fmean(row[0] for row in rows)
    recall = statistics.fmean(row[1] for row in rows)
    score = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    for row in sorted(rows)[: arguments.worst]:
        print(f"precision {row[0]:.3f} recall {row[1]:.3f} {row[2]}")
    median, worst = statistics.median(seconds) * 1000, max(seconds) * 1000
    print(
        f"F1 {score:.4f} precision {precision:.4f} recall {recall:.4f} pages {len(rows)} empty {empty} "
        f"CPU median {median:.1f} ms max {worst:.0f} ms"
    )
    return 0 if score >= arguments.bar and not empty and median <= 30 and worst <= 1500 else 1


if __name__ == "__main__":
    sys.exit(main())
