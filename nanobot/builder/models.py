"""From a configuration to the model that answers: presets, keys, fallbacks, and what a service offers."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from nanobot.agent.monitoring import watched
from nanobot.bus.alarms import Alarms
from nanobot.config.loader import Loaded
from nanobot.config.schema import ModelPresetConfig
from nanobot.errors import UsageError
from nanobot.providers.base import LLMProvider, ModelOffer, ProviderInfo
from nanobot.providers.registry import ChoiceRequest, choose, judge_offer, tuning_of
from nanobot.providers.registry import offered as offered_by
from nanobot.providers.retry import USUAL
from nanobot.providers.vendors import Family, family_of, vendor_of
from nanobot.utils.text import nearest
from nanobot.utils.translation import N_, _, listed, sentences

if TYPE_CHECKING:
    from nanobot.money.prices import Prices
    from nanobot.plugins.entry_points import Plugins

#: Seconds for which a list of models is taken as it was.
LISTED_SECONDS = 600.0


class Models:
    """The models as the configuration and its presets have them. `introduced` is where the provider without a model
    notes that it has said what it is, None where nothing is kept.
    """

    def __init__(
        self, loaded: Loaded, env: Mapping[str, str], alarms: Alarms, plugins: "Plugins | None", introduced: Path | None
    ) -> None:
        self.configure(loaded)
        self._env = env
        self._alarms = alarms
        self._plugins = plugins
        self._introduced = introduced

    def configure(self, loaded: Loaded) -> None:
        """Have the models of this configuration from now on."""
        self._config, self._disabled = loaded.config, loaded.disabled
        self._defaults = loaded.config.agents.defaults
        self._prices: Prices | None = None
        self._lists: dict[str, tuple[float, tuple[str, ...]]] = {}

    async def provider(self, model: str = "") -> LLMProvider:
        """The model that answers. Raises `UsageError` where there is none."""
        if self._plugins is not None and (own := self._plugins.provider(model, self._defaults)) is not None:
            return watched(own, self._alarms)
        return watched(await choose(self.choice(model)), self._alarms)

    def choice(self, model: str = "") -> ChoiceRequest:
        """What to ask the registry for. A model named by a person may point to another vendor than the configured.

        Raises `UsageError` for a preset that is not there.
        """
        config, defaults = self._config, self._defaults
        wanted = model or (defaults.model_preset if defaults.model_preset != "default" else "")
        preset = config.model_presets.get(wanted)
        if preset is None and wanted and not model:
            near = nearest(wanted, [*config.model_presets])
            hint = _("Write it under modelPresets, or take the key out.")
            if near:
                hint = _('Did you mean "{name}"?', name=near)
            text = _('agents.defaults.modelPreset names "{name}", which modelPresets does not have.', name=wanted)
            raise UsageError(sentences(text, hint))
        usual = "auto" if "/" in model and vendor_of(model.partition("/")[0]) else defaults.provider
        usual = "lookup" if model.casefold() == "lookup" else usual
        fallbacks = preset.fallback_models if preset and preset.fallback_models else defaults.fallback_models
        return ChoiceRequest(
            model=preset.model if preset else model or defaults.model,
            provider=preset.provider if preset else usual,
            credentials=config.providers,
            env=self._env,
            disabled={
                where.removeprefix("providers."): reason
                for where, reason in self._disabled.items()
                if where.startswith("providers.")
            },
            fallbacks=tuple(config.model_presets.get(one, one) if isinstance(one, str) else one for one in fallbacks),
            window=(preset or defaults).context_window_tokens,
            tuning=tuning_of(preset) if preset else USUAL,
            fallback_factory=self._lookup,
        )

    async def switch(self, name: str) -> LLMProvider:
        if name.casefold() == "lookup":
            return self._lookup()
        provider = await self.provider(name)
        if name and name not in self._config.model_presets and not self._added(provider.info):
            info = provider.info
            judge_offer(info.model, await offered_by(self.choice(name)), info.name)
        return provider

    async def offered(self, info: ProviderInfo) -> tuple[ModelOffer, ...]:
        """The presets, the configured model, and what the service of a chat's model offers besides it, asked for again
        after `LISTED_SECONDS`."""
        if not info.capabilities.language_model and not self._config.model_presets:
            return ()
        named = [ModelOffer(name, self._of_preset(one), "preset") for name, one in self._config.model_presets.items()]
        usual = self._defaults.model_preset or self._defaults.model or _("what the configuration leads to")
        configured = ModelOffer("default", _("as configured: {model}", model=usual), "default")
        there = [ModelOffer(name, self._about(info, name)) for name in await self._listed(info)]
        return (*named, configured, *there) if named or there else ()

    async def _listed(self, info: ProviderInfo) -> tuple[str, ...]:
        if not info.capabilities.language_model or self._added(info):
            return ()
        since, names = self._lists.get(info.base_url, (0.0, ()))
        if not names or time.monotonic() - since > LISTED_SECONDS:
            names = await offered_by(replace(self.choice(), model=info.model, provider=info.name))
            self._lists[info.base_url] = time.monotonic(), names
        return names

    def facts(self, info: ProviderInfo) -> str:
        """What is known of a model, as a sentence: whether it sees pictures, its context, and its price."""
        able = info.capabilities
        if not able.language_model:
            return ""
        unknown = _("its price is not known")
        if info.local:
            unknown = _("its server is in your own network, so no money is counted")
        sees = N_("It sees pictures, its context is {window:,} tokens, {cost}.")
        blind = N_("It does not see pictures, its context is {window:,} tokens, {cost}.")
        cost = self._price(info, info.model) or unknown
        return _(sees if able.vision else blind, window=able.window, cost=cost)

    def _about(self, info: ProviderInfo, model: str) -> str:
        """What is known of a model that a service lists; nothing is said that is only assumed."""
        family = family_of(model)
        known = family != Family()
        seen = [_("sees pictures")] if known and family.vision else []
        window = [f"{family.window // 1000}k"] if known else []
        return listed([*window, *seen, *filter(None, [self._price(info, model)])])

    def _of_preset(self, preset: ModelPresetConfig) -> str:
        model = preset.model or _("the usual model")
        if preset.provider != "auto":
            model = f"{model} ({preset.provider})"
        effort = preset.reasoning_effort
        return _("{model}, effort {effort}", model=model, effort=effort) if effort else model

    def _price(self, info: ProviderInfo, model: str) -> str:
        """What a million tokens cost; empty where nobody knows."""
        from nanobot.money.budget import prices_of

        if self._prices is None:
            self._prices = prices_of(self._config.prices)
        price = self._prices.price(info.name, model, local=info.local, day=datetime.now(UTC).date())
        if price is None or price.free:
            return ""
        return _("{input:g} USD in and {output:g} USD out for a million tokens", input=price.input, output=price.output)

    def _lookup(self) -> LLMProvider:
        """The provider of last resort, loaded only where it answers."""
        from nanobot.providers.lookup.provider import LookupProvider

        return LookupProvider(self._introduced)

    def _added(self, info: ProviderInfo) -> bool:
        """Whether a plug-in answers, whose models nobody lists."""
        return self._plugins is not None and info.name in self._plugins.providers
