"""The little of MCP that one search call needs: JSON-RPC in one POST, answered as JSON or as an event stream."""

from collections.abc import Mapping

from nanobot.errors import SearchError, SearchErrorKind
from nanobot.web.search.http import Ask, Wire
from nanobot.web.search.payload import at, bad_payload, number, plain, record, text

ACCEPT = "application/json, text/event-stream"
_LIMITED = ("rate limit", "too many", "free mcp", "quota")


async def call(wire: Wire, url: str, method: str, params: Mapping[str, object], *, timeout: float) -> dict[str, object]:
    """The `result` of one call without a session. Raises `SearchError` only. `timeout` is in seconds."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}
    answer = await wire.json(Ask(url, body, headers={"Accept": ACCEPT}), timeout=timeout)
    message = _answer(answer.data)
    if message is None:
        raise bad_payload("The MCP server", answer.data)
    error = message.get("error")
    if error is not None:
        words = plain(at(error, "message")) or "no reason given"
        raise SearchError(_kind(words, number(at(error, "code"))), f"The MCP server refused: {words[:200]}")
    return record(message.get("result"))


def content_text(result: Mapping[str, object]) -> str:
    """The text of a tool's result. Raises `SearchError` where the tool says that it failed."""
    content = result.get("content")
    if not isinstance(content, list):
        raise bad_payload("The MCP server", result)
    words = "\n".join(text(at(item, "text")) for item in content if at(item, "type") == "text")
    if result.get("isError"):
        said = plain(words)[:200] or "no reason given"
        raise SearchError(_kind(said, None), f"The MCP server's search failed: {said}")
    return words


def _answer(data: object) -> dict[str, object] | None:
    """The answer to our one request among the messages; notifications stand between."""
    messages = data if isinstance(data, list) else [data]
    for message in map(record, messages):
        if "method" not in message and ("result" in message or "error" in message):
            return message
    return None


def _kind(words: str, code: float | None) -> SearchErrorKind:
    if code == 429 or any(mark in words.lower() for mark in _LIMITED):
        return "rate_limited"
    return "bad_request" if code == -32602 else "unavailable"
