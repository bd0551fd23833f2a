"""From a model name, keys and what runs on this machine to a provider, and to a sentence on how that came about."""

import re
from collections.abc import Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.config.proxy import Proxies, UnusableProxy
from nanobot.errors import UsageError
from nanobot.providers.base import LLMProvider, ProviderInfo
from nanobot.providers.failures import Origin
from nanobot.providers.http import LOCAL_DEADLINES, Deadlines, Endpoint, is_private, list_models
from nanobot.providers.local import LocalModel, LocalServer, probe, usual_roots
from nanobot.providers.retry import USUAL, RetryPolicy, RetryProvider, Tuning
from nanobot.providers.vendors import BY_NAME, VENDORS, ThinkingStyle, Vendor, capabilities_of, unsupported, vendor_of
from nanobot.utils.reticent import Reticent
from nanobot.utils.text import nearest, sendable

#: Names with a tag, as local servers write them (`qwen3:8b`), and not `ft:gpt-4o:me` or `vendor/model:free`.
_LOCAL_NAME = r"(?!ft:)[\w.-]+:[\w.-]*[A-Za-z][\w.-]*"
_ELSE = "name another provider (agents.defaults.provider or --model)"


class Credentials(Reticent, frozen=True):
    """What the configuration says of one vendor. Nothing of it is ever shown."""

    unprinted = ("api_key", "extra_headers", "extra_body")

    api_key: str = ""
    api_base: str = ""
    extra_headers: Mapping[str, str] = field(default_factory=dict)
    extra_body: Mapping[str, object] = field(default_factory=dict)
    thinking: ThinkingStyle | None = None


class ModelChoice(Struct, frozen=True):
    """A model to fall back on: its name, its provider, its window, and what its requests say differently."""

    model: str
    provider: str = "auto"
    window: int | None = None
    tuning: Tuning = USUAL


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
    credentials: Mapping[str, Credentials] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    disabled: Mapping[str, str] = field(default_factory=dict)
    fallbacks: tuple[ModelChoice, ...] = ()
    tuning: Tuning = USUAL
    probe_local: bool = True
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
        return _last_resort(request, "lookup is named in the configuration")
    main = await _one(request)
    if main is None:
        return _last_resort(request, "no key is set and no local model server answers")
    others = [
        await _one(replace(request, model=one.model, provider=one.provider, window=one.window, vision=None))
        for one in request.fallbacks
    ]
    models = [(main, request.tuning)]
    models += [(provider, one.tuning) for provider, one in zip(others, request.fallbacks, strict=True) if provider]
    return RetryProvider(models, request.retry)


def _last_resort(request: ChoiceRequest, because: str) -> LLMProvider:
    if request.fallback_factory is None:
        names = ", ".join(vendor.keys[0] for vendor in VENDORS[:3])
        raise UsageError(f"There is no model to ask: {because}. Set a key such as {names}, or start a local server.")
    return request.fallback_factory()


async def _one(request: ChoiceRequest) -> LLMProvider | None:
    pick = await _pick(request)
    if pick is None:
        return None
    if reason := _off(pick.vendor, request):
        raise UsageError(f"{pick.vendor.title} is switched off: {reason.rstrip('.')}. Put that right, or {_ELSE}.")
    credentials = _credentials(request, pick.vendor)
    if pick.vendor.local:
        credentials = credentials or Credentials()
    elif not _usable(pick.vendor, credentials):
        raise UsageError(_missing(pick))
    return await _build(request, pick, credentials or Credentials())


def _missing(pick: _Pick) -> str:
    name, title = pick.vendor.name, pick.vendor.title
    if not pick.vendor.base_url and name == "custom":
        return (
            f"The provider {name!r} needs its address. Set providers.{name}.apiBase (and apiKey) in the configuration."
        )
    ways = " or ".join([f"providers.{name}.apiKey in the configuration", *pick.vendor.keys[:1]])
    return f"{title} needs a key ({pick.because}). Set {ways}."


async def _pick(request: ChoiceRequest) -> _Pick | None:
    name = request.provider.strip()
    if name and name.casefold() != "auto":
        return await _named(request, name)
    if request.model:
        return await _by_model(request)
    for name in request.credentials:
        vendor = _vendor(name, request)
        if vendor and _usable(vendor, request.credentials[name]) and (vendor.default_model or not vendor.hosted):
            return _Pick(vendor, f"it is set up in the configuration (providers.{name})")
    for vendor in VENDORS:
        variable = _variable(vendor, request.env)
        if variable and vendor.default_model and not _off(vendor, request):
            return _Pick(vendor, f"a key is in the environment ({variable})")
    servers = await _local(request)
    for server in servers:
        if best := server.best:
            return _at(server, best, f"a local server answers at {server.root}")
    return None


async def _named(request: ChoiceRequest, name: str) -> _Pick:
    vendor = _vendor(name, request)
    if vendor is None and (why := unsupported(name)):
        raise UsageError(f"The provider {name!r} is not supported. {why} Name another one.")
    if vendor is None:
        known = [*dict.fromkeys([*BY_NAME, *(one for one in request.credentials if _vendor(one, request))])]
        near = nearest(name, known)
        hint = f" Did you mean {near!r}?" if near else ""
        raise UsageError(f"There is no provider {name!r}.{hint} Known: auto, {', '.join(known)}, lookup.")
    prefix, _, rest = request.model.partition("/")
    model = rest if rest and vendor_of(prefix) == vendor else request.model
    because = "it is named in the configuration"
    if vendor.local and not _credentials(request, vendor):
        for server in await _local(request):
            if server.vendor == vendor.name:
                return _at(server, _listed(server, model), because)
    return _Pick(vendor, because, model)


async def _by_model(request: ChoiceRequest) -> _Pick:
    model = request.model
    prefix, _, rest = model.partition("/")
    because = f"the model name {model!r} asks for it"
    vendor = _vendor(prefix, request) if rest else None
    if vendor and (vendor.local or _usable(vendor, _credentials(request, vendor))):
        return await _named(replace(request, provider=vendor.name), vendor.name)
    router = BY_NAME["openrouter"]
    if rest and _usable(router, _credentials(request, router)):
        return _Pick(router, f"it serves the model {model!r}", model)
    if re.fullmatch(_LOCAL_NAME, model):
        return await _tagged(request)
    owner = vendor or next((v for v in VENDORS if any(re.match(pattern, model) for pattern in v.models)), None)
    if owner and _usable(owner, _credentials(request, owner)):
        return _Pick(owner, because, model)
    if other := _gateway(request):
        return _Pick(other, f"its key is set and no other vendor is known for {model!r}", model)
    servers = await _local(request)
    for server in servers:
        if found := next((item for item in server.models if item.id == model), None):
            return _at(server, found, f"the local server at {server.root} has {model!r}")
    names = [item.id for server in servers for item in server.models]
    if owner:  # without a key: the caller says what is missing
        here = next((name for name in names if name.startswith(f"{model}:")), "")
        because += f"; for the one on this machine write {here!r}" if here else ""
        return _Pick(owner, because, rest if vendor else model)
    ready = [
        one for name, held in request.credentials.items() if (one := _vendor(name, request)) and _usable(one, held)
    ]
    if len(ready) == 1:
        return _Pick(ready[0], "it is the only provider that is set up", model)
    near = nearest(model, [*names, *(f"{v.name}/{v.default_model}" for v in VENDORS if v.default_model)])
    hint = f" Did you mean {near!r}?" if near else ""
    raise UsageError(f"No provider is known for the model {model!r}.{hint} Write it as vendor/model.")


async def _tagged(request: ChoiceRequest) -> _Pick:
    """Who has a model whose name only local servers write so: one on this machine, or one that the owner has set up."""
    model, servers = request.model, await _local(request)
    for server in servers:
        if here := next((item for item in server.models if item.id == model), None):
            return _at(server, here, f"the local server at {server.root} has {model!r}")
    for name, held in request.credentials.items():
        vendor = _vendor(name, request)
        if vendor and (vendor.local or not vendor.models) and _usable(vendor, held):
            return _Pick(vendor, f"{model!r} is the name of a local model, and {vendor.title} is set up", model)
    there = "; ".join(
        f"the one at {server.root} has {', '.join(item.id for item in server.models[:10])}" for server in servers
    )
    found = f"but it is on none that answers: {there}" if there else "but none answers here"
    raise UsageError(
        f"{model!r} is the name of a model on a local server such as Ollama, {found}. Start Ollama and run "
        f"`ollama pull {model}`, or write vendor/model for a service."
    )


def _gateway(request: ChoiceRequest) -> Vendor | None:
    """A service with a key that serves models of many vendors."""
    others = (vendor for vendor in VENDORS if not vendor.models and not vendor.local)
    return next((vendor for vendor in others if _usable(vendor, _credentials(request, vendor))), None)


def _at(server: LocalServer, model: LocalModel | None, because: str) -> _Pick:
    vendor = replace(BY_NAME[server.vendor], base_url=f"{server.root}/v1")
    return _Pick(vendor, because, model.id if model else "", model)


def _listed(server: LocalServer, model: str) -> LocalModel | None:
    if not model:
        return server.best
    for item in server.models:
        if item.id in {model, f"{model}:latest"}:
            return item
    names = [item.id for item in server.models]
    near = nearest(model, names)
    hint = f" Did you mean {near!r}?" if near else ""
    raise UsageError(f"The server at {server.root} has no model {model!r}.{hint} It has: {', '.join(names[:10])}.")


async def _local(request: ChoiceRequest) -> tuple[LocalServer, ...]:
    if not request.probe_local:
        return ()
    roots = usual_roots(request.env) if request.local_roots is None else request.local_roots
    return await probe({name: root for name, root in roots.items() if not _off(BY_NAME[name], request)})


def _vendor(name: str, request: ChoiceRequest) -> Vendor | None:
    """A known vendor, or one that the configuration describes with an address of its own."""
    vendor = vendor_of(name)
    described = name in request.disabled or (name in request.credentials and request.credentials[name].api_base)
    if vendor is None and described:
        return replace(BY_NAME["custom"], name=name, title=name)
    return vendor


def _off(vendor: Vendor, request: ChoiceRequest) -> str:
    """Why a vendor must not be asked; empty where it may be."""
    return next((why for name, why in request.disabled.items() if _vendor(name, request) == vendor), "")


def _variable(vendor: Vendor, env: Mapping[str, str]) -> str:
    return next((name for name in vendor.keys if env.get(name, "").strip()), "")


def _credentials(request: ChoiceRequest, vendor: Vendor) -> Credentials | None:
    """Configuration first, then the environment; the address of the environment goes with its key."""
    if _off(vendor, request):
        return None
    given = next((c for name, c in request.credentials.items() if _vendor(name, request) == vendor), Credentials())
    variable = _variable(vendor, request.env)
    base = given.api_base or request.env.get(vendor.base_url_key, "") if vendor.base_url_key else given.api_base
    headers = dict(given.extra_headers)
    key = given.api_key
    if not key and variable:
        key = request.env[variable].strip()
        if variable == "ANTHROPIC_AUTH_TOKEN":
            headers.setdefault("Authorization", f"Bearer {key}")
    return replace(given, api_key=key, api_base=base, extra_headers=headers) if key or base else None


def _usable(vendor: Vendor, credentials: Credentials | None) -> bool:
    """A key, or an address that needs none: on this machine or network, or of a server that the owner describes."""
    if credentials is None:
        return False
    base, own = credentials.api_base, not vendor.base_url
    return bool((credentials.api_key and (base or not own)) or (base and (own or vendor.local or is_private(base))))


async def _build(request: ChoiceRequest, pick: _Pick, credentials: Credentials) -> LLMProvider:
    vendor, endpoint = pick.vendor, _endpoint(request, pick.vendor, credentials)
    model = pick.model or await _default_model(vendor, endpoint)
    seen = pick.local or LocalModel(model)
    window = request.window or seen.window or None
    vision = seen.vision if request.vision is None else request.vision
    able = capabilities_of(model, window=window, vision=vision)
    able = replace(able, reads_pages=vendor.reads_pages, pdf=vendor.reads_pdf and able.vision)
    info = ProviderInfo(vendor.name, model, endpoint.base_url, pick.because, able)
    if vendor.wire == "messages":
        from nanobot.providers.anthropic import AnthropicProvider

        return AnthropicProvider(info, endpoint)
    from nanobot.providers.openai_compat import OpenAICompatProvider

    thinking = credentials.thinking or vendor.quirks.thinking
    return OpenAICompatProvider(info, endpoint, replace(vendor.quirks, thinking=thinking))


def _endpoint(request: ChoiceRequest, vendor: Vendor, credentials: Credentials) -> Endpoint:
    base = (credentials.api_base or vendor.base_url).rstrip("/")
    near = vendor.local or is_private(base)
    hint = f"providers.{vendor.name}.apiKey" + (f" or {vendor.keys[0]}" if vendor.keys else "")
    secrets = (credentials.api_key, *credentials.extra_headers.values())
    if not sendable(credentials.api_key):
        raise UsageError(
            f"No request can carry the key of {vendor.title}: it holds a character that is no printable ASCII. "
            f"Copy it again, in one piece ({hint})."
        )
    deadlines = request.deadlines or (LOCAL_DEADLINES if near else Deadlines())
    origin, proxies = Origin(vendor.title, hint, secrets), Proxies(env=request.env)
    endpoint = Endpoint(origin, base, _headers(vendor, credentials), deadlines, proxies, credentials.extra_body)
    try:
        _ = endpoint.proxy
    except UnusableProxy as error:
        raise UsageError(f"{error}.") from None
    return endpoint


async def offered(request: ChoiceRequest) -> tuple[str, ...]:
    """The models that the service chosen for `request` lists now; none where it cannot be asked or does not say."""
    pick = await _pick(request)
    if pick is None:
        return ()
    credentials = _credentials(request, pick.vendor) or Credentials()
    listed = await list_models(_endpoint(request, pick.vendor, credentials))
    return tuple(name.removeprefix("models/") for name in listed)


def judge_offer(model: str, names: tuple[str, ...], title: str) -> None:
    """Raise `UsageError` where a service lists its models and has none of this name.

    Names that point to others, such as `kimi-latest` or `x:free`, are often not listed and pass.
    """
    model = model.removeprefix("models/")
    if (
        not names
        or model.endswith(("latest", "auto"))
        or any(name.startswith(model.partition(":")[0]) for name in names)
    ):
        return
    near = nearest(model, names)
    hint = f" Did you mean {near!r}?" if near else ""
    raise UsageError(f"{title} has no model {model!r}.{hint} /model lists what it offers.")


def _headers(vendor: Vendor, credentials: Credentials) -> dict[str, str]:
    headers = dict(vendor.headers)
    if credentials.api_key and "Authorization" not in credentials.extra_headers:
        if vendor.wire == "messages":
            headers["x-api-key"] = credentials.api_key
        else:
            headers["Authorization"] = f"Bearer {credentials.api_key}"
    return {**headers, **credentials.extra_headers}


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
            f"{vendor.title} does not answer at {endpoint.base_url} or has no model. Start it, then try again."
        )
    if not vendor.default_model:
        raise UsageError(f"{vendor.title}: name a model (agents.defaults.model or --model).")
    return vendor.default_model


def _version(name: str) -> tuple[tuple[int, ...], int]:
    """Order by the numbers in a name, dates last; a shorter name goes before its dated twin."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", name) if len(number) < 4)
    return numbers, -len(name)
