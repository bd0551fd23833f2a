"""Keeping the index up to date beside a program that stays: a gateway, or a conversation in the terminal."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence

from loguru import logger

from nanobot.errors import NanobotError
from nanobot.library.talk import Conversations
from nanobot.utils.processes import run_nanobot

#: Seconds after the start, so that nobody's first answer waits for it; most seconds of one reading.
_FIRST_SECONDS, _LONGEST_SECONDS = 5.0, 86_400.0


class LibraryUpkeep:
    """Takes in conversations, and has the documents read by a program of its own, which gives way to all others.

    `minutes` lie between two looks. `arguments` are those of the program, None where there are no documents to read;
    `env` are its variables.
    """

    def __init__(
        self,
        conversations: Conversations,
        minutes: float,
        arguments: Sequence[str] | None,
        env: Mapping[str, str],
    ) -> None:
        self._conversations = conversations
        self._seconds = minutes * 60
        self._arguments = arguments
        self._env = env

    async def run(self, first: float = _FIRST_SECONDS) -> None:
        """Look again and again until cancelled. What fails is written into the log, and tried again the next time."""
        await asyncio.sleep(first)
        await self._safely(self._conversations.forget_deleted())
        while True:
            await self._safely(self._conversations.catch_up(_LONGEST_SECONDS))
            if self._arguments is not None:
                await self._safely(self._read(self._arguments))
            await asyncio.sleep(self._seconds)

    async def _read(self, arguments: Sequence[str]) -> None:
        done = await run_nanobot((*arguments, "library", "read", "--quiet"), _LONGEST_SECONDS, self._env)
        if done.code:
            logger.warning("the documents could not be read: {}", done.last_words or f"exit code {done.code}")

    @staticmethod
    async def _safely(work: Awaitable[object]) -> None:
        try:
            await work
        except (NanobotError, OSError, TimeoutError) as error:
            logger.warning("the library could not be brought up to date: {}", error)
