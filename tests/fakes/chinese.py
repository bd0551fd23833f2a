"""Whether somebody who reads Chinese alone can read what is shown."""

import re

#: What is typed or followed as it stands: code, addresses, commands, options, paths, keys.
_TYPED = re.compile(
    r"```.*?```|`[^`\n]+`|\w+://[^\s，。；：）”]+|(?<![\w/])/[\w./~-]+|(?<!\w)--?[a-z][\w-]*|[\w~-]*[./@_=][\w./@=~-]*\w",
    re.DOTALL | re.ASCII,
)
_THREE_WORDS = re.compile(r"[A-Za-z][a-z'’]*(?:[,;:]? +(?:[a-z'’]{2,}|[A-Z][a-z'’]+|a|I)\b){2,}", re.ASCII)


def english_left(text: str, *given: str) -> list[str]:
    """The lines of `text` in which three Latin words stand in a row, apart from what is typed and what was `given`."""
    for words in sorted(given, key=len, reverse=True):
        text = text.replace(words, "·")
    text = _TYPED.sub("·", text)
    return [line.strip() for line in text.splitlines() if _THREE_WORDS.search(line)]
