"""Random cases of the families, for ``fuzz.py``: one file per group of families, and hostile calls."""
