"""A real MCP server of the SDK that wants OAuth, with the service that logs in beside it, as a program.

It prints its port, and then what it was asked for: `client`, `code`, `refresh`. Whoever opens the link is let in.
Its first token ends after the seconds of its argument.
"""

import asyncio
import socket
import sys
import time

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl


class Service(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Clients, codes and tokens in memory."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshing: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        print("client", flush=True)
        self.clients[client_info.client_id or ""] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = f"code-{len(self.codes)}"
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 600,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        print("code", flush=True)
        return self._fresh(client, self.seconds)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refreshing.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        print("refresh", flush=True)
        return self._fresh(client, 3600)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.tokens.get(token)
        return found if found and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.tokens.pop(token.token, None)

    def _fresh(self, client: OAuthClientInformationFull, seconds: int) -> OAuthToken:
        name, who = f"CANARY-token-{len(self.tokens)}", client.client_id or ""
        self.tokens[name] = AccessToken(token=name, client_id=who, scopes=[], expires_at=int(time.time() + seconds) + 1)
        self.refreshing[f"again-{name}"] = RefreshToken(token=f"again-{name}", client_id=who, scopes=[])
        return OAuthToken(access_token=name, expires_in=seconds, refresh_token=f"again-{name}")


async def serve(seconds: int) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    place = AnyHttpUrl(f"http://127.0.0.1:{port}")
    auth = AuthSettings(
        issuer_url=place,
        resource_server_url=AnyHttpUrl(f"http://127.0.0.1:{port}/mcp"),
        client_registration_options=ClientRegistrationOptions(enabled=True),
        validate_token_resource=False,
    )
    server = MCPServer("private", auth_server_provider=Service(seconds), auth=auth)

    @server.tool()
    def hello() -> str:
        """Greet whoever is logged in."""
        return "hello"

    print(port, flush=True)
    await uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
