"""Samples that stay in their files until they are needed: what ``nn.Trainer.fit`` takes in place of arrays.

Every function gives :class:`Rows`, which are indexed like arrays and read only the samples that are asked for. The trainer
asks for those of a batch, in a thread while the network works on the batch before; every rank asks for its own alone.
"""

from ...._listing import of_module as _of_module
from .array_files import open_npy, open_npz
from .images import open_images
from .rows import BlockRows, Rows

__all__ = ["BlockRows", "Rows", "open_images", "open_npy", "open_npz"]

__dir__ = _of_module(__name__)
