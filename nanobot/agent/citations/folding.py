"""Text as it is compared: letters and digits without accents, case and what stands between them."""

import re
import unicodedata

_MARKS = re.compile("[\u0300-\u036f]")


def squash(text: str) -> str:
    """Letters and digits alone, folded: what two printings of the same words share."""
    return "".join(sign for sign in fold(unicodedata.normalize("NFKC", text)) if sign.isalnum())


def fold(text: str) -> str:
    return _MARKS.sub("", unicodedata.normalize("NFKD", text.casefold()))
