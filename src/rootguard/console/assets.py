"""The page's files, from the package: looked up by name, compressed once, never outside the folder.

A file is read again when it has changed on disk, which an installed one does not.
"""

import gzip
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

FOLDER: Final = Path(__file__).parent / "static"
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
_PACKED: Final = frozenset((".ico", ".png", ".woff2"))
_STUB: Final = (
    b'<!doctype html><html lang="en"><meta charset="utf-8"><title>RootGuard</title>'
    b"<p>The page's files are not installed.</p></html>"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asset:
    stamp: tuple[int, int]
    plain: bytes
    packed: bytes | None
    tag: str
    kind: str


class Assets:
    """The files of a folder."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._kept: dict[str, _Asset] = {}

    def answer(self, request: Request, name: str) -> Response | None:
        """A file for a browser; None if there is none of that name."""
        found = self._find(name)
        if found is None:
            return None
        headers = {"etag": found.tag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        body = found.plain
        if found.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            body = found.packed
        return Response(body, headers=headers, media_type=found.kind)

    def _find(self, name: str) -> _Asset | None:
        path = self._folder / name
        if not _NAME.fullmatch(name) or path.suffix not in _TYPES:
            return None
        try:
            about = path.stat()
            stamp = (about.st_mtime_ns, about.st_size)
            kept = self._kept.get(name)
            if kept is None or kept.stamp != stamp:
                kept = self._kept[name] = _asset(path.suffix, stamp, path.read_bytes())
        except OSError:
            if name == "index.html":
                return _asset(".html", (0, 0), _STUB)
            return None
        return kept


def _asset(suffix: str, stamp: tuple[int, int], content: bytes) -> _Asset:
    return _Asset(
        stamp=stamp,
        plain=content,
        packed=None if suffix in _PACKED else gzip.compress(content, 9, mtime=0),
        tag=f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        kind=_TYPES[suffix],
    )
