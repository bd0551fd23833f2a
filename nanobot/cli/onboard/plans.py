"""Who could answer: what is found on this machine, what the configuration says, and what is to be written for it."""

from msgspec import Struct

from nanobot.cli.onboard.settings import Change, Settings
from nanobot.config.changes.asked import literal
from nanobot.providers.local import probe, usual_roots
from nanobot.providers.vendors import BY_NAME, VENDORS
from nanobot.utils.translation import N_, _

_DEFAULTS = ("agents", "defaults")


class ModelPlan(Struct, frozen=True):
    """Whom to ask. `told` says it in a line; `models` are those that it is known to offer; `key` and `base` are
    written where they are not empty. Without a `provider` the name of the model tells it."""

    told: str
    provider: str = ""
    model: str = ""
    key: str = ""
    base: str = ""
    models: tuple[str, ...] = ()

    def changes(self, settings: Settings) -> list[Change]:
        """What is to be written for it."""
        kept = settings.loaded.config.agents.defaults
        found: list[Change] = [((*_DEFAULTS, "provider"), self.provider or "auto")]
        if self.model or kept.model:
            found.append(((*_DEFAULTS, "model"), self.model))
        if kept.model_preset not in {"", "default"}:
            found.append(((*_DEFAULTS, "modelPreset"), "default"))  # else the preset would win
        for name, value in (("apiKey", literal(self.key)), ("apiBase", self.base)):
            if value:
                found.append((("providers", self.provider, name), value))
        return found


NO_MODEL = ModelPlan(N_("none for now: nanobot searches the web and quotes what it finds, without a model"), "lookup")


async def found_models(settings: Settings) -> tuple[ModelPlan, ...]:
    """What could answer at once: keys in the environment, then servers on this machine."""
    found = []
    for vendor in VENDORS:
        name = next((name for name in vendor.keys if settings.env.get(name, "").strip()), "")
        if name and vendor.default_model:
            told = _("{service}, with the key {name} of the environment", service=vendor.title, name=name)
            found.append(ModelPlan(told, vendor.name))
    for server in await probe(usual_roots(settings.env)):
        if server.best:
            names = tuple(one.id for one in server.models)
            offers = _("{count} models", count=len(names)) if len(names) > 1 else names[0]
            title = BY_NAME[server.vendor].title
            told = _("{server} on this machine ({address}, {models})", server=title, address=server.root, models=offers)
            found.append(ModelPlan(told, server.vendor, server.best.id, models=names))
    return tuple(found)


def model_in_words(settings: Settings) -> str:
    """What the configuration says of the model, for a line; empty where it says nothing."""
    kept = settings.loaded.config.agents.defaults
    preset = "" if kept.model_preset in {"", "default"} else _("the preset {name}", name=kept.model_preset)
    if kept.provider == "lookup":
        return _("no model (lookup)")
    named = kept.model
    if kept.provider != "auto":
        named = _("{model} at {provider}", model=kept.model or _("its usual model"), provider=kept.provider)
    return preset or named or ", ".join(settings.loaded.config.providers)
