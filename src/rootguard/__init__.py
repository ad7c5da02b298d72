"""RootGuard: noise a person's private values once and answer from the noised ones."""

from rootguard.accounting import Guarantee
from rootguard.allocation import Plan
from rootguard.calibration import make_plan
from rootguard.errors import RootGuardError
from rootguard.session import Guard, Person, Policy, Session, load_policy, load_profile
from rootguard.store import MemoryStore, Store
from rootguard.template import Template, catalog, load_template
from rootguard.vault import open_store

__version__ = "0.1.0"

__all__ = [
    "Guarantee",
    "Guard",
    "MemoryStore",
    "Person",
    "Plan",
    "Policy",
    "RootGuardError",
    "Session",
    "Store",
    "Template",
    "catalog",
    "load_policy",
    "load_profile",
    "load_template",
    "make_plan",
    "open_store",
]
