"""Programs to read and run: ``python -m openbnns.examples.digits``."""

from pathlib import Path

DENSE = Path(__file__).with_name("dense.mil")
"""A small ML program: y = relu(x [[1, -1], [2, 0], [3, 1]]) for any number of rows of x."""
