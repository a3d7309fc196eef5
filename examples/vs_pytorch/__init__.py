"""Networks from common practice, written once in PyTorch and once with OpenBNNS, side by side.

Each file holds one network: the PyTorch classes in ``pytorch()``, which alone imports torch, then the same with
``openbnns.nn``, and at the end a :class:`~.pair.Pair` of both. ``python -m examples.vs_pytorch`` trains the two from the
same weights on the same batches and compares losses, time and memory.
"""
