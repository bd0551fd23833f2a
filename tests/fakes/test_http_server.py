import asyncio

import httpx
import pytest

from tests.fakes.http_server import HttpServer, Request, Responder


async def test_answers_streams_and_resets_as_scripted() -> None:
    async def handler(request: Request, respond: Responder) -> None:
        match request.path:
            case "/whole":
                await respond.json({"q": request.query, "body": request.body.decode()})
            case "/stream":
                await respond.start(content_type="text/plain")
                for piece in ("a", "b", "c"):
                    await respond.chunk(piece)
                await respond.end()
            case "/hang":
                await respond.hang()
            case _:
                await respond.abort()

    async with HttpServer(handler) as server, httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
        assert (await client.post("/whole?x=1", content=b"hi")).json() == {"q": {"x": "1"}, "body": "hi"}
        assert (await client.get("/stream")).text == "abc"
        with pytest.raises(httpx.ReadTimeout):
            await client.get("/hang", timeout=0.1)
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await client.get("/reset")
        await client.aclose()
        await asyncio.wait_for(server.all_closed(), 120)
    assert [request.path for request in server.requests] == ["/whole", "/stream", "/hang", "/reset"]
