"""Finding a model server on this machine: a short look at the usual ports, then which of its models to take.

The look sends no key, only GET, only to loopback, all ports at once within `PROBE_SECONDS`. What was found is kept for
`KEEP_SECONDS`, so that a session does not look again at every start of a turn.
"""

import asyncio
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx
from msgspec import Struct
from msgspec.structs import replace

from nanobot import jsonval
from nanobot.jsonval import JsonObject
from nanobot.providers.failures import Origin
from nanobot.providers.http import Deadlines, Endpoint, make_client
from nanobot.providers.vendors import VENDORS

PROBE_SECONDS = 0.25
KEEP_SECONDS = 30.0
_SHOW_SECONDS = 2.0
_OLLAMA_SHOWN = 6
#: What is asked of a server that says more than its list in OpenAI's form.
_PATHS = {
    "ollama": ("/api/tags", "/api/ps"),
    "lm_studio": ("/api/v0/models", "/v1/models"),
    "llama_cpp": ("/v1/models", "/props"),
}

#: How servers name the window of a model in a list, that of a loaded one first.
_WINDOWS = ("loaded_context_length", "max_context_length", "max_model_len")


class LocalModel(Struct, frozen=True):
    """`tools` is None where the server does not say; `window` is in tokens, 0 where unknown; `size` in bytes."""

    id: str
    loaded: bool = False
    tools: bool | None = None
    vision: bool | None = None
    window: int = 0
    size: int = 0


class LocalServer(Struct, frozen=True):
    """A server that answered. `root` is its address without a path."""

    vendor: str
    root: str
    models: tuple[LocalModel, ...]

    @property
    def best(self) -> LocalModel | None:
        """A model that can call tools and is loaded, then the largest; one that surely cannot call tools goes last."""
        return max(self.models, key=lambda m: (m.tools is not False, m.loaded, m.tools is True, m.size), default=None)


_known: dict[tuple[tuple[str, str], ...], tuple[float, tuple[LocalServer, ...]]] = {}


def usual_roots(env: Mapping[str, str]) -> dict[str, str]:
    """Vendor → address of the local servers that are looked for. `OLLAMA_HOST` moves Ollama's port."""
    roots = {vendor.name: f"http://127.0.0.1:{vendor.port}" for vendor in VENDORS if vendor.port}
    host = env.get("OLLAMA_HOST", "")
    try:
        port = urlsplit(host if "//" in host else f"http://{host}").port
    except ValueError:
        port = None
    if port:
        roots["ollama"] = f"http://127.0.0.1:{port}"
    return roots


async def probe(roots: Mapping[str, str]) -> tuple[LocalServer, ...]:
    """The servers that answer, in the order of `roots`."""
    key = tuple(roots.items())
    kept = _known.get(key)
    if kept and time.monotonic() - kept[0] < KEEP_SECONDS:
        return kept[1]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_look(vendor, root)) for vendor, root in key]
    servers = tuple(server for task in tasks if (server := task.result()) and server.models)
    _known[key] = (time.monotonic(), servers)
    return servers


async def _look(vendor: str, root: str) -> LocalServer | None:
    """One server within the time, or None. A port that nobody listens on costs next to nothing."""
    parts = urlsplit(root)
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
            writer.close()
    except (OSError, TimeoutError):
        return None
    limits = Deadlines(connect=PROBE_SECONDS, write=_SHOW_SECONDS, idle=_SHOW_SECONDS)
    async with make_client(Endpoint(Origin(vendor), root, deadlines=limits)) as client:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                answers = await asyncio.gather(
                    *(_get(client, root + path) for path in _PATHS.get(vendor, ("/v1/models",)))
                )
        except TimeoutError:
            return None
        models = _models(vendor, *answers)
        if vendor == "ollama":
            models = await _shown(client, root, models)
    return LocalServer(vendor, root, models) if models else None


async def _get(client: httpx.AsyncClient, url: str, model: str = "") -> JsonObject:
    """The JSON at `url`, asked about `model` if one is given; nothing where there is none."""
    try:
        response = await (client.post(url, json={"model": model}) if model else client.get(url))
    except httpx.HTTPError:
        return {}
    return jsonval.obj(jsonval.parse(response.text)) if response.status_code == 200 else {}


def _models(vendor: str, listed: JsonObject, more: JsonObject | None = None) -> tuple[LocalModel, ...]:
    """What a server lists, with what it says besides. JSON of another form means that something else listens there."""
    more = more or {}
    if vendor == "ollama":
        running = {model.get("name"): model for model in jsonval.rows(more.get("models"))}
        return tuple(
            LocalModel(
                name,
                name in running,
                window=jsonval.integer(running.get(name, {}).get("context_length")),
                size=jsonval.integer(item.get("size")),
            )
            for item in jsonval.rows(listed.get("models"))
            if (name := jsonval.text(item.get("name")))
        )
    window = jsonval.integer(jsonval.at(more, "default_generation_settings", "n_ctx"))  # of llama.cpp
    return tuple(
        LocalModel(
            identity,
            item.get("state", "loaded") == "loaded",
            "tool_use" in able if (able := jsonval.items(item.get("capabilities"))) else None,
            item["type"] == "vlm" if "type" in item else None,
            next((size for name in _WINDOWS if (size := jsonval.integer(item.get(name)))), window),
        )
        for item in jsonval.rows(listed.get("data")) or jsonval.rows(more.get("data"))
        if (identity := jsonval.text(item.get("id")))
        and item.get("type", "llm") in {"llm", "vlm"}
        and "embed" not in identity.casefold()
    )


async def _shown(client: httpx.AsyncClient, root: str, models: tuple[LocalModel, ...]) -> tuple[LocalModel, ...]:
    """Ollama's models, loaded and large ones first; the first `_OLLAMA_SHOWN` are asked for what they can do."""
    known = sorted(models, key=lambda model: (model.loaded, model.size), reverse=True)
    order = known[:_OLLAMA_SHOWN]
    try:
        async with asyncio.timeout(_SHOW_SECONDS):
            answers = await asyncio.gather(*(_get(client, f"{root}/api/show", model.id) for model in order))
    except TimeoutError:
        return models
    able = [jsonval.items(answer.get("capabilities")) for answer in answers]
    asked = [
        replace(model, tools="tools" in can, vision="vision" in can) if can else model
        for model, can in zip(order, able, strict=True)
    ]
    return (*asked, *known[_OLLAMA_SHOWN:])
