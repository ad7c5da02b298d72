"""Who may look: keys, each of one person, and the sessions of browsers that showed one.

A key opens one person's console and no other. A browser shows its key once and is given a random
cookie, of which only the digest is kept here. Comparing takes the same time whichever matches.
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from typing import Final

from rootguard.channels.api_keys import ApiKeys
from rootguard.console.people import Viewer

COOKIE: Final = "rootguard_console"
SESSION_SECONDS: Final = 12 * 3600
_MOST_SESSIONS: Final = 256


def own_key(key: str, profile: str = "") -> ApiKeys:
    """The one key of a console that one person started."""
    return ApiKeys(profiles={hashlib.sha256(key.encode()).digest(): profile})


class Doors:
    """Finds whose console a key or a cookie opens. Without keys everybody is the one person."""

    def __init__(
        self,
        open_viewer: Callable[[str], Viewer],
        *,
        keys: ApiKeys | None,
        profile: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open = open_viewer
        self._keys = keys
        self._profile = profile
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: dict[bytes, tuple[str, float]] = {}
        self._viewers: dict[str, Viewer] = {}

    def login(self, key: str) -> str | None:
        """A cookie for whoever shows a key; None if the key opens nothing."""
        profile = self._profile if self._keys is None else self._keys.profile(key)
        if profile is None:
            return None
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            self._forget_old()
            self._sessions[_digest(cookie)] = (profile, self._clock() + SESSION_SECONDS)
        return cookie

    def logout(self, cookie: str) -> None:
        """Forget a cookie."""
        with self._lock:
            self._sessions.pop(_digest(cookie), None)

    def viewer(self, *, cookie: str, bearer: str) -> Viewer | None:
        """Whose console this is; opened now if it is not open. May wait for a store."""
        profile = self._profile_of(cookie, bearer)
        if profile is None:
            return None
        with self._lock:
            if profile not in self._viewers:
                self._viewers[profile] = self._open(profile)
            return self._viewers[profile]

    def _profile_of(self, cookie: str, bearer: str) -> str | None:
        if self._keys is None:
            return self._profile
        found = self._keys.profile(bearer) if bearer else None
        if cookie and found is None:
            digest, now = _digest(cookie), self._clock()
            with self._lock:
                for known, (profile, until) in self._sessions.items():
                    if hmac.compare_digest(known, digest) and now < until:
                        found = profile
        return found

    def _forget_old(self) -> None:
        now = self._clock()
        for digest, (_, until) in tuple(self._sessions.items()):
            if until <= now or len(self._sessions) >= _MOST_SESSIONS:
                del self._sessions[digest]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
