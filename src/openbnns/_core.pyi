from collections.abc import Sequence

class Plan:
    def trained_batch(self) -> int: ...
    def forget(self) -> None: ...
    def keep_weights(self, keep: bool) -> None: ...
    def workspace_bytes(self, backward: bool, batch: int, cached: bool) -> int: ...

class LstmPlan:
    def cache_bytes(self) -> int: ...

class ActivationSpec:
    def __init__(self, *, function: int, alpha: float, beta: float, seed: int) -> None: ...

class ChainStep:
    def __init__(
        self, *, function: int, operands: Sequence[int], result: int, activation: ActivationSpec, element: Element
    ) -> None: ...

class ContractionTensor:
    def __init__(self, *, index: Sequence[int], size: Sequence[int], batched: bool, element: Element) -> None: ...

class Element:
    def __init__(self, *, type: int, scale: float, bias: float, bias_before_scale: bool) -> None: ...

class NormalizationShape:
    def __init__(
        self,
        *,
        kind: int,
        channels: int,
        height: int,
        width: int,
        axis: int,
        groups: int,
        epsilon: float,
        momentum: float,
        torch_moving: bool,
        slope_from_input: bool,
        beta_size: Sequence[int],
        gamma_size: Sequence[int],
    ) -> None: ...

class YoloShape:
    def __init__(
        self,
        *,
        cells: int,
        anchors: int,
        box_size: int,
        scale_xy: float,
        scale_wh: float,
        scale_object: float,
        scale_no_object: float,
        scale_classification: float,
        object_minimum_iou: float,
        no_object_maximum_iou: float,
        rescore: bool,
        raw_centres: bool,
    ) -> None: ...

def activation(*, outer: int, length: int, inner: int, channels: int, activation: ActivationSpec) -> Plan: ...
def arithmetic(
    *,
    function: int,
    operands: int,
    rank: int,
    size: Sequence[int],
    operand_size: Sequence[Sequence[int]],
    batched: Sequence[bool],
    activation: ActivationSpec,
) -> Plan: ...
def attention(
    *,
    target: int,
    source: int,
    model: int,
    key: int,
    value: int,
    heads: int,
    attention_bias: bool,
    zero_row: bool,
    masked_rows_are_zero: bool,
    dropout: float,
    seed: int,
    token: int,
    bfloat16: bool,
    parameter_steps: Sequence[Sequence[int]],
    gradient_steps: Sequence[Sequence[int]],
) -> Plan: ...
def attention_heads(
    *,
    target: int,
    source: int,
    key: int,
    value: int,
    heads: int,
    scale: float,
    causal: bool,
    dropout: float,
    seed: int,
    q_steps: Sequence[int],
    k_steps: Sequence[int],
    v_steps: Sequence[int],
    o_steps: Sequence[int],
    bfloat16: bool,
) -> Plan: ...
def clip_by_norm(*, rank: int, size: Sequence[int], inside: Sequence[bool], max_norm: float) -> Plan: ...
def contraction(
    *,
    left: Sequence[ContractionTensor],
    with_itself: bool,
    output: ContractionTensor,
    alpha: float,
    adds_to_output: bool,
    bfloat16: bool,
) -> Plan: ...
def convolution(
    *,
    in_channels: int,
    in_height: int,
    in_width: int,
    out_channels: int,
    out_height: int,
    out_width: int,
    kernel_height: int,
    kernel_width: int,
    stride_y: int,
    stride_x: int,
    dilation_y: int,
    dilation_x: int,
    pad_up: int,
    pad_left: int,
    groups: int,
    exact: bool,
    x: Element,
    w: Element,
    b: Element,
    y: Element,
    bfloat16: bool,
    w_scales: bytes,
    activation: ActivationSpec,
) -> Plan: ...
def crop_resize(
    *,
    boxes: int,
    planes: int,
    height: int,
    width: int,
    rows: int,
    columns: int,
    extrapolation: float,
    top: bytes,
    down: bytes,
    row_inside: bytes,
    left: bytes,
    across: bytes,
    column_inside: bytes,
) -> Plan: ...
def dropout(*, rate: float, seed: int, size: Sequence[int], shared: Sequence[bool], batch_shared: bool) -> Plan: ...
def embedding(
    *,
    positions: int,
    entries: int,
    item: int,
    index_bytes: int,
    item_major: bool,
    padding: int,
    max_norm: float,
    norm_type: float,
    by_frequency: bool,
    renormalizes_in_place: bool,
) -> Plan: ...
def fully_connected(
    *,
    inputs: int,
    outputs: int,
    x: Element,
    w: Element,
    b: Element,
    y: Element,
    bfloat16: bool,
    w_scales: bytes,
    activation: ActivationSpec,
) -> Plan: ...
def fused(*, first: Plan, arithmetic: bool, normalization: NormalizationShape, activation: ActivationSpec) -> Plan: ...
def loss(
    *,
    function: int,
    reduction: int,
    width: int,
    label_smooth: float,
    huber_delta: float,
    log_epsilon: float,
    divide_by_classes: bool,
    plain_cosine_gradient: bool,
    yolo: YoloShape | None,
) -> Plan: ...
def lstm(
    *,
    steps: int,
    batch: int,
    inputs: int,
    hidden: int,
    layers: int,
    directions: int,
    first_layers: Sequence[int],
    default_activations: bool,
    activation: Sequence[ActivationSpec],
    slope: Sequence[ActivationSpec],
    dropout: float,
    batch_sizes: Sequence[int],
    bfloat16: bool,
    signature: int,
) -> LstmPlan: ...
def norm(*, rank: int, size: Sequence[int], inside: Sequence[bool]) -> Plan: ...
def normalization(
    *,
    kind: int,
    channels: int,
    height: int,
    width: int,
    axis: int,
    groups: int,
    epsilon: float,
    momentum: float,
    torch_moving: bool,
    slope_from_input: bool,
    beta_size: Sequence[int],
    gamma_size: Sequence[int],
    activation: ActivationSpec,
) -> Plan: ...
def padding(
    *, mode: int, size: Sequence[int], before: Sequence[int], after: Sequence[int], item_bytes: int, value: int
) -> Plan: ...
def permute(*, size: Sequence[int], permutation: Sequence[int], item_bytes: int) -> Plan: ...
def pooling(
    *,
    function: int,
    channels: int,
    in_height: int,
    in_width: int,
    out_height: int,
    out_width: int,
    kernel_height: int,
    kernel_width: int,
    stride_y: int,
    stride_x: int,
    dilation_y: int,
    dilation_x: int,
    pad_up: int,
    pad_left: int,
    padding_wins: bool,
    wide_indices: bool,
    activation: ActivationSpec,
) -> Plan: ...
def quantization(
    *,
    dequantizes: bool,
    x_type: int,
    y_type: int,
    outer: int,
    length: int,
    inner: int,
    per_sample: bool,
    low: float,
    high: float,
) -> Plan: ...
def recurrent(*, kind: int, steps: int, hidden: int, reverse: bool, bfloat16: bool) -> Plan: ...
def reduction(
    *,
    function: int,
    rank: int,
    size: Sequence[int],
    inside: Sequence[bool],
    epsilon: float,
    wide_positions: bool,
    position_modulus: int,
) -> Plan: ...
def resize(*, in_size: Sequence[int], out_size: Sequence[int], low: Sequence[bytes], t: Sequence[bytes]) -> Plan: ...
def transposed_convolution(
    *,
    in_channels: int,
    in_height: int,
    in_width: int,
    out_channels: int,
    out_height: int,
    out_width: int,
    kernel_height: int,
    kernel_width: int,
    stride_y: int,
    stride_x: int,
    dilation_y: int,
    dilation_x: int,
    pad_up: int,
    pad_left: int,
    groups: int,
    exact: bool,
    x: Element,
    w: Element,
    b: Element,
    y: Element,
    bfloat16: bool,
    w_scales: bytes,
    activation: ActivationSpec,
) -> Plan: ...
def pooled(plan: Plan) -> Plan | None: ...
def repeated(plan: Plan) -> Plan | None: ...

class ArgumentSpec:
    pass

def argument(
    slot: int,
    kind: int,
    strided: bool = False,
    batched: bool = True,
    output: bool = False,
    count: int = 0,
    needed_with: int = 0,
    unless: int = 0,
    may_equal: int = 0,
    layout: int = 0,
    size: Sequence[int] = [],
    stride: Sequence[int] = [],
    index_bytes: int = 0,
    index_limit: int = 0,
    index_none: bool = False,
    index_signed: bool = False,
    item_formats: str = "",
    item_bytes: int = 0,
    data_type: int = 65568,
    optional_data: bool = False,
    stride_in_descriptor: bool = False,
) -> ArgumentSpec: ...

raw_calls: object

class Numbered:
    def number(self) -> int: ...
    def end(self) -> None: ...

class NativeCall(Numbered):
    def run(self, *arguments: object) -> int: ...

class FastCall(NativeCall):
    def __init__(
        self,
        plan: Plan,
        backward: bool,
        arguments: Sequence[ArgumentSpec],
        fixed: Sequence[tuple[int, int, int]],
        threads: int,
        training: bool = False,
        batched: bool = True,
        lists: Sequence[int] = [],
    ) -> None: ...
    def end(self) -> None: ...

class Variants(NativeCall):
    def __init__(self, places: Sequence[int], choices: Sequence[tuple[Sequence[int], object]]) -> None: ...

class Selected(NativeCall):
    def __init__(
        self,
        count: int,
        absent: Sequence[int],
        cache: int,
        size: int,
        pointer: object | None,
        bytes_per_sample: int,
        without: tuple[Sequence[tuple[int, int]], object | None],
        with_: tuple[Sequence[tuple[int, int]], object | None],
    ) -> None: ...

def integer_linear_saturate(
    x: int, y: int, count: int, scale: int, offset: int, shift: int, low: int, high: int
) -> None: ...
def run_lstm(
    plan: LstmPlan,
    backward: bool,
    tensors: Sequence[int],
    gradients: Sequence[int],
    accumulate: int,
    cache: int,
    seed: int,
    draw: int,
    threads: int,
) -> None: ...
def lstm_key(params: object, delta: object | None, variant: int) -> bytes | None: ...
def register_lstm(key: bytes, plan: LstmPlan, bytes: Sequence[int]) -> None: ...
def next_lstm_draw() -> int: ...
def forget_lstm() -> None: ...
def lstm_number(backward: bool) -> int: ...
def fast_lstm(
    params: object,
    delta: object | None,
    cache: object | None,
    capacity: object,
    variant: int,
    seed: int,
    draw: int,
    threads: int,
) -> int: ...
def run(
    plan: Plan,
    backward: bool,
    batch: int,
    tensors: list[tuple[int, int, int]],
    accumulate: int = 0,
    threads: int = 0,
    training: bool = False,
    extra: Sequence[int] = [],
    repeatable: bool = False,
) -> bool: ...
def clip_by_global_norm(
    tensors: Sequence[tuple[int, int, int]], max_norm: float, use_norm: float, threads: int
) -> None: ...
def write_time(place: int) -> None: ...
def is_finite(place: int) -> bool: ...
def all_below(count: int, numbers: object) -> bool | None: ...
def random_floats(
    normal: bool, seed: int, draw: int, out: int, wide: bool, count: int, a: float, b: float, threads: int
) -> None: ...
def random_integers(seed: int, draw: int, out: int, count: int, low: int, span: int, threads: int) -> None: ...
def random_categories(
    seed: int,
    draw: int,
    out: int,
    wide: bool,
    probabilities: int,
    distributions: int,
    categories: int,
    draws: int,
    logarithms: bool,
    threads: int,
) -> None: ...

class OptimizerStep:
    def __init__(
        self,
        kind: int,
        form: int,
        clipping: int,
        terms: Sequence[tuple[float, float, Sequence[int], bool]],
        values: Sequence[float],
        states: Sequence[int],
        layouts: Sequence[int],
    ) -> None: ...
    def run(
        self,
        step: float,
        epsilon: float,
        count: int,
        parameters: object | None,
        gradients: object | None,
        accumulators: object | None,
        threads: int,
        arrays: bool,
    ) -> int: ...

class RepeatedStep:
    def __init__(
        self,
        step: OptimizerStep,
        corrected_epsilon: bool,
        values: Sequence[float],
        parameters: list[object],
        gradients: list[object],
        accumulators: list[object],
    ) -> None: ...
    def is_placed(self) -> bool: ...
    def steps(self) -> float: ...
    def set_steps(self, steps: float) -> None: ...
    def set_learning_rate(self, rate: float, single: bool) -> None: ...
    def run(self) -> bool: ...

def describe_optimizer(function: int, name: str, values: Sequence[int]) -> None: ...
def register_optimizer(
    function: int,
    fields: Sequence[float],
    step: OptimizerStep,
    corrected_epsilon: bool,
    ranges: Sequence[tuple[int, float, float]],
    ordered: bool,
) -> None: ...
def forget_optimizers() -> None: ...
def optimizer_number() -> int: ...
def describe_clipping(layouts: Sequence[int]) -> None: ...
def clipping_number() -> int: ...
def strided_copy(
    to: int, from_: int, bytes: int, size: Sequence[int], to_step: Sequence[int], from_step: Sequence[int], threads: int
) -> None: ...
def copy_array(target: object, source: object) -> None: ...
def round_array_to_half(target: object, source: object) -> None: ...
def select(
    kind: int,
    bytes: int,
    outer: int,
    length: int,
    inner: int,
    count: int,
    per_element: bool,
    axes: Sequence[int],
    index_bytes: int,
    indices: int,
    whole: int,
    selected: int,
    threads: int,
) -> bool: ...
def select_plain(kind: int, whole: object, part: object, indices: object, axis: int) -> bool: ...
def top_k_plain(k: int, input: object, best_values: object, best_indices: object | None, axis: int) -> bool: ...
def first_outside(indices: int, count: int, limit: int) -> int: ...
def top_k(integers: bool, outer: int, length: int, inner: int, k: int, x: int, indices: int, threads: int) -> None: ...
def in_top_k(
    integers: bool,
    outer: int,
    length: int,
    inner: int,
    k: int,
    x: int,
    index_bytes: int,
    tested: int,
    y: int,
    threads: int,
) -> bool: ...
def compare(type: int, operation: int, inverted: bool, a: int, b: int, y: int, count: int, threads: int) -> None: ...
def band_part(
    bytes: int, matrices: int, rows: int, columns: int, lower: int, upper: int, x: int, y: int, threads: int
) -> None: ...
def nearest_neighbors(
    samples: int,
    count: int,
    features: int,
    neighbors: int,
    first: int,
    queries: int,
    indices: int,
    distances: int,
    squares: int,
    threads: int,
) -> None: ...
def convert_array(target: object, source: object, element: Element) -> None: ...
def add_bytes(target: object, a: object, b: object, a_factor: float, b_factor: float, term: float) -> None: ...
def run_chain(
    arrays: list[object],
    results: int,
    sizes: Sequence[int],
    strides: Sequence[int],
    steps: Sequence[ChainStep],
    rooms: int,
) -> None: ...
def pool_bytes(target: object, source: object, sizes: Sequence[int]) -> None: ...
def mixed_arithmetic(function: str, target: object, a: object, b: object) -> bool: ...
def sum_in_tree(out: object, parts: list[object], joins: Sequence[int]) -> None: ...
def channel_sums(a: object, b: object, sums: object, batch: int, channels: int) -> None: ...
def channel_combination(y: object, a: object | None, x: object, factors: object, batch: int, channels: int) -> None: ...

class KnownCalls(Numbered):
    def __init__(
        self,
        types: tuple[object, ...],
        output: int,
        second: int,
        function: str,
        batch: int,
        strides: Sequence[tuple[int, int]],
        described: Sequence[tuple[int, int]],
    ) -> None: ...
    def run(self, *arguments: object) -> object: ...
    def record(self) -> None: ...
    def keep(self, arguments: tuple[object, ...], result: object | None, owner: list[object]) -> None: ...
    def discard(self) -> None: ...

def forget_calls() -> None: ...
def spoil_recording() -> None: ...

class CallList:
    def __init__(self, memory: list[object]) -> None: ...
    def place(self, call: object) -> bool: ...
    def run(self, first: int = 0, weights: int = 0) -> int: ...
    def run_over(
        self, count: int, streams: Sequence[tuple[object, object]], result: object, results: object
    ) -> tuple[int, int]: ...
    def redirect(self, planned: object, given: object) -> bool: ...

def new_weights_version() -> int: ...
def make_on_weights(weights: int, call: object) -> None: ...

class Busy:
    def __init__(self) -> None: ...
    def acquire(self) -> bool: ...
    def release(self) -> None: ...

class GraphCall:
    def __init__(
        self,
        calls: object | None,
        weights: int,
        keep: object,
        arithmetic: int,
        function: bytes,
        is_default: bool,
        checks: bool,
    ) -> None: ...
    def add_argument(
        self,
        type: str,
        shape: Sequence[int],
        is_input: bool,
        is_output: bool,
        source: int,
        target: int,
        planned: str,
        movable: bool,
        data_type: int,
        name: int,
    ) -> None: ...
    def keep_state(self, memory: int) -> None: ...
    def add_ring(self, value: int, outer: int, length: int, entries: int, inner: int, first: int) -> None: ...
    def add_checked(self, floats: int, count: int, halved: bool) -> None: ...
    def set_selected(self, selected: bool) -> None: ...
    def end(self) -> None: ...
    def is_current(self) -> bool: ...

most_graph_calls: int = 16

class GraphCalls(Numbered):
    def __init__(self, busy: object) -> None: ...
    def add(self, call: object) -> None: ...
    def set_options(self, tensors: bool, checks: bool) -> None: ...
    def run(self, index: int, arrays: list[object]) -> bool: ...
    def take(self, function: int, count: int, arguments: int) -> int: ...
    def give(self, index: int) -> bool: ...
    def drop(self) -> None: ...
    def latest(self) -> int: ...
    def finish(self) -> bool: ...

def arithmetic_count() -> int: ...
def count_arithmetic() -> None: ...
def set_main_thread(identifier: int) -> None: ...

class StructReader:
    def __init__(self, type: type, array: type, bytes: int, fields: list[object]) -> None: ...
    def __call__(self, address: object | None) -> object: ...

def latest_call_failed() -> bool: ...
def set_latest_call_failed(failed: bool) -> None: ...
def set_fast_calls(enabled: bool, of_filters: bool = True) -> None: ...
def instruction_set() -> str: ...
def cache_bytes() -> list[int]: ...
def cpu_instructions() -> list[str]: ...
def system_has_amx() -> bool: ...
def multiplies_bfloat16() -> bool: ...
def multiplies_bytes() -> bool: ...
def peak_gflop(iterations: int, threads: int = 1) -> float: ...
def max_threads() -> int: ...
def set_max_threads(count: int) -> None: ...
def record_schedule(enabled: bool) -> None: ...
def take_schedule() -> list[tuple[int, int, bool, list[float]]]: ...
def set_scratch_poison(enabled: bool) -> None: ...
def release_scratch() -> None: ...
