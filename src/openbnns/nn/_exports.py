"""Exports of networks: source code, ONNX files and Core ML packages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from .._spelling import spelled
from ._building import Building

if TYPE_CHECKING:
    from ..interop.coreml.exporting import Package
    from ..interop.source import Written


class Exports(Building):
    """The methods of a module that write it for other programs."""

    @spelled
    def to_c(
        self,
        folder: Any,
        training: bool = False,
        *,
        name: str = "network",
        batch_size: int | None = None,
        loss: Any = None,
        optimizer: Any = None,
    ) -> Written:
        """Write C source code that builds the network with BNNS calls: ``name.c``, ``name.h`` and ``name.weights``.

        It compiles on macOS with ``-framework Accelerate`` and elsewhere with ``$(openbnns c-flags)``. Its functions are
        ``name_create``, ``name_predict`` for ``batch_size`` samples (1 unless given, 32 for training) and ``name_destroy``;
        with ``training=True``, a ``loss`` and an ``optimizer`` also ``name_train_step``. Results are those of the network to the
        last bit. A network with layers that BNNS does not have is refused: the error names all of them.

        >>> import tempfile
        >>> from openbnns import nn
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).build((4,))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = net.to_c(folder, name="classifier")
        ...     [path.name for path in written]
        ['classifier.c', 'classifier.h', 'classifier.weights']
        >>> print(written.table())
        0, 1: Linear + ReLU  BNNSFilterCreateLayerFullyConnected
        2: Linear            BNNSFilterCreateLayerFullyConnected
        """
        from ..interop.source import to_c

        own: Any = self  # all of these are modules
        return to_c(own, folder, training=training, name=name, batch_size=batch_size, loss=loss, optimizer=optimizer)

    @spelled
    def to_swift(
        self,
        folder: Any,
        training: bool = False,
        *,
        name: str = "network",
        batch_size: int | None = None,
        loss: Any = None,
        optimizer: Any = None,
    ) -> Written:
        """Write Swift source code that builds the network with BNNS calls: ``name.swift`` and ``name.weights``.

        The arguments are those of :meth:`to_c`, and so is the structure of the code: a class that is made from the file with
        the weights, ``predict``, and with ``training=True`` also ``trainStep``.
        """
        from ..interop.source import to_swift

        own: Any = self  # all of these are modules
        return to_swift(
            own, folder, training=training, name=name, batch_size=batch_size, loss=loss, optimizer=optimizer
        )

    @spelled
    def to_coreml(
        self,
        path: Any,
        *,
        precision: Literal["float32", "float16"] = "float32",
        batch_size: int | None = None,
        classes: Sequence[str] | None = None,
    ) -> Package:
        """Write an ML program for Core ML and BNNSGraph, ``path`` ending in ``.mlpackage``; needs ``openbnns[coreml]``.

        It takes any number of samples, or ``batch_size`` of them. With ``classes``, or those of the model file, it is a
        classifier: it takes one sample and gives its class with probabilities. What the model file says about the
        preparation of samples is part of the program where samples are numbers or pixels. The result says which layer
        became which operations.
        """
        from ..interop.coreml.exporting import to_coreml

        own: Any = self  # all of these are modules
        return to_coreml(own, path, precision=precision, batch_size=batch_size, classes=classes)

    @spelled
    def to_onnx(self, path: Any, *, preprocessing: bool = True) -> None:
        """Write the network as an ONNX file, for inference by any program that runs such files, for every batch size.

        Weights keep their names. What ``predict`` does to samples first, and to the results of a regression, is part of the
        graph unless ``preprocessing=False``; tables have an input for each column. Task and class names are in the metadata.
        ``nn.from_onnx`` reads the network back. Operations that ONNX does not have raise
        :class:`openbnns.interop.onnx.Unsupported`, which names all of them and their layers. Needs
        ``pip install "openbnns[onnx]"``.
        """
        from ..interop.onnx import to_onnx

        own: Any = self  # all of these are modules
        to_onnx(own, path, preprocessing=preprocessing)
