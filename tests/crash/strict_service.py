"""What a strict model service demands of a conversation on the wire of Chat Completions, stated on its own."""

import json

from tests.fakes.llm_server import JsonObject


def problems(body: JsonObject) -> list[str]:
    """Why a strict service would refuse the request: calls without results, results without calls, blank content."""
    found: list[str] = []
    waiting: list[str] = []
    said = body.get("messages")
    messages = [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []
    if not any(one.get("role") == "user" for one in messages):
        found.append("nobody said anything")
    if messages and messages[-1].get("role") == "assistant":
        found.append("the last word is the assistant's")
    for place, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") in waiting:
                waiting.remove(str(message.get("tool_call_id")))
            else:
                found.append(f"message {place} is a result without a call")
            continue
        if waiting:
            found.append(f"message {place} comes before the results of {waiting}")
            waiting = []
        calls = message.get("tool_calls") or []
        if role == "assistant":
            waiting = [str(call["id"]) for call in calls]
            found += [f"message {place} has arguments that are no object" for call in calls if not _is_object(call)]
            if len(set(waiting)) < len(waiting):
                found.append(f"message {place} has two calls of one id")
        if not calls and not message.get("content"):
            found.append(f"message {place} says nothing")
    return found + ([f"no results of {waiting}"] if waiting else [])


def _is_object(call: JsonObject) -> bool:
    function = call.get("function")
    try:
        return isinstance(function, dict) and isinstance(json.loads(function["arguments"] or "{}"), dict)
    except ValueError:
        return False
