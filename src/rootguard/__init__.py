"""RootGuard: noise a person's private values once and answer from the noised ones.

The public names are loaded when they are first used, so that a program that needs one of them, a
help text for example, does not wait for all.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rootguard.accounting import Guarantee
    from rootguard.allocation import Plan
    from rootguard.calibration import make_plan
    from rootguard.errors import RootGuardError
    from rootguard.goals import hiding_plan
    from rootguard.session import (
        AsyncSession,
        Guard,
        Person,
        Policy,
        Session,
        load_policy,
        load_profile,
    )
    from rootguard.store import MemoryStore, Store
    from rootguard.template import Template, catalog, load_template
    from rootguard.vault import open_store

__version__ = "0.2.0"

__all__ = [
    "AsyncSession",
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
    "hiding_plan",
    "load_policy",
    "load_profile",
    "load_template",
    "make_plan",
    "open_store",
]

_HOMES = {
    "AsyncSession": "session",
    "Guarantee": "accounting",
    "Guard": "session",
    "MemoryStore": "store",
    "Person": "session",
    "Plan": "allocation",
    "Policy": "session",
    "RootGuardError": "errors",
    "Session": "session",
    "Store": "store",
    "Template": "template",
    "catalog": "template",
    "hiding_plan": "goals",
    "load_policy": "session",
    "load_profile": "session",
    "load_template": "template",
    "make_plan": "calibration",
    "open_store": "vault",
}
"""In which module or package each public name is; a test compares this with what is imported."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a public name is a class or a function
    if name in _HOMES:
        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = found  # the next use does not come here
        return found
    # `import rootguard` used to load its packages: `rootguard.errors.BudgetError` still works.
    if name in _HOMES.values():
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=None)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
