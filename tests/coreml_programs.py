"""Small ML programs for tests: texts that have every construct, and models made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from openbnns.interop import coreml

# Written by hand after real files: scalars as tensors, weights in a file, attributes of constexpr operations.
OLD = """program(1.0)
[buildInfo = dict<tensor<string, []>, tensor<string, []>>({{"coremlc-version", "1"}, {"a \\"quoted\\" \\\\ word", "é\\n"}})]
{
    func main<ios16>(tensor<fp32, [?, 4]> x) [FlexibleShapeInformation = tuple<tuple<tensor<string, []>, dict<tensor<string, []>, tensor<int32, [?]>>>, tuple<tensor<string, []>, dict<tensor<string, []>, list<tensor<int32, [2]>, ?>>>>((("DefaultShapes", {{"x", [2, 4]}}), ("RangeDims", {{"x", [[1, -1], [4, 4]]}})))] {
            tensor<fp32, [3, 4]> w = const()[name = tensor<string, []>("w"), val = tensor<fp32, [3, 4]>([[0x1p+0, -0x1.8p-3, 0x0p+0, 0x1.99999ap-4], [1, 2.5, -3e-2, inf], [0x1p-149, -0x0p+0, -inf, nan]])];
            tensor<fp32, [3]> b = constexpr_affine_dequantize()[axis = tensor<int32, []>(0), quantized_data = tensor<int8, [3]>([-128, 0, 127]), scale = tensor<fp32, []>(0x1p-1), zero_point = tensor<int8, []>(-1)];
            tensor<fp32, [?, 3]> y = linear(bias = b, weight = w, x = x)[name = tensor<string, []>("y")];
        } -> (y);
}
"""  # noqa: E501

NEW = """program(1.3)
{
    func main<ios18>(tensor<fp16, [2, 3]> x, state<tensor<fp16, [2, 3]>> cache, tensor<int32, [1]> n) {
            tensor<fp16, [2, 3]> before = read_state(input = cache)[name = string("before")];
            tensor<fp16, [2, 3]> table = constexpr_lut_to_dense(indices = tensor<uint2, [2, 3]>([[0, 1, 2], [3, 0, 1]]), lut = tensor<fp16, [1, 1, 4, 1]>([[[[0x0p+0], [0x1p+0], [0x1p+1], [0x1.8p+1]]]]));
            tensor<fp16, [2, 6]> both = concat(axis = int32(1), interleave = bool(false), values = (before, x));
            tensor<fp16, [2, 3]> left, tensor<fp16, [2, 3]> right = split(axis = int32(1), num_splits = int32(2), x = both);
            int32 zero = const()[val = int32(0)];
            int32 one = const()[val = int32(1)];
            tensor<int32, []> last = gather(axis = zero, indices = zero, x = n);
            int32 count, tensor<fp16, [2, 3]> sum = while_loop(loop_vars = (last, left)) (int32 i, tensor<fp16, [2, 3]> s) {
                bool more = greater(x = i, y = zero);
            } -> (more) (int32 j, tensor<fp16, [2, 3]> t) {
                int32 k = sub(x = j, y = one);
                tensor<fp16, [2, 3]> u = add(x = t, y = table);
            } -> (k, u);
            bool some = greater(x = last, y = one);
            tensor<fp16, [2, 3]> z = cond(pred = some)[name = string("branch")] {
            } -> (sum) {
                tensor<fp16, [2, 3]> other = mul(x = sum, y = right);
            } -> (other);
            write_state(data = z, input = cache);
            list<tensor<fp16, [3]>, ?> rows = make_list(elem_shape = int32(3), dtype = string("fp16"));
            tensor<int4, [3]> small = const()[val = tensor<int4, [3]>([-8, 7, 0])];
            tensor<bool, [2]> flags = const()[val = tensor<bool, [2]>([true, false])];
            tensor<string, [2]> words = const()[val = tensor<string, [2]>(["a", "b, \\"c\\""])];
            list<string, 2> labels = const()[val = list<string, 2>(["no", "yes"])];
            tensor<fp32, [0, 3]> nothing = const()[val = tensor<fp32, [0, 3]>([])];
            tensor<bf16, [2]> halves = const()[val = tensor<bf16, [2]>([0x1p+0, -0x1.8p+1])];
            tensor<fp16, [2, 3]> result = relu<ios17>(x = z);
        } -> (result);
    func second<ios17>(tensor<fp32, [1]> x) {
            tensor<fp32, [1]> y = relu(x = x);
        } -> (y);
}
"""  # noqa: E501


def classifier(seed: int = 0) -> coreml.Model:
    """An image classifier with weights that go into a weight file, all but its values as converters write it."""
    random = np.random.default_rng(seed)
    c = coreml.constant
    text = coreml.TensorType("string", ())
    image, scores = coreml.TensorType("fp32", (1, 3, 4, 5)), coreml.TensorType("fp32", (1, 3))
    flat = coreml.NamedType("flat", coreml.TensorType("fp32", (1, 60)))

    def const(name: str, value: object, element: str | None = None) -> coreml.Operation:
        held = c(value, element)
        return coreml.Operation(
            "const", {}, [coreml.NamedType(name, held.type)], attributes={"name": c(name), "val": held}
        )

    operations = [
        const("weight", random.standard_normal((3, 60)).astype(np.float32)),
        const("indices", random.integers(0, 16, (3, 60)), "uint4"),
        const("labels", ["cat", "dog", "ant"]),
        const("end", np.array([1, 60], np.int32)),
        coreml.Operation("reshape", {"x": ("image",), "shape": ("end",)}, [flat]),
        coreml.Operation("linear", {"x": ("flat",), "weight": ("weight",)}, [coreml.NamedType("scores", scores)]),
        coreml.Operation("softmax", {"x": ("scores",), "axis": (c(1),)}, [coreml.NamedType("probabilities", scores)]),
        coreml.Operation(
            "classify", {"probabilities": ("probabilities",), "classes": ("labels",)},
            [
                coreml.NamedType("label", text),
                coreml.NamedType("label_probs", coreml.DictionaryType(text, coreml.TensorType("fp64", ()))),
            ],
        ),
    ]  # fmt: skip
    block = coreml.Block([], operations, ["label", "label_probs"])
    function = coreml.Function("main", [coreml.NamedType("image", image)], "ios18", block)
    description = coreml.Description(
        inputs=[
            coreml.Feature("image", coreml.ImageFeature(5, 4, "BGR", ((10, 8),), (1, None), (1, 99)), "a picture"),
        ],
        outputs=[
            coreml.Feature("label", coreml.ScalarFeature("string")),
            coreml.Feature("label_probs", coreml.DictionaryFeature("string")),
        ],
        predicted_feature="label",
        predicted_probabilities="label_probs",
        metadata=coreml.Metadata("what it is", "2", "me", "Apache-2.0", {"key": "value"}),
    )
    return coreml.make_model(coreml.Program({"main": function}), description)


def packages(folder: Path) -> list[Path]:
    """Packages and compiled models of all these programs."""
    made = [coreml.write_package(classifier(), folder / "classifier.mlpackage")]
    old = coreml.make_model(coreml.parse(OLD))
    new = coreml.make_model(coreml.parse(NEW.replace("relu<ios17>", "relu")))
    for name, model in (("old", old), ("new", new)):
        made.append(coreml.write_package(model, folder / f"{name}.mlpackage"))
        made.append(coreml.write_compiled(model, folder / f"{name}.mlmodelc"))
    return made


def count_bound(block: coreml.Block, scope: coreml.Scope) -> int:
    """Bind all operations of a block and of those inside; how many there were."""
    count = 0
    for operation in block.operations:
        coreml.bind(operation, scope)
        count += 1 + sum(count_bound(inner, scope.inside(inner)) for inner in operation.blocks)
        scope.add(operation)
    return count
