"""Runs the agent and its channels side by side until they are told to stop."""

import asyncio
from collections.abc import Sequence

from loguru import logger

from nanobot.channels.base import Agent, BaseChannel
from nanobot.errors import ChannelError, NanobotError


class ChannelManager:
    """`run` serves until `stop`, or until no channel is left."""

    def __init__(self, agent: Agent, channels: Sequence[BaseChannel]) -> None:
        self._agent = agent
        self._channels = tuple(channels)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(channel.name for channel in self._channels)

    async def run(self) -> None:
        """Serve all channels. One that ends with an error leaves the others alone; the last one's error is raised."""
        if not self._channels:
            raise ChannelError("No channel is switched on.")
        serving = asyncio.create_task(self._agent.loop.run())
        try:
            ends = await asyncio.gather(*(self._serve(channel) for channel in self._channels))
        finally:
            serving.cancel()
            await asyncio.wait({serving})
        problems = [problem for problem in ends if problem is not None]
        if len(problems) == len(self._channels):
            raise problems[0]

    async def stop(self) -> None:
        """Let every channel end in order: nothing new is taken, what runs gets a moment, answers are delivered."""
        for channel in self._channels:
            await channel.stop()

    @staticmethod
    async def _serve(channel: BaseChannel) -> NanobotError | None:
        try:
            await channel.start()
        except NanobotError as error:
            logger.error("{} has stopped: {}", channel.name, error)
            return error
        return None
