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


def _v(name: str, place: str, value: str, *says: str, line: int = 2) -> Broken:
    """A file that is right but for one value, which stands with its key in the second line; or for an item of it."""
    *groups, key = place.partition("[")[0].split(".")
    text = "".join(f'{{"{group}": ' for group in groups) + f'{{\n"{key}": {value}}}' + "}" * len(groups)
    return _b(name, text, line, place, *says)


SEARCH, ENV, RULES = "tools.web.search", "tools.exec.allowedEnvKeys", "tools.policy.rules"

BROKEN: tuple[Broken, ...] = (
    # The form of the file.
    _b("empty", "", 1, "", "empty", "write {}"),
    Broken("utf-16", '{"a": 1}'.encode("utf-16"), 0, "", ("UTF-16", "UTF-8")),
    Broken("latin-1", b'{\n"tools": {},\n"agents": "M\xfcller"}', 3, "", ("not UTF-8",)),
    _b("a list", "[]", 1, "", "holds no object"),
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
    _v("list for any values", "providers.openai.extraBody", "[1]", "a group of names and values"),
    _v("group as list", "tools", "[]", "a list", "a group of keys"),
    _v("text for a number", f"{SEARCH}.maxResults", '"many"', 'got "many"', "a whole number from 1 to 20"),
    _v("quoted number", f"{SEARCH}.maxResults", '"5"', "Write 5 without quotes"),
    _v("fraction", "gateway.concurrency", "80.5", "got 80.5", "nearest is 80"),
    _v("out of range", f"{SEARCH}.maxResults", "50", "got 50", "nearest is 20"),
    _v("zero tokens", "agents.defaults.maxTokens", "0", "from 1 up"),
    _v("true for a number", "gateway.concurrency", "true", "got true", "a whole number"),
    _v("yes for true", "tools.web.enable", '"yes"', "Write true without quotes"),
    _v("one for true", "tools.web.enable", "1", "Write true"),
    _v("unknown search back end", f"{SEARCH}.provider", '"brav"', '"tavily"', 'Did you mean "brave"?'),
    _v("unknown name among the fallbacks", f"{SEARCH}.fallback[0]", '["tavly"]', 'Did you mean "tavily"?'),
    _v("unknown back end with a key", f"{SEARCH}.providers.Brav", '{"apiKey": "k"}', 'Did you mean "brave"?'),
    _v("text for a list", "agents.defaults.fallbackModels", '"gpt"', 'Write ["gpt"]'),
    _v("wrong item of a list", "channels.telegram.allowFrom[1]", '["ada",\n{}]', "a group of keys", line=3),
    _v("number for a key", "providers.openai.apiKey", "12345678", "a text"),
    _v("bad proxy", "tools.web.proxy", '"127.0.0.1:7890"', "http://host:port"),
    _v("address without a scheme", "providers.custom.apiBase", '"localhost:8000/v1"', "http://"),
    _v("bad address block", "tools.ssrfWhitelist[0]", '["10.0.0.0/64"]', "192.168.1"),
    _v("time zone", "agents.defaults.timezone", '"Europe/Berlni"', "Europe/Berlin"),
    _v("city that is no zone", "agents.defaults.timezone", '"Europe/Munich"', "such as Europe/Berlin"),
    _v("server without an address", "mcp.exa", '{"enabled": true}', '"command"', '"url"'),
    _v(
        "replaced login",
        "tools.web.fetch.service",
        '{"baseUrl": "http://r.example", "headers": {"Authorization":"x"}}',
        "Authorization",
        "overrideAuth",
    ),
    _v("open variable", "agents.defaults.model", '"${MODEL"', "${NAME}"),
    _v("unset and needed", "agents.defaults.model", '"${NO_SUCH}"', "NO_SUCH"),
    _v(
        "server that is both",
        "mcp.exa",
        '{"command": "npx", "url": "https://one.example/mcp"}',
        "and this is both",
        "leave one of them out",
    ),
    _v(
        "server whose name has blanks",
        "tools.mcpServers.my files",
        '{"command": "npx"}',
        "no blanks",
        'write "my-files"',
    ),
    _v(
        "network of a program that has your rights",
        "mcp.exa",
        '{"command": "npx",\n"network": ["api.example.org"]}',
        '"sandbox": true',
    ),
    _b(
        "network of a server as an address",
        '{"mcp": {"exa": {"command": "npx", "sandbox": true, "network": ["https://api.example.org/x"]}}}',
        1,
        "mcp.exa.network[0]",
        "example.org",
    ),
    _v("two variables as one", f"{ENV}[0]", '["A B"]', "letters, digits and _", "a text of its own"),
    _v("variable with its value", f"{ENV}[1]", '["HOME",\n"TOKEN=x"]', "without its value", line=3),
    _v(
        "the whole machine as a root",
        "tools.files.roots[1]",
        '["~/notes",\n"/"]',
        "the whole machine",
        "name the folders",
        line=3,
    ),
    _v(
        "the whole machine by a way round",
        "tools.files.roots[0].path",
        '[{"path": "/usr/..", "access": "write"}]',
        "the whole machine",
    ),
    # Rules of the policy.
    _v("rule without decision", f"{RULES}[0]", '[{"tool": "exec"}]', '"decision"'),
    _v("rule for everything", f"{RULES}[0]", '[{"tool": "*", "decision": "allow"}]', 'preset "free"'),
    _v(
        "rule with a wrong decision",
        f"{RULES}[0].decision",
        '[{"tool": "exec", "decision": "alow"}]',
        'Did you mean "allow"?',
    ),
    _v(
        "rule with an unknown key",
        f"{RULES}[0].command",
        '[{"tool": "exec", "decision": "ask", "command": "ls"}]',
        "unknown key",
    ),
)
