"""RootGuard: noise a person's private values once and answer from the noised ones."""

from rootguard.accounting import Guarantee
from rootguard.allocation import Plan, make_plan
from rootguard.errors import RootGuardError
from rootguard.session import Guard, Session
from rootguard.store import MemoryStore, Store
from rootguard.template import Template, catalog, load_template

__version__ = "0.1.0"

__all__ = [
    "Guarantee",
    "Guard",
    "MemoryStore",
    "Plan",
    "RootGuardError",
    "Session",
    "Store",
    "Template",
    "catalog",
    "load_template",
    "make_plan",
]
