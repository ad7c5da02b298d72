"""An MCP server on loopback that wants credentials, and an authorization server beside it.

    python mcp_remote.py bearer KEY | oauth | sse KEY | open

Prints its address. Plain Starlette, no SDK: what is checked here is what the other side really
sends. `oauth` registers clients, approves at once, checks PKCE and client credentials, and
refreshes. Every request is told on standard error as a line.
"""

import asyncio
import base64
import hashlib
import json
import secrets
import sys
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote, urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

CLIENT, SECRET = "machine-1", "a secret of the machine"
TOOL = {
    "name": "score",
    "description": "Liver score of the patient",
    "inputSchema": {
        "type": "object",
        "properties": {"ast": {"type": "number", "description": "AST in U/L"}},
        "required": ["ast"],
    },
}


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """What a small server says to a message of JSON-RPC."""
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        return None
    result: dict[str, Any] = {}
    if method == "initialize":
        about = {"name": "remote", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "serverInfo": about}
        result = {**hello, "capabilities": {"tools": {}}}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "tools/call":
        said = json.dumps(params.get("arguments"))
        result = {"content": [{"type": "text", "text": said}]}
    elif method != "ping":
        error = {"code": -32601, "message": "no such method"}
        return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class Remote:
    """One server of one kind."""

    def __init__(self, kind: str, key: str) -> None:
        self.kind, self.key, self.base = kind, key, ""
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: set[str] = set()
        self.refreshes: set[str] = set()
        self.streams: dict[str, asyncio.Queue[str]] = {}

    def denied(self, request: Request) -> Response | None:
        """The refusal of a request without good credentials."""
        given = request.headers.get("authorization", "")
        good = {
            "bearer": given == f"Bearer {self.key}",
            "sse": given == f"Bearer {self.key}",
            "oauth": given.removeprefix("Bearer ") in self.tokens,
            "open": True,
        }[self.kind]
        note(f"{request.method} {request.url.path} {'good' if good else 'denied'}")
        if good:
            return None
        place = f'{self.base}/.well-known/oauth-protected-resource/mcp"'
        wanted = f'Bearer resource_metadata="{place}' if self.kind == "oauth" else "Bearer"
        return Response("who are you?", 401, headers={"www-authenticate": wanted})

    async def mcp(self, request: Request) -> Response:
        refusal = self.denied(request)
        if refusal is not None:
            return refusal
        made = answer(await request.json())
        return Response(status_code=202) if made is None else JSONResponse(made)

    async def sse(self, request: Request) -> Response:
        refusal = self.denied(request)
        if refusal is not None:
            return refusal
        session = secrets.token_hex(8)
        self.streams[session] = asyncio.Queue()

        async def events() -> AsyncIterator[str]:
            yield f"event: endpoint\ndata: /messages?session_id={session}\n\n"
            while True:
                yield f"event: message\ndata: {await self.streams[session].get()}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    async def messages(self, request: Request) -> Response:
        refusal = self.denied(request)
        if refusal is not None:
            return refusal
        made = answer(await request.json())
        if made is not None:
            await self.streams[request.query_params["session_id"]].put(json.dumps(made))
        return Response(status_code=202)

    async def resource(self, _: Request) -> Response:
        return JSONResponse({"resource": f"{self.base}/mcp", "authorization_servers": [self.base]})

    async def metadata(self, _: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.base,
                "authorization_endpoint": f"{self.base}/authorize",
                "token_endpoint": f"{self.base}/token",
                "registration_endpoint": f"{self.base}/register",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def register(self, request: Request) -> Response:
        note("registered")
        made = {**await request.json(), "client_id": f"client-{secrets.token_hex(4)}"}
        return JSONResponse(made, 201)

    async def authorize(self, request: Request) -> Response:
        """Somebody who is signed in already agrees."""
        asked = dict(request.query_params)
        if asked.get("code_challenge_method") != "S256" or not asked.get("code_challenge"):
            return Response("no PKCE", 400)
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        back = urlencode({"code": code, "state": asked["state"]})
        return RedirectResponse(f"{asked['redirect_uri']}?{back}", 302)

    async def token(self, request: Request) -> Response:
        given = {key: str(value) for key, value in (await request.form()).items()}
        grant = given.get("grant_type")
        fine = False
        if grant == "authorization_code":
            asked = self.codes.pop(given.get("code", ""), {})
            digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
            proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            fine = proof == asked.get("code_challenge")
            fine = fine and given.get("redirect_uri") == asked.get("redirect_uri")
        elif grant == "client_credentials":
            kind, _, text = request.headers.get("authorization", "").partition(" ")
            name, _, secret = base64.b64decode(text).decode().partition(":")
            fine = kind == "Basic" and (unquote(name), unquote(secret)) == (CLIENT, SECRET)
        elif grant == "refresh_token":
            fine = given.get("refresh_token") in self.refreshes
        note(f"token {grant} {'good' if fine else 'denied'}")
        if not fine:
            return JSONResponse({"error": "invalid_grant"}, 400)
        access, refresh = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        self.tokens.add(access)
        self.refreshes.add(refresh)
        made = {"access_token": access, "token_type": "Bearer", "expires_in": 3600}
        return JSONResponse(
            made if grant == "client_credentials" else {**made, "refresh_token": refresh}
        )


def note(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main(kind: str, key: str) -> None:
    remote = Remote(kind, key)
    app = Starlette(
        routes=[
            Route("/mcp", remote.mcp, methods=["POST"]),
            Route("/sse", remote.sse),
            Route("/messages", remote.messages, methods=["POST"]),
            Route("/.well-known/oauth-protected-resource/mcp", remote.resource),
            Route("/.well-known/oauth-authorization-server", remote.metadata),
            Route("/register", remote.register, methods=["POST"]),
            Route("/authorize", remote.authorize),
            Route("/token", remote.token, methods=["POST"]),
        ]
    )
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical")
    listening = config.bind_socket()
    remote.base = f"http://127.0.0.1:{listening.getsockname()[1]}"
    sys.stdout.write(f"{remote.base}\n")
    sys.stdout.flush()
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
