"""The console: a page that shows a person the audit log and the ledger, and what a budget buys.

It reads the vault, whose rows hold noised values only, and the public part of a profile. It draws
and spends nothing, but for a value that its owner enters and whose price the owner approves.
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
