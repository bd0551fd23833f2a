"""One search through the ddgs library, as a process that can be killed: `python -m nanobot.web.search.ddgs_child`.

Reads one JSON line `{"proxy", "timeout", "call"}` and writes one: `{"hits": […]}`, or `{"error", "message"}` with the
kind of the exception. It ends at once where its standard input closes, so it never outlives the agent.
"""

import json
import os
import sys
import threading

from ddgs import DDGS
from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException

_KINDS = (TimeoutException, RatelimitException, DDGSException, TimeoutError, OSError)
_STRANGE = (ValueError, TypeError, LookupError, AttributeError, RuntimeError)


def main() -> None:
    """Do the one search and leave without waiting for the library's threads."""
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_agent, daemon=True).start()
    answer: dict[str, object]
    try:
        hits = DDGS(proxy=order["proxy"], timeout=order["timeout"]).text(**order["call"])
        answer = {"hits": [{key: str(value) for key, value in hit.items()} for hit in hits]}
    except _KINDS + _STRANGE as error:
        kind = next((one.__name__ for one in _KINDS if isinstance(error, one)), type(error).__name__)
        answer = {"error": kind, "message": str(error)[:2000]}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    os._exit(0)


def _end_with_the_agent() -> None:
    while sys.stdin.readline():
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
