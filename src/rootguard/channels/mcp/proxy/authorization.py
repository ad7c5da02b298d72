"""Signing in to a server on HTTP, through the SDK's client: OAuth 2.1, and where tokens are kept.

With nothing but the server's address the owner signs in with a browser (authorization code with
PKCE, a client that registers itself, an answer on this machine's loopback). A client id with a
secret is a machine's own (client credentials). Tokens are sealed under a key of the vault and kept
in a file beside the profile, so that nobody signs in twice and nobody reads them without the vault.

Nothing here sees a private value, and nothing of a token is ever in a repr, a log or an error.
"""

import json
import os
import secrets
import sys
import threading
import time
import warnings
import webbrowser
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import anyio.to_thread
import httpx2
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, ValidationError

_NONCE: Final = 12  # what GCM takes as it is
_PATIENCE: Final = 300.0
"""Seconds that the owner has to sign in: what a browser's own session would bear."""
_DONE: Final = b"<!doctype html><title>RootGuard</title><p>Signed in. You can close this page.</p>"
_NOT_DONE: Final = b"<!doctype html><title>RootGuard</title><p>That did not work. Try again.</p>"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class SignIn:
    """How to sign in to one server. Without a secret the owner does, with a browser."""

    client_id: str = ""
    client_secret: str = ""
    issuer: str = ""
    scope: str = ""


class SealedTokens:
    """Tokens of several servers in one file, encrypted under a key of the vault."""

    def __init__(self, path: Path, key: bytes) -> None:
        self._path = path
        derived = HKDF(hashes.SHA256(), 32, None, b"rootguard oauth tokens").derive(key)
        self._aead = AESGCM(derived)
        self._lock = threading.Lock()  # servers of one file sign in on threads of their own

    def __repr__(self) -> str:
        return "<sealed tokens>"

    def read(self, server: str) -> dict[str, Any]:
        """What is kept for a server; nothing if there is none, or another vault sealed it."""
        with self._lock:
            kept = self._all().get(server)
        return dict(kept) if isinstance(kept, dict) else {}

    def write(self, server: str, name: str, value: Mapping[str, Any]) -> None:
        """Keep something for a server."""
        with self._lock:
            whole = self._all()
            whole[server] = {**whole.get(server, {}), name: dict(value)}
            nonce = os.urandom(_NONCE)
            sealed = nonce + self._aead.encrypt(nonce, json.dumps(whole).encode(), None)
            draft = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
            # Readable by its owner alone from the first byte, and never half there.
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as to:
                to.write(sealed)
            draft.replace(self._path)

    def _all(self) -> dict[str, Any]:
        with suppress(OSError, ValueError, InvalidTag):
            sealed = self._path.read_bytes()
            found = json.loads(self._aead.decrypt(sealed[:_NONCE], sealed[_NONCE:], None))
            return found if isinstance(found, dict) else {}
        return {}


class ServerTokens:
    """One server's part of the sealed tokens, as the SDK asks for it."""

    def __init__(self, sealed: SealedTokens, server: str) -> None:
        self._sealed = sealed
        self._server = server

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens; one that is over has no access token, so that it is refreshed first."""
        kept = self._sealed.read(self._server).get("tokens")
        if not isinstance(kept, dict):
            return None
        until = kept.pop("until", None)
        with suppress(ValidationError):
            tokens = OAuthToken.model_validate(kept)
            over = isinstance(until, int | float) and until < time.time()
            return tokens.model_copy(update={"access_token": ""}) if over else tokens
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        until = None if tokens.expires_in is None else time.time() + tokens.expires_in
        content = {**tokens.model_dump(mode="json"), "until": until}
        self._sealed.write(self._server, "tokens", content)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        with suppress(ValidationError):
            kept = self._sealed.read(self._server).get("client")
            return None if kept is None else OAuthClientInformationFull.model_validate(kept)
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._sealed.write(self._server, "client", client_info.model_dump(mode="json"))


class LoopbackCallback:
    """Where the browser comes back to: one address on this machine, for one answer."""

    def __init__(self, port: int) -> None:
        self._result = AuthorizationCodeResult(code="")
        self._come = threading.Event()  # set by the server's thread when the browser is back
        # The port that the client was registered with, if it is free; any other otherwise.
        self._server = _listening(port, self._handler())
        self.port = int(self._server.server_address[1])
        self.address = f"http://127.0.0.1:{self.port}/callback"

    async def open(self, address: str) -> None:
        """Show the owner where to sign in, and open it if there is a browser."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        sys.stderr.write(f"rootguard: sign in to the server at {address}\n")
        sys.stderr.flush()
        await anyio.to_thread.run_sync(_browse, address)

    async def wait(self) -> AuthorizationCodeResult:
        """The answer; an empty one if nobody signed in."""
        await anyio.to_thread.run_sync(self._come.wait, _PATIENCE, abandon_on_cancel=True)
        await anyio.to_thread.run_sync(self._server.shutdown)
        return self._result

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path != "/callback":
                    self.send_error(HTTPStatus.NOT_FOUND)
                    return
                given = {key: values[0] for key, values in parse_qs(parts.query).items()}
                outer._result = AuthorizationCodeResult(
                    code=given.get("code", ""), state=given.get("state"), iss=given.get("iss")
                )
                self.send_response(HTTPStatus.OK)
                self.send_header("content-type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(_DONE if "code" in given else _NOT_DONE)
                outer._come.set()

            def log_message(self, *_: object) -> None:
                """Say nothing: the request's line has the code in it."""

        return Handler


def _listening(port: int, handler: type[BaseHTTPRequestHandler]) -> HTTPServer:
    if port:
        with suppress(OSError):
            return HTTPServer(("127.0.0.1", port), handler)
    return HTTPServer(("127.0.0.1", 0), handler)


def _browse(address: str) -> None:
    with suppress(webbrowser.Error, OSError):
        webbrowser.open(address)


def authorize(url: str, sign_in: SignIn, sealed: SealedTokens) -> httpx2.Auth:
    """What signs the requests to one server."""
    storage = ServerTokens(sealed, url)
    if sign_in.client_secret:
        with warnings.catch_warnings():
            # The SDK wants the issuer named; without one its own discovery finds it.
            warnings.simplefilter("ignore")
            return ClientCredentialsOAuthProvider(
                url,
                storage,
                sign_in.client_id,
                sign_in.client_secret,
                scope=sign_in.scope or None,
                issuer=sign_in.issuer or None,
            )
    callback = LoopbackCallback(_registered_port(sealed, url))
    metadata = OAuthClientMetadata(
        client_name="RootGuard",
        redirect_uris=[AnyUrl(callback.address)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",  # noqa: S106 - a program on somebody's machine has no secret
        scope=sign_in.scope or None,
    )
    if sign_in.client_id:
        _register(sealed, url, sign_in, callback)
    return OAuthClientProvider(url, metadata, storage, callback.open, callback.wait)


def _registered_port(sealed: SealedTokens, url: str) -> int:
    """The loopback port that the client was registered with: servers compare it."""
    client = sealed.read(url).get("client")
    listed = client.get("redirect_uris") if isinstance(client, dict) else None
    return (urlsplit(str(listed[0])).port or 0) if isinstance(listed, list) and listed else 0


def _register(sealed: SealedTokens, url: str, sign_in: SignIn, callback: LoopbackCallback) -> None:
    """Use a client id that the owner was given, in place of registering one."""
    made = OAuthClientInformationFull(
        client_id=sign_in.client_id,
        redirect_uris=[AnyUrl(callback.address)],
        token_endpoint_auth_method="none",  # noqa: S106 - as above
        issuer=sign_in.issuer or None,
    )
    sealed.write(url, "client", made.model_dump(mode="json"))
