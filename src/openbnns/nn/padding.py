"""Layers that add elements around signals (channels, length), images (channels, height, width) and volumes, with a depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..graph import operations
from ..graph.checks import check_rank
from ..graph.tensor import Tensor
from .module import Layer

_AXES = {1: "(channels, length)", 2: "(channels, height, width)", 3: "(channels, depth, height, width)"}
_SIDES = {1: "(left, right)", 2: "(left, right, top, bottom)", 3: "(left, right, top, bottom, front, back)"}


class Pad(Layer):
    """A layer that adds elements at the ends of the last ``axes`` axes."""

    axes: ClassVar[int] = 2
    mode: ClassVar[str] = "constant"
    value: float = 0.0

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        sides = (padding,) * (2 * self.axes) if isinstance(padding, int) else tuple(padding)
        if len(sides) != 2 * self.axes or not all(isinstance(n, int) for n in sides):
            raise ValueError(
                f"{type(self).__name__}: padding is {padding!r}. Pass one integer, or {_SIDES[self.axes]}; negative numbers take "
                "elements away."
            )
        self.padding = sides

    def forward(self, input: Tensor) -> Tensor:
        x = input
        who = type(self).__name__
        check_rank(who, x, self.axes + 1, _AXES[self.axes])
        pairs = [(self.padding[i], self.padding[i + 1]) for i in range(0, 2 * self.axes, 2)][::-1]
        return operations.pad(x, [(0, 0), (0, 0), *pairs], self.mode, f"{who}: padding", self.value)

    def extra_repr(self) -> str:
        return str(self.padding)


class ConstantPad2d(Pad):
    """A number around images. ``padding`` is (left, right, top, bottom) or one number for all; negative numbers crop.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ConstantPad2d((1, 0, 0, 1), 7)(np.float32([[[[1, 2]]]])).tolist()
    [[[[7.0, 1.0, 2.0], [7.0, 7.0, 7.0]]]]
    """

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = float(value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value:g}"


class ConstantPad1d(ConstantPad2d):
    """A number at the ends of signals. ``padding`` is (left, right) or one number for both.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ConstantPad1d((1, 2), 7)(np.float32([[[1, 2]]])).tolist()
    [[[7.0, 1.0, 2.0, 7.0, 7.0]]]
    """

    axes = 1


class ZeroPad2d(Pad):
    """Zeros around images. ``padding`` is (left, right, top, bottom) or one number for all; negative numbers crop.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ZeroPad2d((0, 1, 1, 0))(np.float32([[[[1, 2]]]])).tolist()
    [[[[0.0, 0.0, 0.0], [1.0, 2.0, 0.0]]]]
    """


class ZeroPad1d(ZeroPad2d):
    """Zeros at the ends of signals. ``padding`` is (left, right) or one number for both.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ZeroPad1d(1)(np.float32([[[1, 2]]])).tolist()
    [[[0.0, 1.0, 2.0, 0.0]]]
    """

    axes = 1


class ReflectionPad2d(Pad):
    """Images mirrored at their edges, which are not repeated. ``padding`` as of ZeroPad2d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ReflectionPad2d((2, 1, 0, 0))(np.float32([[[[1, 2, 3]]]])).tolist()
    [[[[3.0, 2.0, 1.0, 2.0, 3.0, 2.0]]]]
    """

    mode = "reflect"


class ReflectionPad1d(ReflectionPad2d):
    """Signals mirrored at their ends, which are not repeated. ``padding`` as of ZeroPad1d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ReflectionPad1d((2, 1))(np.float32([[[1, 2, 3]]])).tolist()
    [[[3.0, 2.0, 1.0, 2.0, 3.0, 2.0]]]
    """

    axes = 1


class ReplicationPad2d(Pad):
    """The edges of images, repeated. ``padding`` as of ZeroPad2d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ReplicationPad2d((2, 1, 0, 0))(np.float32([[[[1, 2, 3]]]])).tolist()
    [[[[1.0, 1.0, 1.0, 2.0, 3.0, 3.0]]]]
    """

    mode = "replicate"


class ReplicationPad1d(ReplicationPad2d):
    """The ends of signals, repeated. ``padding`` as of ZeroPad1d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ReplicationPad1d((2, 1))(np.float32([[[1, 2, 3]]])).tolist()
    [[[1.0, 1.0, 1.0, 2.0, 3.0, 3.0]]]
    """

    axes = 1


class CircularPad2d(Pad):
    """Images continued with their other side. ``padding`` as of ZeroPad2d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.CircularPad2d((2, 1, 0, 0))(np.float32([[[[1, 2, 3]]]])).tolist()
    [[[[2.0, 3.0, 1.0, 2.0, 3.0, 1.0]]]]
    """

    mode = "circular"


class CircularPad1d(CircularPad2d):
    """Signals continued with their other end. ``padding`` as of ZeroPad1d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.CircularPad1d((2, 1))(np.float32([[[1, 2, 3]]])).tolist()
    [[[2.0, 3.0, 1.0, 2.0, 3.0, 1.0]]]
    """

    axes = 1


class ConstantPad3d(ConstantPad2d):
    """A number around volumes. ``padding`` is (left, right, top, bottom, front, back) or one number for all.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ConstantPad3d((0, 1, 0, 0, 1, 0), 7)(np.float32([[[[[1]]]]])).tolist()
    [[[[[7.0, 7.0]], [[1.0, 7.0]]]]]
    """

    axes = 3


class ZeroPad3d(ZeroPad2d):
    """Zeros around volumes. ``padding`` as of ConstantPad3d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ZeroPad3d(1)(np.zeros((1, 2, 3, 4, 5), np.float32)).shape
    (1, 2, 5, 6, 7)
    """

    axes = 3


class ReflectionPad3d(ReflectionPad2d):
    """Volumes mirrored at their edges, which are not repeated. ``padding`` as of ConstantPad3d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ReflectionPad3d((2, 1, 0, 0, 0, 0))(np.float32([[[[[1, 2, 3]]]]])).tolist()
    [[[[[3.0, 2.0, 1.0, 2.0, 3.0, 2.0]]]]]
    """

    axes = 3


class ReplicationPad3d(ReplicationPad2d):
    """The edges of volumes, repeated. ``padding`` as of ConstantPad3d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ReplicationPad3d((2, 1, 0, 0, 0, 0))(np.float32([[[[[1, 2, 3]]]]])).tolist()
    [[[[[1.0, 1.0, 1.0, 2.0, 3.0, 3.0]]]]]
    """

    axes = 3


class CircularPad3d(CircularPad2d):
    """Volumes continued with their other side. ``padding`` as of ConstantPad3d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.CircularPad3d((2, 1, 0, 0, 0, 0))(np.float32([[[[[1, 2, 3]]]]])).tolist()
    [[[[[2.0, 3.0, 1.0, 2.0, 3.0, 1.0]]]]]
    """

    axes = 3
