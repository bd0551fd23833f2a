"""What people have taken away with `/forget`: which words are not to be found again, kept without the words themselves.

Records of conversations are never changed. What was said up to the day on which somebody wanted it forgotten is left
out of the index, and of summaries; what they say again later counts again.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial

import msgspec
from msgspec import Struct

from nanobot.session.ledger import Ledger
from nanobot.utils.ranking import terms

#: The share of the words of a fact that a text has to hold to be taken for the same.
_SHARE = 0.75
_KEY, _BEGUN = "forgotten:", "forgetting:"

#: (text, when it was said) → whether it is to be forgotten.
Forgets = Callable[[str, datetime], bool]


class ForgottenFact(Struct, frozen=True, array_like=True):
    """What one `/forget` has taken away: the time, and a digest of each word."""

    at: datetime
    words: frozenset[str]

    @classmethod
    def of(cls, text: str, at: datetime) -> "ForgottenFact":
        return cls(at, _digests(terms(text)))

    def holds(self, text: str) -> bool:
        """Whether a text says this."""
        return self.is_in(_digests(terms(text)))

    def is_in(self, words: frozenset[str]) -> bool:
        """Whether these digests hold enough of it."""
        return bool(self.words) and len(self.words & words) >= math.ceil(_SHARE * len(self.words))


class Forgetting(Struct, frozen=True):
    """A `/forget` as it was begun, kept so that one that was cut off goes on: the id of its message, its `words`, the
    `lines` that go with their files, what is to be forgotten, and what of conversations that took away.

    When it is `done`, the words and lines are kept no longer.
    """

    request: str
    words: str
    facts: tuple[ForgottenFact, ...]
    lines: tuple[tuple[str, str], ...] = ()
    passages: int = 0
    summaries: int = 0
    done: bool = False


class ForgottenFacts:
    """The forgotten facts of people, in the notes of the ledger. Raises `StoreError`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def add(self, owner: str, facts: Iterable[ForgottenFact]) -> None:
        """Forget something of a person, once; the owner of the home is the empty one."""
        known = await self._of(owner)
        text = msgspec.json.encode([*known, *(one for one in facts if one not in known)]).decode()
        await self._ledger.set_notes({f"{_KEY}{owner}": text})

    async def begun(self, owner: str) -> Forgetting | None:
        """The last `/forget` of a person; None where there was none, or it could not be done."""
        text = await self._ledger.note(f"{_BEGUN}{owner}")
        return msgspec.json.decode(text, type=Forgetting) if text else None

    async def keep(self, owner: str, forgetting: Forgetting | None) -> None:
        """Remember how far a `/forget` has come."""
        text = msgspec.json.encode(forgetting).decode() if forgetting is not None else None
        await self._ledger.set_notes({f"{_BEGUN}{owner}": text})

    async def forgets(self, owner: str) -> Forgets:
        """What is to be forgotten of this person."""
        return partial(_holds, await self._of(owner))

    async def all(self) -> Mapping[str, Forgets]:
        """The same for all who have taken something away."""
        notes = await self._ledger.notes(_KEY)
        return {key.removeprefix(_KEY): partial(_holds, _decoded(text)) for key, text in notes.items()}

    async def _of(self, owner: str) -> list[ForgottenFact]:
        return _decoded(await self._ledger.note(f"{_KEY}{owner}") or "")


def _decoded(text: str) -> list[ForgottenFact]:
    return msgspec.json.decode(text, type=list[ForgottenFact]) if text else []


def _holds(facts: Iterable[ForgottenFact], text: str, at: datetime) -> bool:
    near = [fact for fact in facts if at <= fact.at]
    words = _digests(terms(text)) if near else frozenset[str]()
    return any(fact.is_in(words) for fact in near)


def _digests(words: Iterable[str]) -> frozenset[str]:
    return frozenset(hashlib.blake2b(word.encode(), digest_size=6).hexdigest() for word in words)
