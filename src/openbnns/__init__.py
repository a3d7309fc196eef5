"""OpenBNNS: classic BNNS filters, forward and backward, on any machine."""

__version__ = "0.1.0"

from . import capi, compat
from .engines import current as current_engine
from .engines import engine
from .errors import (
    BNNSError,
    InvalidDescriptorError,
    LayerApplyError,
    LayerCreationError,
    OptimizerStepError,
    last_error,
)
from .runtime import get_num_threads, set_num_threads, show_config
