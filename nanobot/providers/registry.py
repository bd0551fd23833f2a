"""From a model name, keys and what runs on this machine to a provider, and to a sentence on how that came about."""

import re
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.config.proxy import Proxies, UnusableProxy
from nanobot.config.schema import ModelPresetConfig, ProviderConfig
from nanobot.errors import UsageError
from nanobot.providers.base import LLMProvider, ProviderInfo
from nanobot.providers.failures import Origin
from nanobot.providers.http import LOCAL_DEADLINES, Deadlines, Endpoint, is_private, list_models, searches_itself
from nanobot.providers.local import LocalModel, LocalServer, probe, usual_roots
from nanobot.providers.retry import USUAL, RetryPolicy, RetryProvider, Tuning
from nanobot.providers.vendors import BY_NAME, THINKING_STYLES, VENDORS, Vendor, capabilities_of, unsupported, vendor_of
from nanobot.utils.secrecy import Reticent
from nanobot.utils.text import nearest, sendable
from nanobot.utils.translation import N_, Later, _, listed, sentences, told

#: Names with a tag, as local servers write them (`qwen3:8b`), and not `ft:gpt-4o:me` or `vendor/model:free`.
_LOCAL_NAME = r"(?!ft:)[\w.-]+:[\w.-]*[A-Za-z][\w.-]*"
#: The variable of a key that is sent as services other than Anthropic's own want it.
_BEARER = "ANTHROPIC_AUTH_TOKEN"
_ELSE = N_("name another provider (agents.defaults.provider or --model)")


class ChoiceRequest(Reticent, frozen=True):
    """What is known when a provider is to be chosen. Everything has a default.

    `provider` names a vendor or is `auto`; `model` may carry a prefix, as in `anthropic/claude-sonnet-4-6`.
    `credentials` are by vendor name in the order of the configuration, `env` is the environment. `disabled` are the
    names of vendors that must not be asked, each with the reason. `fallbacks` are models to ask when the first cannot
    answer. `window` and `vision` override the table for the first model, `tuning` what its requests say.
    `local_roots` replaces the usual addresses of local servers. `fallback_factory` makes the provider of last resort.
    """

    unprinted = ("env",)

    model: str = ""
    provider: str = "auto"
    credentials: Mapping[str, ProviderConfig] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    disabled: Mapping[str, str] = field(default_factory=dict)
    fallbacks: tuple[ModelPresetConfig | str, ...] = ()
    tuning: Tuning = USUAL
    local_roots: Mapping[str, str] | None = None
    window: int | None = None
    vision: bool | None = None
    deadlines: Deadlines | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    fallback_factory: Callable[[], LLMProvider] | None = None


class _Pick(Struct, frozen=True):
    """A vendor with the model to ask (empty: none named), and why."""

    vendor: Vendor
    because: str
    model: str = ""
    local: LocalModel | None = None


async def choose(request: ChoiceRequest) -> LLMProvider:
    """The provider for `request`, with retries and its fallback models around it.

    In this order: the named vendor, the vendor the model's name tells, a key in the configuration, a key in the
    environment, a local server that answers, `fallback_factory`. Raises `UsageError` where a name is unknown or lacks
    its key, and says the nearest right one.
    """
    if request.provider.casefold() in {"lookup", "none"}:
        return _last_resort(request, _("lookup is named in the configuration"))
    main = await _Choice(request).provider()
    if main is None:
        return _last_resort(request, _("no key is set and no local model server answers"))
    models = [(main, request.tuning)]
    for one in request.fallbacks:
        preset = ModelPresetConfig(one) if isinstance(one, str) else one
        window = preset.context_window_tokens
        asked = replace(request, model=preset.model, provider=preset.provider, window=window, vision=None)
        if provider := await _Choice(asked).provider():
            models.append((provider, USUAL if isinstance(one, str) else tuning_of(preset)))
    return RetryProvider(models, request.retry)


def tuning_of(preset: ModelPresetConfig) -> Tuning:
    """What the requests to the model of a preset say."""
    return Tuning(preset.max_tokens, preset.temperature, preset.reasoning_effort, own_effort=True)


async def offered(request: ChoiceRequest) -> tuple[str, ...]:
    """The models that the service chosen for `request` lists now; none where it cannot be asked or does not say."""
    choice = _Choice(request)
    pick = await choice.pick()
    if pick is None:
        return ()
    return tuple(name.removeprefix("models/") for name in await list_models(choice.endpoint(pick.vendor)))


def judge_offer(model: str, names: tuple[str, ...], title: str) -> None:
    """Raise `UsageError` where a service lists its models and has none of this name.

    Names that point to others, such as `kimi-latest` or `x:free`, are often not listed and pass.
    """
    model = model.removeprefix("models/")
    passes = not names or model.endswith(("latest", "auto"))
    if not passes and not any(name.startswith(model.partition(":")[0]) for name in names):
        raise UsageError(
            sentences(
                _("{title} has no model {model!r}.", title=title, model=model),
                _hint(model, names),
                _("/model lists what it offers."),
            )
        )


def _last_resort(request: ChoiceRequest, because: str) -> LLMProvider:
    if request.fallback_factory is None:
        names = ", ".join(vendor.keys[0] for vendor in VENDORS[:3])
        raise UsageError(
            _(
                "There is no model to ask: {because}. Set a key such as {names}, or start a local server.",
                because=because,
                names=names,
            )
        )
    return request.fallback_factory()


def _hint(word: str, known: Iterable[str]) -> str:
    near = nearest(word, known)
    return _("Did you mean {near!r}?", near=near) if near else ""


class _Choice:
    """One choice: the vendors as this configuration and this environment know them."""

    def __init__(self, request: ChoiceRequest) -> None:
        self._asked = request

    async def provider(self) -> LLMProvider | None:
        """The wire of the model that is picked. Raises `UsageError` where it cannot be asked."""
        pick = await self.pick()
        if pick is None:
            return None
        vendor = pick.vendor
        if reason := self._off(vendor):
            raise UsageError(
                _(
                    "{title} is switched off: {why}. Put that right, or {otherwise}.",
                    title=vendor.title,
                    why=reason.rstrip(".。"),
                    otherwise=_(_ELSE),
                )
            )
        if not (vendor.local or self._ready(vendor)):
            raise UsageError(_missing(pick))
        endpoint = self.endpoint(vendor)
        model = pick.model or await _default_model(vendor, endpoint)
        seen = pick.local or LocalModel(model)
        vision = seen.vision if self._asked.vision is None else self._asked.vision
        able = capabilities_of(model, window=self._asked.window or seen.window or None, vision=vision)
        able = replace(able, reads_pages=vendor.reads_pages, pdf=vendor.reads_pdf and able.vision)
        able = replace(able, searches=searches_itself(endpoint.extra_body))
        own = not vendor.hosted and is_private(endpoint.base_url) and not model.endswith(("-cloud", ":cloud"))
        info = ProviderInfo(vendor.name, model, endpoint.base_url, pick.because, own, able)
        if vendor.wire == "messages":
            from nanobot.providers.anthropic import AnthropicProvider

            return AnthropicProvider(info, endpoint)
        from nanobot.providers.openai_compat import OpenAICompatProvider

        style = self._credentials(vendor).thinking_style
        thinking = THINKING_STYLES[style] if style else vendor.quirks.thinking
        return OpenAICompatProvider(info, endpoint, replace(vendor.quirks, thinking=thinking))

    async def pick(self) -> _Pick | None:
        """Whom to ask; None where nothing is named and nothing is set up."""
        asked, name = self._asked, self._asked.provider.strip()
        if name and name.casefold() != "auto":
            return await self._named(name)
        if asked.model:
            return await self._by_model(asked.model)
        for name in asked.credentials:
            vendor = self._vendor(name)
            if vendor and self._ready(vendor) and (vendor.default_model or not vendor.hosted):
                return _Pick(vendor, Later(N_("it is set up in the configuration (providers.{name})"), name=name))
        for vendor in VENDORS:
            if (variable := self._variable(vendor)) and vendor.default_model and not self._off(vendor):
                return _Pick(vendor, Later(N_("a key is in the environment ({variable})"), variable=variable))
        for server in await self._servers():
            if best := server.best:
                return _at(server, best, Later(N_("a local server answers at {root}"), root=server.root))
        return None

    async def _named(self, name: str) -> _Pick:
        vendor = self._vendor(name)
        if vendor is None and (why := unsupported(name)):
            no_such = _("The provider {name!r} is not supported.", name=name)
            raise UsageError(sentences(no_such, why, _("Name another one.")))
        if vendor is None:
            known = [*dict.fromkeys([*BY_NAME, *filter(self._vendor, self._asked.credentials)])]
            raise UsageError(
                sentences(
                    _("There is no provider {name!r}.", name=name),
                    _hint(name, known),
                    _("Known: {names}.", names=listed(["auto", *known, "lookup"])),
                )
            )
        prefix, rest = [*self._asked.model.split("/", 1), ""][:2]
        model = rest if rest and self._vendor(prefix) == vendor else self._asked.model
        because = Later(N_("it is named in the configuration"))
        if vendor.local and self._credentials(vendor) == ProviderConfig():
            for server in await self._servers():
                if server.vendor == vendor.name:
                    return _at(server, _listed(server, model), because)
        return _Pick(vendor, because, model)

    async def _by_model(self, model: str) -> _Pick:
        """The vendor in front of the name, a service that has the model, or the only one that is set up."""
        prefix, rest = [*model.split("/", 1), ""][:2]
        vendor = self._vendor(prefix) if rest else None
        if vendor and (vendor.local or self._ready(vendor)):
            return await self._named(vendor.name)
        router = BY_NAME["openrouter"]
        if rest and self._ready(router):
            return _Pick(router, Later(N_("it serves the model {model!r}"), model=model), model)
        if re.fullmatch(_LOCAL_NAME, model):
            return await self._tagged(model)
        because = Later(N_("the model name {model!r} asks for it"), model=model)
        owner = vendor or next((one for one in VENDORS if any(re.match(known, model) for known in one.models)), None)
        if owner and self._ready(owner):
            return _Pick(owner, because, model)
        if other := next((one for one in VENDORS if not (one.models or one.local) and self._ready(one)), None):
            return _Pick(
                other, Later(N_("its key is set and no other vendor is known for {model!r}"), model=model), model
            )
        servers = await self._servers()
        if found := _serving(servers, model):
            return found
        names = [item.id for server in servers for item in server.models]
        if owner:  # without a key: the caller says what is missing
            here = next((name for name in names if name.startswith(f"{model}:")), "")
            if here:
                because = Later(N_("{why}; for the one on this machine write {here!r}"), why=because, here=here)
            return _Pick(owner, because, rest if vendor else model)
        ready = self._set_up()
        if len(ready) == 1:
            return _Pick(ready[0], Later(N_("it is the only provider that is set up")), model)
        hint = _hint(model, [*names, *(f"{one.name}/{one.default_model}" for one in VENDORS if one.default_model)])
        raise UsageError(
            sentences(
                _("No provider is known for the model {model!r}.", model=model), hint, _("Write it as vendor/model.")
            )
        )

    async def _tagged(self, model: str) -> _Pick:
        """Who has a model whose name only local servers write so: one on this machine, or one that is set up."""
        servers = await self._servers()
        if found := _serving(servers, model):
            return found
        for vendor in self._set_up():
            if vendor.local or not vendor.models:
                return _Pick(
                    vendor,
                    Later(
                        N_("{model!r} is the name of a local model, and {title} is set up"),
                        model=model,
                        title=vendor.title,
                    ),
                    model,
                )
        said = _(
            "{model!r} is the name of a model on a local server such as Ollama, but none that answers has it.",
            model=model,
        )
        how = _("Start Ollama and run `ollama pull {model}`, or write vendor/model for a service.", model=model)
        raise UsageError(sentences(said, how))

    async def _servers(self) -> tuple[LocalServer, ...]:
        """The local servers that answer, without those that must not be asked."""
        roots = usual_roots(self._asked.env) if self._asked.local_roots is None else self._asked.local_roots
        return await probe({name: root for name, root in roots.items() if not self._off(BY_NAME[name])})

    def _vendor(self, name: str) -> Vendor | None:
        """A known vendor, or one that the configuration describes with an address of its own."""
        given = self._asked.credentials.get(name, ProviderConfig())
        described = name in self._asked.disabled or given.api_base
        return vendor_of(name) or (replace(BY_NAME["custom"], name=name, title=name) if described else None)

    def _off(self, vendor: Vendor) -> str:
        """Why a vendor must not be asked; empty where it may be."""
        return next((why for name, why in self._asked.disabled.items() if self._vendor(name) == vendor), "")

    def _set_up(self) -> list[Vendor]:
        """The vendors of the configuration that can be asked."""
        named = (self._vendor(name) for name in self._asked.credentials)
        return [vendor for vendor in named if vendor and self._ready(vendor)]

    def _variable(self, vendor: Vendor) -> str:
        return next((name for name in vendor.keys if self._asked.env.get(name, "").strip()), "")

    def _credentials(self, vendor: Vendor) -> ProviderConfig:
        """Configuration first, then the environment; the address of the environment goes with its key."""
        if self._off(vendor):
            return ProviderConfig()
        named = self._asked.credentials.items()
        given = next((one for name, one in named if self._vendor(name) == vendor), ProviderConfig())
        env, variable = self._asked.env, self._variable(vendor)
        key = given.api_key or (env[variable].strip() if variable else "")
        base = given.api_base or (env.get(vendor.base_url_key, "") if vendor.base_url_key else "")
        return replace(given, api_key=key, api_base=base) if key or base else ProviderConfig()

    def _ready(self, vendor: Vendor) -> bool:
        """A key, or an address that needs none: on this machine or network, or of a server that the owner describes."""
        held, own = self._credentials(vendor), not vendor.base_url
        open_ = held.api_base and (own or vendor.local or is_private(held.api_base))
        return bool(open_ or (held.api_key and (held.api_base or not own)))

    def endpoint(self, vendor: Vendor) -> Endpoint:
        """Where a vendor is reached and how. Raises `UsageError` for a key or a proxy that cannot be used."""
        held = self._credentials(vendor)
        base = (held.api_base or vendor.base_url).rstrip("/")
        key = f"providers.{vendor.name}.apiKey"
        hint = _("{key} or {variable}", key=key, variable=vendor.keys[0]) if vendor.keys else key
        if not sendable(held.api_key):
            raise UsageError(
                _(
                    "No request can carry the key of {title}: it holds a character that is no printable ASCII. Copy "
                    "it again, in one piece ({hint}).",
                    title=vendor.title,
                    hint=hint,
                )
            )
        headers = dict(vendor.headers)
        if held.api_key and "Authorization" not in held.extra_headers:
            messages = vendor.wire == "messages" and self._asked.env.get(_BEARER, "").strip() != held.api_key
            headers |= {"x-api-key": held.api_key} if messages else {"Authorization": f"Bearer {held.api_key}"}
        near = vendor.local or is_private(base)
        endpoint = Endpoint(
            Origin(vendor.title, hint, (held.api_key, *held.extra_headers.values())),
            base,
            {**headers, **held.extra_headers},
            self._asked.deadlines or (LOCAL_DEADLINES if near else Deadlines()),
            Proxies(env=self._asked.env),
            held.extra_body,
        )
        try:
            endpoint.proxy  # noqa: B018 - it is read here once, so that a wrong one is told
        except UnusableProxy as error:
            raise UsageError(f"{error}.") from None
        return endpoint


def _missing(pick: _Pick) -> str:
    name, title = pick.vendor.name, pick.vendor.title
    if not pick.vendor.base_url and name == "custom":
        return _(
            "The provider {name!r} needs its address. Set providers.{name}.apiBase (and apiKey) in the configuration.",
            name=name,
        )
    key, variable = f"providers.{name}.apiKey", next(iter(pick.vendor.keys), "")
    needs = _("{title} needs a key ({because}).", title=title, because=told(pick.because))
    if not variable:
        return sentences(needs, _("Set {key} in the configuration.", key=key))
    return sentences(needs, _("Set {key} in the configuration or {variable}.", key=key, variable=variable))


def _at(server: LocalServer, model: LocalModel | None, because: str) -> _Pick:
    vendor = replace(BY_NAME[server.vendor], base_url=f"{server.root}/v1")
    return _Pick(vendor, because, model.id if model else "", model)


def _serving(servers: Iterable[LocalServer], model: str) -> _Pick | None:
    """The local server that has the model."""
    found = ((server, item) for server in servers for item in server.models if item.id == model)
    return next(
        (
            _at(at, item, Later(N_("the local server at {root} has {model!r}"), root=at.root, model=model))
            for at, item in found
        ),
        None,
    )


def _listed(server: LocalServer, model: str) -> LocalModel | None:
    if not model:
        return server.best
    names = [item.id for item in server.models]
    for item in server.models:
        if item.id in {model, f"{model}:latest"}:
            return item
    raise UsageError(
        sentences(
            _("The server at {root} has no model {model!r}.", root=server.root, model=model),
            _hint(model, names),
            _("It has: {names}.", names=listed(names[:10])),
        )
    )


async def _default_model(vendor: Vendor, endpoint: Endpoint) -> str:
    """The newest of the vendor's preferred models that its live list has; names in this file grow old."""
    names = await list_models(endpoint)
    for pattern in vendor.preferred:
        if fitting := [name for name in names if re.fullmatch(pattern.removesuffix("$") + r"[\w.-]*", name)]:
            exact = [name for name in fitting if re.match(pattern, name)]
            return max(exact or fitting, key=_version)
    if not vendor.default_model and names and not vendor.hosted:
        return names[0]
    if vendor.local:
        raise UsageError(
            _(
                "{title} does not answer at {base_url} or has no model. Start it, then try again.",
                title=vendor.title,
                base_url=endpoint.base_url,
            )
        )
    if not vendor.default_model:
        raise UsageError(_("{title}: name a model (agents.defaults.model or --model).", title=vendor.title))
    return vendor.default_model


def _version(name: str) -> tuple[tuple[int, ...], int]:
    """Order by the numbers in a name, dates last; a shorter name goes before its dated twin."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", name) if len(number) < 4)
    return numbers, -len(name)
