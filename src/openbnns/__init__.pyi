from . import capi as capi, compat as compat, coreml as coreml, datasets as datasets, layers as layers, nn as nn
from .abi.structs import BNNSNDArrayDescriptor as BNNSNDArrayDescriptor
from ._strict import StrictWarning as StrictWarning
from ._strict import strict as strict
from .errors import (
    BNNSError as BNNSError,
    InvalidDescriptorError as InvalidDescriptorError,
    LayerApplyError as LayerApplyError,
    LayerCreationError as LayerCreationError,
    OptimizerStepError as OptimizerStepError,
    last_error as last_error,
)
from .gradients.check import GradientReport as GradientReport, gradcheck as gradcheck
from .layers import *
from .runtime import (
    current_engine as current_engine,
    engine as engine,
    get_accuracy as get_accuracy,
    get_num_threads as get_num_threads,
    set_accuracy as set_accuracy,
    set_num_threads as set_num_threads,
    show_config as show_config,
)

__version__: str
