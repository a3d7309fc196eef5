"""Parts of ``tests/compare.py``: each records one build of the product, for the comparison with another one."""
