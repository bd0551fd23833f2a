"""Configuration files that cannot be used, each with what the program has to say about it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Broken:
    """`line` and `key` are where the problem is (0 and empty where there is no such place), `says` is in the text."""

    name: str
    data: bytes
    line: int
    key: str
    says: tuple[str, ...]


def _b(name: str, text: str, line: int, key: str, *says: str) -> Broken:
    return Broken(name, text.encode(), line, key, says)


BROKEN: tuple[Broken, ...] = (
    # The form of the file.
    _b("empty", "", 1, "", "empty", "write {}"),
    _b("comments only", "// nothing\n\n", 1, "", "empty"),
    Broken("utf-16", '{"a": 1}'.encode("utf-16"), 0, "", ("UTF-16", "UTF-8")),
    Broken("latin-1", b'{\n"tools": {},\n"agents": "M\xfcller"}', 3, "", ("not UTF-8",)),
    Broken("an image", b"\x89PNG\r\n\x1a\n\x00\x00\x00", 1, "", ("UTF-8",)),
    _b("a list", "[]", 1, "", "holds no object"),
    _b("a text", '"tools"', 1, "", "holds no object"),
    _b("cut off", '{\n  "tools": {\n    "web": {', 3, "", "ends early", "never closed"),
    _b("cut off in a text", '{\n  "tools": "we', 2, "", "never closed"),
    _b("cut off after a colon", '{"tools":', 1, "", "ends where a value belongs"),
    _b("two objects", '{}\n{"tools": {}}', 2, "", "after the end"),
    _b("missing comma", '{\n  "tools": {}\n  "agents": {}\n}', 2, "", '"," or "}" belongs before it'),
    _b("missing colon", '{"tools" {}}', 1, "", 'a ":" belongs there'),
    _b("two commas", '{"tools": {},,}', 1, "", "two commas"),
    _b("single quotes", "{\n 'tools': {}}", 2, "", "double quotes"),
    _b("curly quotes", "{“tools”: {}}", 1, "", "straight double quotes"),
    _b("key without quotes", "{tools: {}}", 1, "", "a key in double quotes"),
    _b("python words", '{"tools": {"restrictToWorkspace": True}}', 1, "", "JSON writes true"),
    _b("not a number", '{"agents": {"defaults": {"temperature": NaN}}}', 1, "", "JSON writes null"),
    _b("leading zero", '{"gateway": {"port": 08080}}', 1, "", "no JSON number"),
    _b("endless number", '{"gateway": {"port": ' + "9" * 5000 + "}}", 1, "", "digits"),
    _b("huge number", '{"agents": {"defaults": {"temperature": 1e999}}}', 1, "", "too large"),
    _b("hash comment", '{\n  # mine\n  "tools": {}}', 2, "", "begins with //"),
    _b("open comment", '{\n "tools": {} /* mine\n}', 2, "", "close it with */"),
    _b("windows path", '{"agents": {"defaults": {"workspace": "C:\\work"}}}', 1, "", "backslash"),
    _b("tab in a text", '{"agents": {"defaults": {"model": "a\tb"}}}', 1, "", "control character"),
    _b("half a pair", '{"agents": {"defaults": {"model": "\\ud83d"}}}', 1, "", "half"),
    _b("too deep", "[" * 5000, 1, "", "nested deeper"),
    _b("same key twice", '{\n"tools": {},\n"tools": {}}', 3, "tools", "already"),
    _b(
        "both spellings",
        '{"tools": {"web": {"search": {\n"maxResults": 5,\n"max_results": 6}}}}',
        3,
        "tools.web.search.max_results",
        "tools.web.search.maxResults",
    ),
    _b(
        "alias and its target",
        '{"mcp": {"a": {"url": "https://one.example"}},\n"tools": {"mcpServers": {"a": {"url": "https://two.example"}}}}',
        2,
        "tools.mcpServers.a.url",
        "mcp.a.url",
    ),
    # Types and values.
    _b(
        "list for any values",
        '{"providers": {"openai": {"extraBody": [1]}}}',
        1,
        "providers.openai.extraBody",
        "a group of names and values",
    ),
    _b("group as list", '{"tools": []}', 1, "tools", "a list", "a group of keys"),
    _b("group as text", '{"providers": {"openai": "sk-abcdefghijklmnop"}}', 1, "providers.openai", "a group of keys"),
    _b(
        "text for a number",
        '{"tools": {"web": {"search": {\n"maxResults": "many"}}}}',
        2,
        "tools.web.search.maxResults",
        'got "many"',
        "a whole number from 1 to 20",
    ),
    _b(
        "quoted number",
        '{"tools": {"web": {"search": {"maxResults": "5"}}}}',
        1,
        "tools.web.search.maxResults",
        "Write 5 without quotes",
    ),
    _b("whole fraction", '{"gateway": {"concurrency": 80.0}}', 1, "gateway.concurrency", "got 80.0", "nearest is 80"),
    _b("fraction", '{"gateway": {"concurrency": 80.5}}', 1, "gateway.concurrency", "got 80.5", "nearest is 80"),
    _b(
        "out of range",
        '{"tools": {"web": {"search": {"maxResults": 50}}}}',
        1,
        "tools.web.search.maxResults",
        "got 50",
        "nearest is 20",
    ),
    _b("zero tokens", '{"agents": {"defaults": {"maxTokens": 0}}}', 1, "agents.defaults.maxTokens", "from 1 up"),
    _b(
        "true for a number",
        '{"gateway": {"concurrency": true}}',
        1,
        "gateway.concurrency",
        "got true",
        "a whole number",
    ),
    _b("yes for true", '{"tools": {"web": {"enable": "yes"}}}', 1, "tools.web.enable", "Write true without quotes"),
    _b("one for true", '{"tools": {"web": {"enable": 1}}}', 1, "tools.web.enable", "Write true"),
    _b(
        "unknown search back end",
        '{"tools": {"web": {"search": {"provider": "brav"}}}}',
        1,
        "tools.web.search.provider",
        '"tavily"',
        'Did you mean "brave"?',
    ),
    _b(
        "unknown name among the fallbacks",
        '{"tools": {"web": {"search": {"fallback": ["tavly"]}}}}',
        1,
        "tools.web.search.fallback[0]",
        'Did you mean "tavily"?',
    ),
    _b(
        "unknown back end with a key",
        '{"tools": {"web": {"search": {"providers": {\n"Brav": {"apiKey": "k"}}}}}}',
        2,
        "tools.web.search.providers.Brav",
        'Did you mean "brave"?',
    ),
    _b(
        "unknown order",
        '{"tools": {"web": {"fetch": {"order": "local"}}}}',
        1,
        "tools.web.fetch.order",
        'Did you mean "local-first"?',
    ),
    _b(
        "text for a list",
        '{"agents": {"defaults": {"fallbackModels": "gpt"}}}',
        1,
        "agents.defaults.fallbackModels",
        'Write ["gpt"]',
    ),
    _b(
        "wrong item of a list",
        '{"channels": {"telegram": {"allowFrom": ["ada",\n{}]}}}',
        2,
        "channels.telegram.allowFrom[1]",
        "a group of keys",
    ),
    _b("number for a key", '{"providers": {"openai": {"apiKey": 12345678}}}', 1, "providers.openai.apiKey", "a text"),
    _b(
        "number in a header",
        '{"providers": {"openai": {"extraHeaders": {\n"X-Team": 7}}}}',
        2,
        "providers.openai.extraHeaders.X-Team",
        "a text",
    ),
    _b("bad proxy", '{"tools": {"web": {"proxy": "127.0.0.1:7890"}}}', 1, "tools.web.proxy", "http://host:port"),
    _b(
        "address without a scheme",
        '{"providers": {"custom": {"apiBase": "localhost:8000/v1"}}}',
        1,
        "providers.custom.apiBase",
        "http://",
    ),
    _b("bad address block", '{"tools": {"ssrfWhitelist": ["10.0.0.0/64"]}}', 1, "tools.ssrfWhitelist[0]", "192.168.1"),
    _b(
        "time zone",
        '{"agents": {"defaults": {"timezone": "Europe/Berlni"}}}',
        1,
        "agents.defaults.timezone",
        "Europe/Berlin",
    ),
    _b("server without an address", '{"mcp": {"exa": {"enabled": true}}}', 1, "mcp.exa", '"command"', '"url"'),
    _b(
        "replaced login",
        '{"tools": {"web": {"fetch": {"service": {"baseUrl": "http://r.example", "headers": {"Authorization":"x"}}}}}}',
        1,
        "tools.web.fetch.service",
        "Authorization",
        "overrideAuth",
    ),
    _b("open variable", '{"agents": {"defaults": {"model": "${MODEL"}}}', 1, "agents.defaults.model", "${NAME}"),
    _b("unset and needed", '{"agents": {"defaults": {"model": "${NO_SUCH}"}}}', 1, "agents.defaults.model", "NO_SUCH"),
    # Rules of the policy.
    _b(
        "rule without decision",
        '{"tools": {"policy": {"rules": [{"tool": "exec"}]}}}',
        1,
        "tools.policy.rules[0]",
        '"decision"',
    ),
    _b(
        "rule for everything",
        '{"tools": {"policy": {"rules": [\n{"tool": "*", "decision": "allow"}]}}}',
        2,
        "tools.policy.rules[0]",
        'preset "free"',
    ),
    _b(
        "rule with a wrong decision",
        '{"tools": {"policy": {"rules": [\n{"tool": "exec", "decision": "alow"}]}}}',
        2,
        "tools.policy.rules[0].decision",
        'Did you mean "allow"?',
    ),
    _b(
        "rule with an unknown key",
        '{"tools": {"policy": {"rules": [\n{"tool": "exec", "decision": "ask", "command": "ls"}]}}}',
        2,
        "tools.policy.rules[0].command",
        "unknown key",
    ),
    _b(
        "unknown preset",
        '{"tools": {"policy": {"preset": "yolo"}}}',
        1,
        "tools.policy.preset",
        '"careful", "normal", "free"',
    ),
)
