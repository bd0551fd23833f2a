"""The first question: who answers. What is found on this machine, a key that is pasted, an address, or nobody yet."""

import asyncio
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec.structs import replace

from nanobot.cli.onboard.plans import NO_MODEL, ModelPlan, found_models, model_in_words
from nanobot.cli.onboard.settings import Settings
from nanobot.cli.onboard.talk import Talk, is_secret
from nanobot.errors import NanobotError
from nanobot.providers.vendors import BY_NAME, VENDORS, Vendor, unsupported, vendor_of, vendor_of_key
from nanobot.utils.connections import reason_of
from nanobot.utils.text import nearest, sendable
from nanobot.utils.translation import N_, _, listed, yes_or_no

#: Seconds to reach a server that is named by its address.
_REACH_SECONDS = 5.0
#: Errors after which the same answer cannot work.
_WRONG = {"auth", "not_found", "bad_request", "no_tools"}
#: A key as it stands in files of a shell.
_NAMED_KEY = re.compile(r"(?:export\s+)?(?P<name>[A-Z][A-Z0-9_]*)\s*=\s*([\"']?)(?P<key>\S+)\2")
_TITLES = tuple(one.title for one in VENDORS[:5])
_HOW = N_(
    "A key comes from the pages of a service ({services} …) and costs by use; paste it here, nothing of it is shown. "
    "A server of your own is named by its address, such as `http://192.168.1.5:8000/v1`."
)


def ask_model(settings: Settings, talk: Talk) -> None:
    """Ask until something works, is kept untried, or nothing is wanted; what is chosen is written."""
    found = asyncio.run(found_models(settings))
    kept = model_in_words(settings)
    if not found:
        talk.note(_("No key of a service was found, and no local server answers (Ollama, LM Studio, llama.cpp, vLLM)."))
    how = _(_HOW, services=listed(_TITLES))
    while True:
        options = [*([_("keep {model}", model=kept)] if kept else []), *(one.told for one in found), _(NO_MODEL.told)]
        lines = "\n".join(f"{place}. {told}" for place, told in enumerate(options, 1))
        talk.say(f"{lines}\n\n{how}")
        how = _("Choose once more: a number, a key, an address; `?` says more.")
        answer = talk.ask("1", [one.name for one in VENDORS], hide="keys")
        if kept and answer in {"1", "keep"}:
            return
        if answer == "?":
            names = listed(one.name for one in VENDORS if one.hosted)
            how = _("{how} Services: {names}.", how=_(_HOW, services=listed(_TITLES)), names=names)
            continue
        plan = _read(answer, (*([NO_MODEL] if kept else []), *found, NO_MODEL), talk)
        if plan is not None and _settled(settings, talk, plan):
            return


def _read(answer: str, plans: Sequence[ModelPlan], talk: Talk) -> ModelPlan | None:
    """What an answer means; None where that was said already and is to be asked again."""
    if named := _NAMED_KEY.fullmatch(answer):  # a line of a shell, with a key in it
        vendor = next((one for one in VENDORS if named["name"] in one.keys), None)
        return _with_key(vendor, named["key"], talk) if vendor else _of_key(named["key"], talk)
    if answer.isdecimal():
        if 1 <= int(answer) <= len(plans):
            return plans[int(answer) - 1]
        talk.say(_("There is no {number} in the list.", number=answer))
        return None
    if yes_or_no(answer) == "no" or answer.casefold() in {"none", "skip", "lookup"}:
        return NO_MODEL
    if vendor := vendor_of(answer):
        return next((one for one in plans if one.provider == vendor.name), None) or _of_vendor(vendor, talk)
    if is_secret(answer):
        return _of_key("".join(answer.split()), talk)
    if "://" in answer or (":" in answer and answer.rpartition(":")[2].partition("/")[0].isdecimal()):
        return _of_address(answer, talk)
    near = nearest(answer, [*BY_NAME, *(one.title for one in VENDORS)])
    meant = _("{answer!r} is none of these. Did you mean {near}?", answer=answer, near=near)
    talk.say(unsupported(answer) or (meant if near else _("{answer!r} is none of these.", answer=answer)))
    return None


def _of_vendor(vendor: Vendor, talk: Talk) -> ModelPlan | None:
    if vendor.local:
        talk.say(_("{server} does not answer on this machine. Start it, or write its address.", server=vendor.title))
        return None
    if not vendor.base_url:
        talk.say(_("Write the address of the server, such as `http://192.168.1.5:8000/v1`."))
        return None
    talk.say(_("Paste the key of {service}; nothing of it is shown. Enter goes back.", service=vendor.title))
    key = "".join(talk.ask(hide="all").split())
    return _with_key(vendor, key, talk) if key else None


def _of_key(key: str, talk: Talk) -> ModelPlan | None:
    vendor = vendor_of_key(key)
    while vendor is None:  # never tried at one service after the other: each would see a key that is not its own
        talk.say(_("Its form does not tell whose key this is. Which service is it from? Enter goes back."))
        answer = talk.ask(words=[one.name for one in VENDORS if one.hosted])
        if not answer:
            return None
        hosted = {name: one for one in VENDORS if one.hosted for name in (one.name, one.title)}
        vendor = vendor_of(answer) or hosted.get(nearest(answer, hosted) or "")
        if vendor is None or not vendor.hosted:
            none = _("There is no service {name!r}. Known: {known}.", name=answer, known=listed(hosted))
            talk.say(unsupported(answer) or none)
            vendor = None
    return _with_key(vendor, key, talk)


def _with_key(vendor: Vendor, key: str, talk: Talk) -> ModelPlan | None:
    if not sendable(key):
        talk.say(_("No request can carry this key: it holds a character that is no printable ASCII. Copy it again."))
        return None
    told = _("{service}, with a key of {count} characters", service=vendor.title, count=len(key))
    return ModelPlan(told, vendor.name, key=key)


def _of_address(answer: str, talk: Talk) -> ModelPlan | None:
    base = answer if "://" in answer else f"http://{answer}"
    try:
        parts = urlsplit(base)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        host, port = "", 0
    if not host or parts.scheme not in {"http", "https"}:
        none = _("{answer!r} is no address of a server. It looks like `http://192.168.1.5:8000/v1`.", answer=answer)
        talk.say(none)
        return None
    base = base.rstrip("/") if parts.path.strip("/") else f"{base.rstrip('/')}/v1"
    if why := asyncio.run(_unreachable(host, port)):
        silent = N_("Nothing answers at {host}, port {port}: {why}. Is it started, and does it listen for others?")
        talk.say(_(silent, host=host, port=port, why=why))
        return None
    talk.say(_("Does the server want a key? Paste it; Enter: no."))
    told = _("your server at {address}", address=base)
    return ModelPlan(told, "custom", key="".join(talk.ask(hide="all").split()), base=base)


async def _unreachable(host: str, port: int) -> str:
    """Why nothing can be reached there; empty where something listens."""
    try:
        async with asyncio.timeout(_REACH_SECONDS):
            connection = await asyncio.open_connection(host, port)
    except TimeoutError:
        return _("no answer within {seconds:.0f} s", seconds=_REACH_SECONDS)
    except OSError as error:
        return reason_of(error)
    connection[1].close()
    return ""


def _settled(settings: Settings, talk: Talk, plan: ModelPlan) -> bool:
    """Try it and write it; False where the person goes back."""
    if plan == NO_MODEL:
        if model_in_words(settings) or asyncio.run(found_models(settings)):
            settings.write(plan.changes(settings))  # else a key that comes later would not be taken
        talk.say(_("No model then. Run `nanobot onboard` again whenever you have one."))
        return True
    plan = _with_model(settings, talk, plan)
    talk.note(_("Trying {model} …", model=plan.model or plan.told))
    try:
        finding, info = asyncio.run(settings.try_model(plan.changes(settings)))
    except NanobotError as error:
        talk.say(str(error))
        return False
    if info is not None and finding.error == "auth":
        refused = N_("✗ {problem}. The key was refused: copy it again, in one piece, or choose something else.")
        talk.say(_(refused, problem=finding.words))
        return False
    talk.say("\n".join(finding.lines[: 1 if info is None else None]))
    if info is not None:
        plan = replace(plan, model=plan.model or info.model)
    if finding.state == "bad" and (info is None or finding.error in _WRONG):
        return False
    if finding.state != "ok" and not talk.agreed(_("Keep it all the same? y keeps it; Enter asks again.")):
        return False
    settings.write(plan.changes(settings))
    if BY_NAME[plan.provider].hosted and not plan.key:
        talk.note(_("The key stays in the environment; a gateway that is started elsewhere needs it there, too."))
    return True


def _with_model(settings: Settings, talk: Talk, plan: ModelPlan) -> ModelPlan:
    """The plan with a model, asked for where several are there and none is known to be the usual one."""
    vendor = BY_NAME[plan.provider]
    names = plan.models
    if not (names or vendor.default_model):
        talk.note(_("Asking {server} for its models …", server=plan.told))
        names = asyncio.run(settings.offered(plan.changes(settings)))
        if not names:
            talk.say(_("It lists no models. What is the model called that it is to be asked for?"))
            return replace(plan, model=talk.ask())
    if len(names) > 1:
        return replace(plan, model=talk.chosen_model(names, plan.model or names[0], whose=vendor.title))
    return replace(plan, model=plan.model or (names[0] if names else ""))
