"""Files of the nanobot family: every form that its documentation shows loads here and means what it says.

The blocks are our own; each stands for a form. A form that has no code here yet loads with a note that names its key.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pytest
from msgspec.structs import replace

from nanobot.builder.agent import Builder
from nanobot.builder.launch import Launch
from nanobot.channels.telegram.settings import settings_of
from nanobot.config.loader import Loaded, load_text
from nanobot.config.paths import Paths
from nanobot.config.schema import ModelPresetConfig, ProviderConfig
from nanobot.config.schema_tools import FileRootConfig
from nanobot.errors import UsageError
from nanobot.messages import Completed, Text, UserMessage
from nanobot.providers.base import Request
from nanobot.providers.registry import ChoiceRequest, choose
from tests.cli.harness import program
from tests.fakes import sections
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.sections import defaults
from tests.tables import table

ENV = dict.fromkeys("A_KEY B_KEY BOT_TOKEN HOOK_WORD OLOSTEP_KEY".split(), "value-of-it")
SEARCH = ("tools", "web", "search")
DEAD = "http://127.0.0.1:1"


@dataclass(frozen=True)
class Form:
    """A block, what it must mean (attribute path → value), and the keys that are named as without effect."""

    name: str
    block: dict[str, object]
    means: dict[str, object]
    noted: tuple[str, ...] = ()


def provider(name: str, **keys: object) -> dict[str, object]:
    return sections.provider(name, **{"apiKey": "${A_KEY}", **keys})


def telegram(**keys: object) -> dict[str, object]:
    return sections.telegram(**{"token": "${BOT_TOKEN}", **keys})


def search(**keys: object) -> dict[str, object]:
    return sections.web(search=keys)


def channel(name: str, **keys: object) -> Form:
    return Form(f"channel {name}", {"channels": {name: {"enabled": True, **keys}}}, {}, (f"channels.{name}",))


FAST = {"model": "small-1", "provider": "openai", "maxTokens": 900, "contextWindowTokens": 9000, "temperature": 0.3}
DEEP = {"model": "large-1", "provider": "anthropic", "reasoningEffort": "high"}

FORMS = [
    Form("a key from the environment", provider("groq"), {"providers.groq.api_key": "value-of-it"}),
    Form("a key that is null", {"providers": {"vllm": {"apiKey": None, "apiBase": "http://127.0.0.1:9/v1"}}},
         {"providers.vllm.api_base": "http://127.0.0.1:9/v1"}),
    Form("snake case", {"providers": {"lm_studio": {"api_base": "http://127.0.0.1:9/v1"}}},
         {"providers.lm_studio.api_base": "http://127.0.0.1:9/v1"}),
    Form("snake case in groups", {**defaults(max_tool_iterations=7), "tools": {"mcp_servers": {"a": {"url": DEAD}}}},
         {"agents.defaults.max_tool_iterations": 7, "tools.mcp_servers.a.url": DEAD}),
    Form("keys without values", {"providers": {"openai": {"apiKey": "", "apiBase": None, "extraHeaders": None}},
                                 "tools": {"web": {"proxy": None, "search": {"apiKey": "", "maxResults": 5}},
                                           "exec": {"timeout": 60, "pathAppend": ""}, "restrictToWorkspace": False}},
         {"tools.web.search.max_results": 5, "tools.exec.timeout": 60}),
    Form("a window of memory", defaults(temperature=0.1, memoryWindow=100, reasoningEffort=None),
         {"agents.defaults.temperature": 0.1}, ("agents.defaults.memoryWindow",)),
    Form("the kind of api", provider("openai", apiType="responses", extraBody={"tools": [{"type": "x"}]}),
         {"providers.openai.extra_body": {"tools": [{"type": "x"}]}}, ("providers.openai.apiType",)),
    Form("state and compaction", provider("openai", responsesStateEnabled=True, responsesCompactThreshold=9), {},
         ("providers.openai.responsesStateEnabled", "providers.openai.responsesCompactThreshold")),
    Form("a proxy of a provider", provider("xaiGrok", proxy="http://127.0.0.1:9"), {}, ("providers.xaiGrok.proxy",)),
    Form("bedrock", {"providers": {"bedrock": {"region": "eu-west-1", "profile": "me", "extraBody": {}}}}, {},
         ("providers.bedrock.region", "providers.bedrock.profile")),
    Form("a provider of one's own", provider("acmeProxy", apiBase="https://llm.acme.test/v1",
                                             thinkingStyle="thinking_type"),
         {"providers.acmeProxy.api_base": "https://llm.acme.test/v1",
          "providers.acmeProxy.thinking_style": "thinking_type"}),
    Form("a default model of a provider", provider("azure_openai", apiBase="https://a.test", defaultModel="m"), {},
         ("providers.azure_openai.defaultModel",)),
    Form("presets", {"modelPresets": {"fast": FAST, "deep": DEEP}, **defaults(modelPreset="fast")},
         {"model_presets.fast.max_tokens": 900, "model_presets.deep.reasoning_effort": "high",
          "agents.defaults.model_preset": "fast"}),
    Form("the label of a preset", {"modelPresets": {"fast": {"label": "Quick", "model": "m"}}},
         {"model_presets.fast.model": "m"}, ("modelPresets.fast.label",)),
    Form("no preset", defaults(modelPreset=None), {"agents.defaults.model_preset": ""}),
    Form("fallbacks by name", {"modelPresets": {"deep": DEEP}, **defaults(fallbackModels=["deep", "other"])},
         {"agents.defaults.fallback_models": ("deep", "other")}),
    Form("fallbacks as objects", defaults(fallbackModels=[{"provider": "deepseek", "model": "x", "maxTokens": 7}]),
         {"agents.defaults.fallback_models": (ModelPresetConfig(provider="deepseek", model="x", max_tokens=7),)}),
    Form("how a voice is written down", {"transcription": {"model": "speech-1", "language": "ko"}},
         {"channels.telegram.transcription.model": "speech-1", "channels.telegram.transcription.language": "ko"}),
    Form("the limits of a voice", {"transcription": {"enabled": False, "provider": "groq", "maxUploadMb": 5}},
         {"channels.telegram.transcription.enabled": False, "channels.telegram.transcription.provider": "groq"},
         ("transcription.maxUploadMb",)),
    Form("old keys of a voice",
         {"channels": {"transcriptionProvider": "openai"}, "transcription": {"provider": "groq"}},
         {"channels.telegram.transcription.provider": "groq"}),
    Form("progress and hints", {"channels": {"sendProgress": True, "sendToolHints": True, "sendMaxRetries": 2}},
         {"channels.telegram.hints": "live", "channels.telegram.streaming": "edit"}, ("channels.sendMaxRetries",)),
    Form("a channel's own hints before those for all",
         {"channels": {"sendToolHints": True, "telegram": {"sendToolHints": False}}},
         {"channels.telegram.hints": "off"}),
    Form("the same, the other way round",
         {"channels": {"telegram": {"sendToolHints": False}, "sendToolHints": True}},
         {"channels.telegram.hints": "off"}),
    Form("telegram", telegram(allowFrom=["4242"]), {"channels.telegram.allow_from": ("4242",)}),
    Form("telegram for everybody", telegram(allowFrom=["*"]), {"channels.telegram.allow_from": ("*",)}),
    Form("telegram with rich messages", telegram(richMessages=False, groupDebounceSeconds=1.5, sendProgress=False),
         {"channels.telegram.join_seconds": 1.5, "channels.telegram.streaming": "off"},
         ("channels.telegram.richMessages",)),
    Form("telegram's flat webhook",
         telegram(mode="webhook", webhookUrl="https://bot.acme.test/t", webhookListenHost="127.0.0.2",
                  webhookListenPort=9081, webhookSecretToken="${HOOK_WORD}"),
         {"channels.telegram.webhook.url": "https://bot.acme.test/t", "channels.telegram.webhook.enabled": True,
          "channels.telegram.webhook.host": "127.0.0.2", "channels.telegram.webhook.port": 9081,
          "channels.telegram.webhook.secret": "value-of-it"}),
    Form("a webhook that is not used", telegram(mode="polling", webhookUrl="https://bot.acme.test/t"),
         {"channels.telegram.webhook.enabled": False}),
    Form("more of a webhook", telegram(webhookPath="/t", webhookMaxConnections=4), {},
         ("channels.telegram.webhookPath", "channels.telegram.webhookMaxConnections")),
    Form("a channel that is off and lacks its variable",
         {"channels": {"whatsapp": {"enabled": False, "bridgeUrl": "ws://127.0.0.1:9", "token": "${NOT_SET}"}}}, {},
         ("channels.whatsapp",)),
    Form("hints for all channels", {"channels": {"sendProgress": True, "sendToolHints": False,
                                                 "telegram": {"proxy": None, "replyToMessage": True}}},
         {"channels.telegram.hints": "off"}),
    channel("websocket", port=9, tokenIssueSecret="x"),
    channel("discord", token="x", allowChannels=[], streaming=True),
    channel("slack", botToken="x", dm={"policy": "allowlist"}),
    channel("matrix", homeserver="https://m.test", maxMediaBytes=9),
    channel("email", imapHost="m.test", imapPort=993, consentGranted=True),
    channel("napcat", wsUrl="ws://127.0.0.1:9", groupPolicyOverrides={"1": 0.2}),
    channel("mochat", base_url="https://m.test", sessions=["*"]),
    channel("feishu", appId="x", domain="lark"),
    *(Form(f"search with {name}", search(provider=name, apiKey="${B_KEY}"),
           {"tools.web.search.provider": name, "tools.web.search.api_key": "value-of-it"})
      for name in ("brave", "tavily", "jina", "kagi", "exa", "bocha", "serper", "perplexity", "firecrawl")),
    Form("search with a server", search(provider="searxng", baseUrl="https://s.test", maxResults=9),
         {"tools.web.search.base_url": "https://s.test", "tools.web.search.max_results": 9}),
    Form("search without a key", search(provider="duckduckgo"), {"tools.web.search.provider": "duckduckgo"}),
    *(Form(f"search with {name}, named and left out", search(provider=name, apiKey="${OLOSTEP_KEY}"),
           {"tools.web.search.provider": "auto", "tools.web.search.api_key": ""},
           ("tools.web.search.provider",))
      for name in ("olostep", "volcengine", "keenable")),
    Form("one of several engines is left out",
         search(provider="brave", providers={"keenable": {"apiKey": "${NOT_SET}"}}, fallback=["olostep", "exa"]),
         {"tools.web.search.provider": "brave", "tools.web.search.providers": {},
          "tools.web.search.fallback": ("exa",)},
         ("tools.web.search.providers.keenable", "tools.web.search.fallback")),
    Form("no web", {"tools": {"web": {"enable": False}}}, {"tools.web.enable": False}),
    Form("a proxy for the web", {"tools": {"web": {"proxy": "http://127.0.0.1:9"}}},
         {"tools.web.proxy": "http://127.0.0.1:9"}),
    Form("a browser's name and no reader",
         {"tools": {"web": {"userAgent": "Own/1", "fetch": {"useJinaReader": False}}}},
         {"tools.web.fetch.user_agent": "Own/1", "tools.web.fetch.reader": "none"}),
    Form("private addresses", {"tools": {"ssrfWhitelist": ["100.64.0.0/10"]}},
         {"tools.ssrf_whitelist": ("100.64.0.0/10",)}),
    Form("an MCP server", {"tools": {"mcpServers": {"far": {"url": "https://m.test/mcp/", "toolTimeout": 99,
                                                            "headers": {"Authorization": "Bearer ${A_KEY}"}}}}},
         {"tools.mcp_servers.far.tool_timeout": 99.0,
          "tools.mcp_servers.far.headers": {"Authorization": "Bearer value-of-it"}}),
    Form("MCP at the top", {"mcp": {"far": {"type": "remote", "url": "https://m.test/?tools=x", "enabled": True},
                                    "own": {"url": DEAD, "headers": {"Authorization": "Bearer ${env:A_KEY}"}}}},
         {"tools.mcp_servers.far.url": "https://m.test/?tools=x",
          "tools.mcp_servers.own.headers": {"Authorization": "Bearer value-of-it"}}),
    Form("an MCP program with all of its keys",
         {"tools": {"mcpServers": {"fs": {"command": "npx", "args": ["-y"], "env": {}, "url": "", "toolTimeout": 30}}}},
         {"tools.mcp_servers.fs.args": ("-y",), "tools.mcp_servers.fs.tool_timeout": 30}),
    Form("an MCP program", {"tools": {"mcpServers": {"near": {"command": "npx", "args": ["-y", "x"],
                                                              "env": {"T": "${A_KEY}"}, "enabledTools": ["read"]}}}},
         {"tools.mcp_servers.near.enabled_tools": ("read",)}),
    Form("shell and its sandbox", {"tools": {"exec": {"enable": True, "sandbox": "bwrap", "timeout": 0,
                                                      "pathAppend": "/usr/sbin", "allowedEnvKeys": ["GOPATH"]}}},
         {"tools.exec.sandbox": "bubblewrap", "tools.exec.timeout": 0, "tools.exec.path_append": "/usr/sbin",
          "tools.exec.allowed_env_keys": ("GOPATH",)}),
    Form("the workspace as a wall", {"tools": {"restrictToWorkspace": True}}, {"tools.restrict_to_workspace": True}),
    Form("folders besides the workspace", {"tools": {"files": {"roots": ["~/a", {"path": "~/b", "access": "write"}]}}},
         {"tools.files.roots": ("~/a", FileRootConfig(path="~/b", access="write"))}),
    Form("pictures", {"tools": {"imageGeneration": {"enabled": True, "provider": "x"}}}, {},
         ("tools.imageGeneration",)),
    Form("the heartbeat", {"gateway": {"heartbeat": {"enabled": True, "intervalS": 9}}}, {}, ("gateway.heartbeat",)),
    Form("the gateway's port", {"gateway": {"host": "0.0.0.0", "port": 9, "restartMode": "exit"}}, {},
         ("gateway.host", "gateway.port", "gateway.restartMode")),
    Form("sub-agents", defaults(maxConcurrentSubagents=2, failOnToolError=False), {},
         ("agents.defaults.maxConcurrentSubagents", "agents.defaults.failOnToolError")),
    Form("compaction", defaults(idleCompactAfterMinutes=9, sessionTtlMinutes=9), {},
         ("agents.defaults.idleCompactAfterMinutes", "agents.defaults.sessionTtlMinutes")),
    Form("the time zone", defaults(timezone="Asia/Tokyo"), {"agents.defaults.timezone": "Asia/Tokyo"}),
    Form("one session for all", defaults(unifiedSession=True), {}, ("agents.defaults.unifiedSession",)),
    Form("skills and hints", defaults(disabledSkills=["x"], toolHintMaxLength=90), {},
         ("agents.defaults.disabledSkills", "agents.defaults.toolHintMaxLength")),
]  # fmt: skip


def loaded(block: dict[str, object]) -> Loaded:
    return load_text(json.dumps(block), Path("config.json"), env=ENV)


def at(value: object, path: str) -> object:
    def step(inner: object, name: str) -> object:
        return inner[name] if isinstance(inner, dict) else getattr(inner, name)

    return reduce(step, path.split("."), value)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form_of_the_family_loads_and_means_what_it_says(form: Form) -> None:
    found = loaded(form.block)
    assert {path: at(found.config, path) for path in form.means} == form.means
    assert tuple(one.path for one in found.problems) == form.noted
    assert not found.disabled


def test_a_webhook_is_used_in_the_mode_of_webhooks_alone() -> None:
    hook = {"webhookUrl": "https://bot.acme.test/t", "token": "123456:" + "a" * 30}
    for mode, used in (("webhook", True), ("polling", False)):
        config = loaded(telegram(mode=mode, **hook)).config.channels.telegram
        assert (settings_of(config, {}).webhook is not None) is used


def choice(block: dict[str, object], tmp_path: Path, model: str = "") -> ChoiceRequest:
    paths = Paths.resolve({"HOME": str(tmp_path)})
    return Builder(loaded(block), paths, Launch(), {}).models.choice(model)


async def test_presets_and_fallback_objects_are_asked_with_their_own_settings(tmp_path: Path) -> None:
    refused = Reply(status=401, body={"error": {"message": "no"}})
    async with LlmServer(refused) as first, LlmServer("from the second") as second:
        block: dict[str, object] = {
            "providers": {
                "openai": {"apiKey": "k", "apiBase": first.url + "/v1"},
                "own": {"apiKey": "k", "apiBase": second.url + "/v1"},
            },
            "modelPresets": {"fast": FAST},
            **defaults(modelPreset="fast", fallbackModels=[{"provider": "own", "model": "inner/m", "maxTokens": 7}]),
        }
        model = await choose(choice(block, tmp_path))
        deltas = [one async for one in model.stream(Request((UserMessage((Text("hi"),)),), max_tokens=50))]
        await model.aclose()
    assert isinstance(deltas[-1], Completed)
    asked = [json.loads(server.requests[-1].raw) for server in (first, second)]
    assert (asked[0]["model"], asked[0]["max_completion_tokens"], asked[0]["temperature"]) == ("small-1", 900, 0.3)
    assert (asked[1]["model"], asked[1]["max_tokens"]) == ("inner/m", 7)


def test_a_preset_is_chosen_by_its_name_and_a_missing_one_is_refused(tmp_path: Path) -> None:
    block = {"modelPresets": {"fast": FAST, "deep": DEEP}, **defaults(modelPreset="fast")}
    assert choice(block, tmp_path).window == 9000
    named = choice(block, tmp_path, "deep")
    assert (named.model, named.provider, named.tuning.reasoning_effort) == ("large-1", "anthropic", "high")
    with pytest.raises(UsageError, match=r'names "fats".*Did you mean "fast"'):
        choice({**block, **defaults(modelPreset="fats")}, tmp_path)


@table(
    "name model asked",
    ("antLing", "Ling-2.6-flash", "Ling-2.6-flash"),
    ("opencode_zen", "opencode/m-1", "m-1"),
    ("opencodeGo", "opencode-go/m-2", "m-2"),
    ("xiaomi_mimo", "xiaomi/mimo-9", "mimo-9"),
    ("volcengineCodingPlan", "ark-code", "ark-code"),
    ("lmStudio", "local-model", "local-model"),
)
async def test_a_provider_is_known_however_it_is_written(name: str, model: str, asked: str, tmp_path: Path) -> None:
    async with LlmServer("fine") as server:
        block = {**provider(name, apiBase=server.url + "/v1"), **defaults(provider=name, model=model)}
        chosen = await choose(choice(block, tmp_path))
        _ = [one async for one in chosen.stream(Request((UserMessage((Text("hi"),)),)))]
        await chosen.aclose()
    assert json.loads(server.requests[-1].raw)["model"] == asked


async def test_what_the_owner_wants_in_every_request_is_in_it(tmp_path: Path) -> None:
    async with LlmServer("fine") as server:
        own = {
            "apiBase": server.url + "/v1",
            "thinkingStyle": "enable_thinking",
            "extraBody": {"top_k": 4, "tools": [1]},
        }
        block: dict[str, object] = {"providers": {"acme": own}, **defaults(provider="acme", model="m")}
        chosen = await choose(choice(block, tmp_path))
        _ = [one async for one in chosen.stream(Request((UserMessage((Text("hi"),)),), reasoning_effort="high"))]
        await chosen.aclose()
    sent = json.loads(server.requests[-1].raw)
    assert (sent["top_k"], sent["tools"], sent["enable_thinking"]) == (4, [1], True)


@pytest.mark.parametrize("name", ["bedrock", "openai-codex", "githubCopilot", "xaiGrok"])
async def test_a_provider_that_is_not_reached_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"'{name}' is not supported. It is reached with"):
        await choose(choice(defaults(provider=name, model="m"), tmp_path))


async def test_a_key_for_a_service_without_a_usual_model_is_not_taken_unasked(tmp_path: Path) -> None:
    request = choice({}, tmp_path)
    with pytest.raises(UsageError, match="There is no model to ask"):
        await choose(replace(request, env={"HF_TOKEN": "k"}, local_roots={}, fallback_factory=None))


async def test_a_service_without_a_usual_model_is_asked_for_a_named_model_only(tmp_path: Path) -> None:
    request = replace(choice(provider("aihubmix"), tmp_path), env={}, local_roots={}, fallback_factory=None)
    with pytest.raises(UsageError, match="There is no model to ask"):
        await choose(request)
    with pytest.raises(UsageError, match="name a model"):
        await choose(
            replace(request, provider="aihubmix", credentials={"aihubmix": ProviderConfig(api_key="k", api_base=DEAD)})
        )


ROOT = Path(__file__).parent.parent.parent
FILES = sorted((ROOT / "tests" / "golden" / "configs").glob("*.json"))


def keys_in(value: object, path: str = "") -> Iterator[str]:
    """Every key of a file with its path, also those of groups."""
    if isinstance(value, dict):
        for name, inner in value.items():
            here = f"{path}.{name}" if path else name
            yield here
            yield from keys_in(inner, here)


@pytest.mark.parametrize("file", FILES, ids=[one.stem for one in FILES])
async def test_a_file_of_every_earlier_layout_starts_and_each_key_is_used_or_told(tmp_path: Path, file: Path) -> None:
    home = program(tmp_path)
    text = file.read_text(encoding="utf-8")
    (home.home / "config.json").write_text(text, encoding="utf-8")
    (home.home / "config.json").chmod(0o600)
    async with LlmServer(after=Reply("still here")) as llm:
        env = {"GOLDEN_LLM": llm.url, "GOLDEN_KEY": "sk-golden", "BRAVE_API_KEY": "brave-golden"}
        checked = await home.run("config", "check", env=env)
        started = await home.run("agent", "-m", "are you there", env=env)
        env["GOLDEN_LLM"] = ""
        refused = await home.run("config", "check", env=env)
        not_started = await home.run("agent", "-m", "are you there", env=env)
    assert checked.code in (0, 1), checked.out
    assert (started.code, "still here" in started.out) == (0, True), started.err
    assert (refused.code, not_started.code) == (2, 2), refused.out + not_started.err
    told = load_text(text, file, env=env | {"GOLDEN_LLM": "http://127.0.0.1:9"}).problems
    assert [str(one) for one in told if one.message != "this key has no effect." or not one.hint] == []
    assert {one.path for one in told} <= {*keys_in(json.loads(text))}
    assert all(one.path in checked.out for one in told), checked.out


def test_every_version_leaves_a_file_of_its_configuration() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert version in {one.stem for one in FILES}, (
        f"tests/golden/configs/{version}.json is missing: docs/contributing.md says how it is made (Release)."
    )


def test_what_has_no_effect_is_told_with_what_there_is_instead() -> None:
    family = json.loads((ROOT / "nanobot" / "config" / "family.json").read_text(encoding="utf-8"))
    assert [words for words in family["noEffect"] if re.search(r"\byet\b", words)] == []
