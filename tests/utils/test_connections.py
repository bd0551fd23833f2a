"""Connections are used again, and those that were idle for too long go without harm to a request beside them."""

import asyncio

import httpx

from nanobot.utils.connections import Connections, no_certificates
from tests.fakes.http_server import HttpServer, Request, Responder


async def answer(request: Request, respond: Responder) -> None:
    await asyncio.sleep(float(request.path.strip("/")))
    await respond.send(body="well")


async def test_a_connection_that_is_closed_after_its_time_takes_no_request_beside_it_along() -> None:
    async with (
        HttpServer(answer) as server,
        httpx.AsyncClient(transport=Connections(no_certificates(), idle=0.0005)) as client,
    ):

        async def ask(number: int) -> None:
            for _ in range(40):  # so that one ends while another begins
                assert (await client.get(f"{server.url}/{0.001 * (number + 1)}")).text == "well"
                await asyncio.sleep(0.0007 * number)

        await asyncio.gather(*map(ask, range(6)))
