"""ML programs here and in coremltools: packages of either open in the other, and weights decompress to the same numbers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coreml_programs
from coreml_programs import count_bound
from openbnns.interop import coreml
from openbnns.interop.coreml import compression

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]
logging.getLogger("coremltools").setLevel(logging.ERROR)
RNG = np.random.default_rng(8)


def image_classifier(ct: Any, mb: Any) -> Any:
    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 3, 8, 8))], opset_version=ct.target.iOS16)
    def program(x: Any) -> Any:
        y = mb.relu(x=mb.conv(x=x, weight=RNG.standard_normal((4, 3, 3, 3)).astype(np.float32), pad_type="same"))
        return mb.softmax(x=mb.reduce_mean(x=y, axes=[2, 3]), axis=1)

    return ct.convert(
        program, inputs=[ct.ImageType(name="x", shape=(1, 3, 8, 8), scale=1 / 255, color_layout=ct.colorlayout.BGR)],
        classifier_config=ct.ClassifierConfig(["a", "b", "c", "d é"]), minimum_deployment_target=ct.target.iOS16,
        skip_model_load=True,
    )  # fmt: skip


def control_flow(ct: Any, mb: Any) -> Any:
    @mb.program(input_specs=[mb.TensorSpec(shape=(1,)), mb.TensorSpec(shape=(1,))])
    def program(a: Any, b: Any) -> Any:
        sums, _ = mb.while_loop(
            _cond=lambda a, b: mb.squeeze(x=mb.less(x=a, y=b)),
            _body=lambda a, b: (mb.add(x=a, y=np.float32(1)), b),
            loop_vars=(a, b),
        )
        held = mb.list_write(ls=mb.make_list(init_length=3, elem_shape=(1,), dtype="fp32"), index=1, value=sums)
        return mb.cond(
            pred=mb.squeeze(x=mb.less(x=a, y=b)),
            _true_fn=lambda: mb.add(x=mb.list_read(ls=held, index=1), y=np.float32(2)),
            _false_fn=lambda: mb.identity(x=a),
        )

    return ct.convert(program, minimum_deployment_target=ct.target.iOS15, skip_model_load=True)


def states(ct: Any, mb: Any) -> Any:
    from coremltools.converters.mil.mil import types

    specs = [mb.TensorSpec(shape=(2, 30), dtype=types.fp16), mb.StateTensorSpec((2, 30), dtype=types.fp16)]

    @mb.program(input_specs=specs, opset_version=ct.target.iOS18)
    def program(x: Any, s: Any) -> Any:
        y = mb.coreml_update_state(state=s, value=mb.add(x=mb.read_state(input=s), y=x))
        for bits in (1, 2, 3, 4, 6, 8):
            kind = types.nptype_from_builtin(types.string_to_builtin(f"uint{bits}"))
            indices = RNG.integers(0, 2**bits, (2, 30)).astype(kind)
            y = mb.mul(
                x=y,
                y=mb.constexpr_lut_to_dense(
                    indices=indices, lut=np.arange(2**bits, dtype=np.float16).reshape(1, 1, -1, 1)
                ),
            )
        return y

    return ct.convert(program, minimum_deployment_target=ct.target.iOS18, skip_model_load=True)


def flexible(ct: Any, mb: Any) -> Any:
    from coremltools.converters.mil.mil import get_new_symbol

    @mb.program(input_specs=[mb.TensorSpec(shape=(get_new_symbol(), 3))], opset_version=ct.target.iOS17)
    def program(x: Any) -> Any:
        return mb.linear(x=x, weight=np.ones((5, 3), np.float32))

    shape = ct.Shape((ct.RangeDim(1, 9, default=2), 3))
    return ct.convert(
        program,
        inputs=[ct.TensorType(name="x", shape=shape)],
        minimum_deployment_target=ct.target.iOS17,
        skip_model_load=True,
    )


MODELS = {function.__name__: function for function in (image_classifier, control_flow, states, flexible)}


@pytest.fixture(scope="module", params=MODELS)
def theirs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    ct = pytest.importorskip("coremltools")
    from coremltools.converters.mil import Builder as mb

    path = tmp_path_factory.mktemp("coremltools") / f"{request.param}.mlpackage"
    MODELS[request.param](ct, mb).save(str(path))
    return path


def loaded(path: Path) -> tuple[Any, Any]:
    """Specification and program, as coremltools reads them."""
    import coremltools as ct
    from coremltools.converters.mil.frontend.milproto.load import load

    model = ct.models.MLModel(str(path), skip_model_load=True)
    spec = model.get_spec()
    return spec, load(spec, specification_version=spec.specificationVersion, file_weights_dir=model.weights_dir)


def operations(program: Any) -> list[Any]:
    listed = []
    waiting = [operation for function in program.functions.values() for operation in function.operations]
    while waiting:
        operation = waiting.pop(0)
        held = operation.outputs[0].val if operation.op_type == "const" else None
        value = None if held is None else (str(np.asarray(held).dtype), np.asarray(held).tolist())
        listed.append((operation.op_type, [(out.name, str(out.sym_type)) for out in operation.outputs], value))
        waiting += [inner for block in operation.blocks for inner in block.operations]
    return listed


def test_their_packages_open_here_and_ours_there(theirs: Path, tmp_path: Path) -> None:
    model = coreml.read(theirs)
    assert model.program is not None
    function = model.program.functions["main"]
    assert count_bound(function.block, coreml.Scope.of(function)) > 1
    ours = coreml.write_package(model, tmp_path / "ours.mlpackage")
    spec, program = loaded(ours)
    expected_spec, expected = loaded(theirs)
    assert spec.description == expected_spec.description
    assert spec.specificationVersion == expected_spec.specificationVersion
    assert [kind for kind, *_ in operations(program)] == [kind for kind, *_ in operations(expected)]
    assert [value for *_, value in operations(program)] == [value for *_, value in operations(expected)]
    assert coreml.parse(coreml.render(model.program)) == model.program


def test_our_own_programs_open_there(tmp_path: Path) -> None:
    pytest.importorskip("coremltools")
    import coremltools as ct

    for path in coreml_programs.packages(tmp_path):
        if path.suffix == ".mlpackage":
            assert ct.models.MLModel(str(path), skip_model_load=True).get_spec().WhichOneof("Type") == "mlProgram"


def test_weights_decompress_to_the_same_numbers() -> None:
    pytest.importorskip("coremltools")
    from coremltools.converters.mil.mil.ops.defs.iOS16 import constexpr_ops as old
    from coremltools.converters.mil.mil.ops.defs.iOS18 import compression as new

    q, zero = RNG.integers(-128, 128, (4, 6)).astype(np.int8), RNG.integers(-9, 9, 6).astype(np.int8)
    scale = RNG.standard_normal(6).astype(np.float16)
    expected = old.constexpr_affine_dequantize.decompress(q, zero, scale, 1)
    assert np.array_equal(compression.affine_dequantize(q, zero, scale, 1), expected.astype(np.float16))
    blocks, shift = RNG.standard_normal((2, 3)).astype(np.float32), RNG.integers(-8, 8, (2, 3)).astype(np.int8)
    expected = new.constexpr_blockwise_shift_scale.decompress(q, blocks, shift)
    assert np.array_equal(compression.blockwise_shift_scale(q, blocks, shift), expected)
    indices = RNG.integers(0, 4, (4, 6)).astype(np.uint8)
    for axis, length in ((None, 1), (0, 3), (1, 2)):
        lut = RNG.standard_normal((2, 3, 4, length)).astype(np.float16)
        expected = new.constexpr_lut_to_dense.decompress(indices, lut, axis)
        assert np.array_equal(compression.lut_to_dense(indices, lut, axis), expected)
        mask = (RNG.random((4, 6)) < 0.6).astype(np.uint8)
        actual = compression.lut_to_sparse(mask, indices[mask == 1], lut, axis)
        for one, other in zip(
            actual, new.constexpr_lut_to_sparse.decompress(mask, indices[mask == 1], lut, axis), strict=True
        ):
            assert np.array_equal(one, other)
    data = RNG.integers(0, 256, 9).astype(np.uint8)
    for bits, shape in ((2, (4, 9)), (4, (2, 9)), (6, (3, 4)), (8, (9,))):
        table = RNG.standard_normal(2**bits).astype(np.float16)
        expected = old.constexpr_lut_to_dense.decompress(table, data, np.array(shape))
        assert np.array_equal(compression.packed_lut_to_dense(data, table, shape), expected)
