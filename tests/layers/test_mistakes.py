"""Mistakes of newcomers: choices given as something else, factories without parentheses, names in the wrong place."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from openbnns import capi, nn

V, IMAGE = bn.Shape.vector(4), bn.Shape.image_chw(4, 4, 2)
KERNELS = np.ones((2, 2, 3, 3), np.float32)
PLAIN = bn.FusedNormalizationParameters(type=bn.NormalizationType.batch(), epsilon=1e-5)


def fused(*parts: Any) -> bn.FusedParametersLayer:
    return bn.FusedParametersLayer(input=IMAGE, fused_layer_parameters=list(parts))


CHOICES: dict[str, tuple[Callable[[Any], object], Any]] = {
    "ConvolutionLayer: padding": (
        lambda c: bn.ConvolutionLayer(input=IMAGE, weights=KERNELS, padding=c),
        bn.ConvolutionPadding.zero,
    ),
    "ConvolutionLayer: type": (lambda c: bn.ConvolutionLayer(type=c, input=IMAGE, weights=KERNELS), None),
    "ConvolutionLayer: the activation": (
        lambda c: bn.ConvolutionLayer(input=IMAGE, weights=KERNELS, activation=c),
        bn.ActivationFunction.tanh,
    ),
    "ActivationLayer: the activation": (
        lambda c: bn.ActivationLayer(function=c, input=V),
        bn.ActivationFunction.softmax,
    ),
    "PoolingLayer: type": (
        lambda c: bn.PoolingLayer(type=c, input=IMAGE, kernel_size=2, stride=2),
        bn.PoolingType.max,
    ),
    "PoolingLayer: padding": (
        lambda c: bn.PoolingLayer(type=bn.PoolingType.max(), input=IMAGE, kernel_size=2, stride=2, padding=c),
        bn.ConvolutionPadding.symmetric,
    ),
    "NormalizationLayer: type": (
        lambda c: bn.NormalizationLayer(type=c, input=IMAGE, epsilon=1e-5),
        bn.NormalizationType.instance,
    ),
    "LossLayer: loss_function": (
        lambda c: bn.LossLayer(input=V, loss_function=c, loss_reduction=bn.LossReduction.SUM),
        bn.LossFunction.huber,
    ),
    "ReductionLayer: function": (lambda c: bn.ReductionLayer(function=c, input=V), bn.ReductionFunction.sum),
    "PaddingLayer: mode": (lambda c: bn.PaddingLayer(input=V, mode=c, size=[(1, 1)]), bn.PaddingMode.reflect),
    "NearestNeighbors: data_type": (lambda c: bn.NearestNeighbors(3, 2, 1, c), None),
    "RandomGenerator: method": (lambda c: bn.RandomGenerator(c), None),
    "padding": (
        lambda c: fused(bn.FusedConvolutionParameters(weights=KERNELS, padding=c), PLAIN),
        bn.ConvolutionPadding.zero,
    ),
    "type": (
        lambda c: fused(
            bn.FusedConvolutionParameters(weights=KERNELS), bn.FusedNormalizationParameters(type=c, epsilon=1e-5)
        ),
        bn.NormalizationType.batch,
    ),
}


@pytest.mark.parametrize("what", CHOICES)
@pytest.mark.parametrize("wrong", ["same", 3.5, object(), np.ones(3), []], ids=lambda wrong: type(wrong).__name__)
def test_a_choice_given_as_something_else(what: str, wrong: Any) -> None:
    make, _ = CHOICES[what]
    with pytest.raises(bn.BNNSError, match=rf"{what} must be an? \w+.*, not {type(wrong).__name__}") as raised:
        make(wrong)
    assert isinstance(raised.value, TypeError)


@pytest.mark.parametrize("what", [what for what, (_, factory) in CHOICES.items() if factory is not None])
def test_a_factory_without_its_parentheses(what: str) -> None:
    make, factory = CHOICES[what]
    with pytest.raises(bn.BNNSError, match=rf"not its factory\. Call it: \w+\.{factory.__name__}\(\.\.\.\)\."):
        make(factory)


@pytest.mark.parametrize(
    ("make", "who"),
    [
        (lambda x: bn.ActivationFunction.elu(alpha=x), "ActivationFunction.elu: alpha"),
        (lambda x: bn.ActivationFunction.scaled_tanh(alpha=1, beta=x), "ActivationFunction.scaled_tanh: beta"),
        (lambda x: bn.LossFunction.huber(huber_delta=x), "LossFunction.huber: huber_delta"),
        (lambda x: bn.LossFunction.softmax_cross_entropy(x), "LossFunction.softmax_cross_entropy: label_smoothing"),
        (lambda x: bn.ReductionFunction.sum_of_logs(epsilon=x), "ReductionFunction.sum_of_logs: epsilon"),
        (lambda x: bn.PaddingMode.constant_scalar(x), "PaddingMode.constant_scalar: value"),
        (lambda x: bn.GradientClipping.by_norm(x), "GradientClipping.by_norm: threshold"),
        (lambda x: bn.GradientClipping.by_global_norm(1, x), "GradientClipping.by_global_norm: global_norm"),
    ],
)
@pytest.mark.parametrize("wrong", [None, "small", [1, 2]])
def test_a_parameter_that_is_no_number(make: Callable[[Any], object], who: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match=rf"{who} must be a number, not {type(wrong).__name__}\."):
        make(wrong)


def test_parameters_of_yolo() -> None:
    with pytest.raises(TypeError, match="parameters must be YoloParameters, not dict"):
        bn.LossFunction.yolo({})  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["small", None, [1]])
def test_epsilon_of_a_normalization(wrong: Any) -> None:
    with pytest.raises(bn.LayerCreationError, match="epsilon: expected a number"):
        bn.NormalizationLayer(type=bn.NormalizationType.batch(), input=IMAGE, epsilon=wrong)


@pytest.mark.parametrize("wrong", [np.ones(3), np.ones((2, 2)), 1.5, (1, 2, 3), "ab", True])
def test_a_stride_that_is_none(wrong: Any) -> None:
    with pytest.raises(bn.LayerCreationError, match="stride"):
        bn.ConvolutionLayer(input=IMAGE, weights=KERNELS, stride=wrong)


def test_a_stride_from_numpy() -> None:
    layer = bn.ConvolutionLayer(input=IMAGE, weights=KERNELS, stride=np.array([2, 1]))
    assert layer.apply(np.ones((2, 4, 4), np.float32)).shape == (2, 2, 1)


def test_a_filter_says_what_it_is() -> None:
    f = capi.BNNSFilterCreateLayerActivation(
        capi.BNNSLayerParametersActivation(i_desc=V.descriptor(), o_desc=V.descriptor())
    )
    assert repr(f) == "<BNNSFilter activation>"
    capi.BNNSFilterDestroy(f)
    assert repr(f) == "<BNNSFilter activation, destroyed>"


# Habits of PyTorch users.


def trained(optimizer: nn.Optimizer, net: nn.Module) -> np.ndarray[Any, Any]:
    x, t = np.float32([[1, 0], [2, 1]]), np.float32([[3], [5]])
    for _ in range(5):
        _, gradient = nn.MSELoss()(net(x), t)
        net.backward(gradient)
        optimizer.step()
    return np.concatenate([p.data.ravel() for p in net.parameters()])


@pytest.mark.parametrize("kind", [nn.SGD, nn.Adam, nn.AdamW, nn.RMSprop])
def test_optimizers_as_in_pytorch(kind: Any) -> None:
    one, two = (nn.Linear(1).build((2,), seed=0) for _ in range(2))
    ours = kind(0.05)
    ours.attach(one.parameters())
    np.testing.assert_array_equal(trained(ours, one), trained(kind(two.parameters(), lr=0.05), two))
    assert (
        kind().learning_rate
        == kind(two.parameters()).learning_rate
        == {"SGD": 0.01, "RMSprop": 0.01}.get(kind.__name__, 0.001)
    )
    assert (
        kind(lr=0.5).learning_rate
        == kind(learning_rate=0.5).learning_rate
        == kind(np.float32(0.5)).learning_rate
        == 0.5
    )


@pytest.mark.parametrize("kind", [nn.SGD, nn.Adam, nn.AdamW, nn.RMSprop])
def test_optimizers_say_what_they_take(kind: Any) -> None:
    with pytest.raises(TypeError, match="are the same thing"):
        kind(0.1, lr=0.1)
    for wrong in (nn.Linear(2), "adam", [np.zeros(3)], object()):
        with pytest.raises(TypeError, match=r"the first argument is the learning rate, or the parameters of a network"):
            kind(wrong)
    with pytest.raises(RuntimeError, match=r"step: none of its parameters is part of a built network yet\. Build it"):
        kind(nn.Linear(2).parameters(), lr=0.1).step()
    with pytest.raises(ValueError, match=r"(lr|learning_rate) is -1"):
        kind(lr=-1)


def test_softmax_with_dim() -> None:
    x = np.float32([[1, 2], [3, 4]])
    for layer in (nn.Softmax, nn.LogSoftmax):
        for dim in (-1, 1):
            np.testing.assert_array_equal(layer(dim=dim)(x), layer()(x))
        np.testing.assert_allclose(layer(dim=0)(x), layer()(x.T).T, rtol=1e-6)
        with pytest.raises(ValueError, match=r"softmax: dim is 2, but \(N, 2\) has the axes 0 to 1"):
            layer(dim=2)(x)


def test_the_batch_is_always_first() -> None:
    assert nn.LSTM(5, batch_first=True)(np.zeros((4, 7, 3), np.float32)).shape == (4, 7, 5)
    assert nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)(np.zeros((4, 7, 4), np.float32)).shape == (4, 7, 4)
    for make in (lambda: nn.LSTM(5, batch_first=False), lambda: nn.TransformerEncoderLayer(4, 2, batch_first=False)):
        with pytest.raises(ValueError, match="batch axis in front"):
            make()


def test_a_module_without_the_call_of_its_base() -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None:
            self.linear = nn.Linear(2)

    with pytest.raises(AttributeError, match=r"Forgetful\.linear: call super\(\)\.__init__\(\) first"):
        Forgetful()


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda x: np.concatenate([x, x]), r"np\.concatenate does not act on a value\. Use nn\.functional"),
        (lambda x: np.spacing(x), r"np\.spacing does not act on a value"),
        (lambda x: bool(x > 0), r"cannot branch on numbers.*nn\.functional\.where"),
        (lambda x: np.array(x), "recorded once, before there are numbers"),
        (lambda x: x.item(), "recorded once, before there are numbers"),
        (lambda x: x[1], "1 is out of range for axis 0"),
        (lambda x: x @ x, "columns of the first must be as many"),
    ],
)
def test_numbers_in_forward(work: Callable[[Any], Any], message: str) -> None:
    class Numeric(nn.Module):
        def forward(self, *inputs: Any) -> Any:
            return work(inputs[0])

    with pytest.raises((TypeError, ValueError, IndexError), match=message):
        Numeric()(np.ones((1, 3), np.float32))


def test_methods_of_tensors_in_forward() -> None:
    class Fluent(nn.Module):
        def forward(self, *inputs: Any) -> Any:
            return inputs[0].hardswish()

    with pytest.raises(AttributeError, match=r"A Tensor has no 'hardswish'.*nn\.functional\.hardswish\(x"):
        Fluent()(np.ones((1, 3), np.float32))


@pytest.mark.parametrize(
    ("name", "hint"), [("Conv4d", "Did you mean 'Conv"), ("Linaer", "Did you mean 'Linear'"), ("zzz", "")]
)
def test_names_that_are_not_there(name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'\.( {hint}.*)?$"):
        getattr(nn, name)


@pytest.mark.parametrize(
    ("name", "place"), [("BNNSActivation", "capi"), ("BNNSFlagsUseClientPtr", "capi"), ("Linear", "nn")]
)
def test_names_of_another_face(name: str, place: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'\. It is openbnns\.{place}\.{name}$"):
        getattr(bn, name)
