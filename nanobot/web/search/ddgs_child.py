"""One search through the ddgs library, as a process that can be killed: `python -m nanobot.web.search.ddgs_child`.

Reads JSON `{"agent", "proxy", "timeout", "call"}`, writes `{"hits": […]}`, or `{"error", "message"}` with the kind of
the exception. It looks each half second whether the agent, a process id, is there: it never outlives it for long.
"""

import json
import os
import sys
import threading
import time

from ddgs import DDGS
from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException

_KINDS = (TimeoutException, RatelimitException, DDGSException, TimeoutError, OSError)
_STRANGE = (ValueError, TypeError, LookupError, AttributeError, RuntimeError)


def main() -> None:
    """Do the one search and leave without waiting for the library's threads."""
    order = json.load(sys.stdin)
    threading.Thread(target=_end_with, args=(order["agent"],), daemon=True).start()
    answer: dict[str, object]
    try:
        hits = DDGS(proxy=order["proxy"], timeout=order["timeout"]).text(**order["call"])
        answer = {"hits": [{key: str(value) for key, value in hit.items()} for hit in hits]}
    except _KINDS + _STRANGE as error:
        kind = next((one.__name__ for one in _KINDS if isinstance(error, one)), type(error).__name__)
        answer = {"error": kind, "message": str(error)[:2000]}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)


def _end_with(agent: int) -> None:
    while os.getppid() == agent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main()
