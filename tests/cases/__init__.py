"""Sample problems: one record list per family, and the means to run them through openbnns.capi.

A module may have ``CASES``, shapes that reach every kernel of its family, and ``ROWS``, filters for test_contract.py.
"""

from importlib import import_module
from pkgutil import iter_modules

from ._base import Case

MODULES = [import_module(f".{entry.name}", __name__) for entry in iter_modules(__path__) if entry.name != "contract"]
FAMILIES = [module for module in MODULES if any(isinstance(case, Case) for case in getattr(module, "CASES", ()))]
"""Families whose cases the tests of all families run on."""

ALL = [case for family in FAMILIES for case in family.CASES]
"""Every case of every family."""
