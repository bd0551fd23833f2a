"""The server on loopback behind the fakes."""

import asyncio

from tests.fakes.http_server import HttpServer, Request, Responder


async def test_the_server_closes_in_the_moment_in_which_an_answer_ends_while_its_client_stays() -> None:
    served = asyncio.Event()

    async def handler(_request: Request, respond: Responder) -> None:
        await respond.send(200, "ok")
        served.set()

    async with asyncio.timeout(120):
        async with HttpServer(handler) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            await served.wait()
        writer.close()
