"""Pages that stand in front of the page: bot checks, logins, consent. Recognised by few and plain marks."""

import re
from typing import Literal

Wall = Literal["bot check", "login", "consent"]

#: Longest text, in characters, that can be a wall; pages that only mention a login are often a little longer.
MOST_CHARS: dict[Wall, int] = {"bot check": 1_500, "login": 600, "consent": 1_500}
_MARKS: dict[Wall, re.Pattern[str]] = {
    "bot check": re.compile(
        r"^just a moment|checking (?:if the site connection is secure|your browser)"
        r"|verify (?:that )?you(?:'| a)re (?:a )?human|are you a robot|unusual traffic from your"
        r"|complete the (?:security check|captcha)|enable javascript and cookies|ddos protection by"
        r"|press (?:and|&) hold|attention required! \| cloudflare",
        re.IGNORECASE,
    ),
    "login": re.compile(
        r"(?:(?:you (?:must|need to)|please) )?(?:log|sign) ?in to (?:continue|view|see|read)"
        r"|please (?:log|sign) ?in\b(?! to)|subscribe to (?:continue|read)"
        r"|this (?:content|page|article) is (?:only )?(?:available )?(?:for|to) (?:subscribers|members)",
        re.IGNORECASE,
    ),
    "consent": re.compile(
        r"before you continue to|accept (?:all )?cookies to (?:continue|proceed)"
        r"|we (?:and our partners )?.{0,40}need your consent",
        re.IGNORECASE,
    ),
}
_SENTENCES: dict[Wall, str] = {
    "bot check": "The site shows a check against robots instead of the page. Look for another source.",
    "login": "The site shows a login or subscription wall instead of the page. Look for a public source.",
    "consent": "The site shows a consent form instead of the page. Look for another source.",
}


def wall(title: str, text: str) -> Wall | None:
    """What stands in front of the page, None for a page. Long texts are pages whatever they say."""
    shown = f"{title}\n{text}"
    return next((name for name, marks in _MARKS.items() if len(text) <= MOST_CHARS[name] and marks.search(shown)), None)


def sentence(name: Wall) -> str:
    return _SENTENCES[name]
