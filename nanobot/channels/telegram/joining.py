"""Which messages of one person are one thing to say, and how long to wait for the next of them.

Clients cut long texts into messages, send every picture of an album and every forward on its own, and people press
Enter between lines. Pure rules: who reads the updates keeps the time.
"""

from nanobot.channels.telegram.draft import Draft
from nanobot.channels.telegram.split import utf16_length

#: Seconds after the last of several lines that came in a row; a single line waits for nothing, unless configured.
QUIET_SECONDS = 0.3
#: Seconds after a piece that its client cut off.
PASTE_SECONDS = 1.5
ALBUM_SECONDS = 0.8
FORWARD_SECONDS = 0.1
#: UTF-16 units from which a text is taken for a piece of a longer one.
PIECE_UNITS = 4_000
#: Telegram's dates are whole seconds. What was sent further apart does not belong together, however it arrives: after
#: an outage many messages come at once.
_DATE_SLACK = 2.0


def patience(draft: Draft, quiet: float = 0.0, *, in_a_row: bool = False) -> float:
    """Seconds to wait for a message that belongs to `draft`, counted from its arrival. Commands never wait.

    A line that comes later than that is read by the turn on its way, so nobody waits for one that is only possible.
    """
    if draft.command or draft.edited:
        return 0.0
    if draft.album:
        return max(ALBUM_SECONDS, quiet)
    if draft.forwarded:
        return FORWARD_SECONDS
    if utf16_length(draft.texts[-1]) >= PIECE_UNITS:
        return max(PASTE_SECONDS, quiet)
    return max(QUIET_SECONDS, quiet) if in_a_row else quiet


def continues(earlier: Draft, later: Draft, quiet: float = 0.0) -> bool:
    """True where `later`, which came within the patience of `earlier`, is one message with it, or an edit of it."""
    same = earlier.address == later.address and earlier.sender.id == later.sender.id
    if not same or earlier.command or later.command:
        return False
    if later.edited:
        return later.message_ids[0] in earlier.message_ids
    gap = (later.date - earlier.date).total_seconds()
    return abs(gap) <= patience(earlier, quiet) + _DATE_SLACK
