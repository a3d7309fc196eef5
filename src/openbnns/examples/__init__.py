"""Programs to read and run: ``python -m openbnns.examples.digits``."""
