"""A model that tells by its answers what it was asked, and refuses a conversation that is not whole."""

import re
from dataclasses import dataclass, field

from nanobot.providers.scripted import Call, Pause, Say
from tests.crash.strict_service import problems
from tests.fakes.llm_server import JsonObject, LlmRequest, Reply

#: A job in a message: `note-a1` wants a line noted by a tool, `slow-b1` a slow answer, `plain-17` neither.
JOB = re.compile(r"\b(?:note|slow|plain)-[a-z]?\d+\b")
TOOL = "mcp_notes_add"
_FILLER = " The words of this answer come slowly, one after the other, so that a person sees them grow."


@dataclass(slots=True)
class Brain:
    """`refused` are the requests that a strict service would not have taken, with the reason.

    `delay` is in seconds, before each answer.
    """

    delay: float = 0.0
    refused: list[str] = field(default_factory=list)
    requests: int = 0

    def __call__(self, request: LlmRequest) -> Reply:
        self.requests += 1
        if wrong := problems(request.body):
            self.refused.append("; ".join(wrong))
            return Reply(status=400, body={"error": {"message": wrong[0]}})
        return _reply([one for one in request.messages if one["role"] != "system"], self.delay)


def _reply(messages: list[JsonObject], delay: float) -> Reply:
    """Do the jobs that no answer has named yet; a note first by its tool."""
    answers = " ".join(_text(one) for one in messages if one["role"] == "assistant" and not one.get("tool_calls"))
    asked = list(dict.fromkeys(JOB.findall(" ".join(_text(one) for one in messages if one["role"] == "user"))))
    done = set(JOB.findall(answers))
    jobs = [job for job in asked if job not in done] or asked[-1:]
    results = _results(messages)
    for job in jobs:
        if job.startswith("note") and job not in results:
            return Reply(Call(TOOL, {"line": job}, id=f"call-{job}"), delay=delay)
    words = ", ".join(_told(job, results) for job in jobs)
    if any(job.startswith("slow") for job in jobs):
        slowly = (Say(_FILLER), Pause(1.3), Say(_FILLER), Pause(0.2), Say(" The end."))
        return Reply(Say(f"Answer to {words}."), *slowly, delay=delay)
    return Reply(f"Answer to {words}. The end.", delay=delay)


def _told(job: str, results: dict[str, str]) -> str:
    if not job.startswith("note"):
        return job
    return f"{job} (noted)" if "noted" in results[job] else f"{job} (perhaps not: {results[job][:80]})"


def _results(messages: list[JsonObject]) -> dict[str, str]:
    """What the tool said, by job."""
    return {str(one["tool_call_id"]).removeprefix("call-"): _text(one) for one in messages if one["role"] == "tool"}


def _text(message: JsonObject) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
