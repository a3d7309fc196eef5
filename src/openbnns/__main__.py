"""``python -m openbnns``."""

from .cli import main

raise SystemExit(main())
