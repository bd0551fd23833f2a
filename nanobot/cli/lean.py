"""What makes a process of the command line start cheaply, before anything large is imported."""

import gc
import os
import sys

#: Objects made before a first collection. Importing makes some hundred thousand that stay; looking through them again
#: and again was a tenth of the CPU time of a one-shot question.
COLLECT_AFTER = 50_000


def start_lean() -> None:
    """Spare this process work that no command needs. Only for a process that is ours: it changes global settings.

    httpx imports its own command line (click, rich, pygments) where click is installed; marked as missing, it does
    without, which httpx itself provides for. httpcore looks for sniffio on the whole path several times a request, to
    learn that this is asyncio; marked as missing, the answer is at hand. pydantic asks every installed package for
    plug-ins of pydantic; we use none.
    """
    gc.set_threshold(COLLECT_AFTER, 20, 20)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for name in ("httpx._main", "sniffio"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # None is how Python marks "not to be had"
