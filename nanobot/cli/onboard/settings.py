"""What is to be written into the configuration, tried before it is: the file with the changes, as a start reads it."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import aclosing

from nanobot.builder.agent import Builder
from nanobot.builder.launch import Launch
from nanobot.channels.telegram.settings import settings_of
from nanobot.config.edit import ConfigFile
from nanobot.config.loader import Loaded, load_text, located
from nanobot.config.paths import judge_home
from nanobot.doctor.findings import Finding
from nanobot.doctor.probes import for_a_try, try_bot, try_model, try_search
from nanobot.errors import SkipTool
from nanobot.money.budget import prices_of
from nanobot.providers.base import ProviderInfo
from nanobot.providers.http import is_private
from nanobot.providers.registry import ChoiceRequest, choose, offered
from nanobot.providers.vendors import vendor_of
from nanobot.web.search.catalog import Catalog

#: A key of the configuration, and its value as JSON data.
Change = tuple[tuple[str, ...], object]
#: Seconds that a model gets for its first answer; one on this machine may have to be loaded first.
HOSTED_SECONDS, LOCAL_SECONDS = 30.0, 120.0


class Settings:
    """The configuration of one home while it is set up. Raises `ConfigError` where what is there cannot be read."""

    def __init__(self, args: argparse.Namespace, env: Mapping[str, str]) -> None:
        self.env = env
        # A file that is named and not there yet is made.
        self.loaded, self.paths = located(env, args.config, args.workspace, must_exist=False)
        judge_home(self.paths)
        self.changed = False

    def with_changes(self, changes: Sequence[Change]) -> Loaded:
        """What a start would read after these changes. Raises `ConfigError`."""
        return load_text(ConfigFile(self.paths.config, self.env).with_values(changes), self.paths.config, env=self.env)

    def write(self, changes: Sequence[Change]) -> None:
        """Write them all in one step. Raises `ConfigError`, and `UsageError` where somebody else wrote meanwhile."""
        file = ConfigFile(self.paths.config, self.env)
        text = file.with_values(changes)
        if text != file.text:
            self.loaded = file.replace(text)
            self.changed = True

    async def try_model(self, changes: Sequence[Change]) -> tuple[Finding, ProviderInfo | None]:
        """Ask the model that would answer after these changes."""
        choice, prices = await self._choice(changes), prices_of(self.loaded.config.prices)
        seconds = LOCAL_SECONDS if _is_near(choice) else HOSTED_SECONDS
        return await try_model(lambda: choose(for_a_try(choice, seconds)), prices, seconds)

    async def offered(self, changes: Sequence[Change]) -> tuple[str, ...]:
        """The models that the service would offer after these changes; none where it does not say."""
        return await offered(for_a_try(await self._choice(changes), 5.0))

    async def _choice(self, changes: Sequence[Change]) -> ChoiceRequest:
        loaded = self.with_changes(changes)
        async with aclosing(await Builder.begin(loaded, self.paths, Launch(ephemeral=True), self.env)) as builder:
            return builder.models.choice()

    async def try_bot(self, changes: Sequence[Change]) -> list[Finding]:
        """Ask Telegram about the bot that would answer after these changes. Raises `UsageError` for no token at all."""
        return await try_bot(settings_of(self.with_changes(changes).config.channels.telegram, self.env))

    async def try_search(self) -> Finding | None:
        """Ask the search engine that comes first; None where searching is switched off."""
        web = self.loaded.config.tools.web
        if not web.enable:
            return None
        catalog = Catalog(web.search, self.env, web.proxy)
        try:
            link = catalog.link(catalog.first())
        except SkipTool as error:
            return Finding("Search", "off", str(error))
        return await try_search(link)


def _is_near(choice: ChoiceRequest) -> bool:
    """Whether the model is on a machine of the owner's, where it may have to be loaded first."""
    vendor = vendor_of(choice.provider)
    base = choice.credentials[choice.provider].api_base if choice.provider in choice.credentials else ""
    return (vendor is not None and vendor.local) or bool(base and is_private(base))
