"""The lock that guards recording and binding."""

from __future__ import annotations

import os
from threading import RLock

making = RLock()
"""Held while a graph is recorded, a program made, or a parameter gets its values: networks may share modules, which note sizes
then, and operations hold what belongs to the program that is being made."""
if hasattr(os, "register_at_fork"):  # forks wait for it, so that no child inherits it locked
    os.register_at_fork(before=making.acquire, after_in_parent=making.release, after_in_child=making.release)
