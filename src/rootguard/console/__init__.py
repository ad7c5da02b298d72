"""The console: a page that shows a person the audit log and the ledger, and what a budget buys.

It reads the vault, whose rows hold noised values only, and the public part of a profile; it draws
nothing, spends nothing and is given no raw value.
"""

from rootguard.console.access import AccessControl, own_key
from rootguard.console.app import PREFIX, Console
from rootguard.console.people import Viewer, of_principal, of_profile

__all__ = [
    "PREFIX",
    "AccessControl",
    "Console",
    "Viewer",
    "of_principal",
    "of_profile",
    "own_key",
]
