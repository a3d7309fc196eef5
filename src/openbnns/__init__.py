"""OpenBNNS: classic BNNS filters, forward and backward, on any machine.

``openbnns`` holds layers that take NumPy arrays; ``openbnns.capi`` is the C interface under its own names.
"""

__version__ = "0.1.0"

from . import layers
from . import runtime as runtime  # loads the compiled core, and warns if there is none
from ._lazy import attach as _attach

__getattr__, __dir__ = _attach(
    __name__,
    {
        "runtime": [
            "current_engine",
            "engine",
            "get_accuracy",
            "get_num_threads",
            "set_accuracy",
            "set_num_threads",
            "show_config",
        ],
        "_strict": ["StrictWarning", "strict"],
        "errors": [
            "BNNSError",
            "InvalidDescriptorError",
            "LayerApplyError",
            "LayerCreationError",
            "OptimizerStepError",
            "last_error",
        ],
        "gradients.check": ["GradientReport", "gradcheck"],
        "layers": layers.__all__,
        "abi.structs": ["BNNSNDArrayDescriptor"],
    },
    modules=["capi", "compat", "coreml", "datasets", "layers", "nn"],
    elsewhere=["capi", "nn"],
    hints={"BNNS": "Swift's BNNS.Shape is openbnns.Shape: import openbnns as BNNS"},
)
