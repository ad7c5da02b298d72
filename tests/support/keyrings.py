"""A keyring in a dictionary, where tests keep keys."""

import keyring.backend


class MemoryKeyring(keyring.backend.KeyringBackend):
    """A keyring in a dictionary."""

    priority = 1.0

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password
