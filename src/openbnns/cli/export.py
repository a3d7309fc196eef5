"""``openbnns export``: a trained model in a form that other programs read."""

from __future__ import annotations

import argparse
from pathlib import Path

from .._plural import plural
from . import network_export
from .arguments import OK, Commands, add_output, print_json, show

_WEIGHTS = {"npz": ".npz", "safetensors": ".safetensors", "torch": ".pt"}


def add(commands: Commands) -> None:
    export = commands.add_parser(
        "export", help="write a trained model in a form that other programs read",
        description="Write the weights of a model for other programs: npz for NumPy, safetensors for any reader of it, torch "
        "for torch.load and load_state_dict, keras for model.load_weights; or the whole network: an ONNX file, an ML program, "
        "C or Swift code that calls BNNS.",
        examples=(
            "openbnns export out/model.safetensors --to npz -o weights.npz",
            "openbnns export out/model.safetensors --to torch -o weights.pt     # needs PyTorch",
            "openbnns export out/model.safetensors --to keras                   # needs h5py",
            "openbnns export out/model.safetensors --to onnx                    # needs onnx",
            "openbnns export out/model.safetensors --to coreml -o net.mlpackage # needs coremltools",
            "openbnns export out/model.safetensors --to c -o code --name digits # digits.c, digits.h, digits.weights",
        ),
    )  # fmt: skip
    export.add_argument("model", metavar="MODEL", type=Path, help="a file that openbnns train or net.save_model wrote")
    forms = (*_WEIGHTS, *network_export.FORMS)
    export.add_argument("--to", choices=forms, required=True, metavar="FORM", help=", ".join(forms))
    where = "where to, a folder for code (default: beside the model)"
    export.add_argument("-o", "--output", type=Path, default=None, metavar="FILE", help=where)
    network_export.add_options(export)
    add_output(export)
    export.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.to in network_export.FORMS:
        return network_export.run(options)
    from ..interop import weight_files
    from ..nn.files import safetensors as weights

    suffix = _WEIGHTS[options.to]
    path = options.output or options.model.with_name(f"{options.model.stem}-weights{suffix}")
    if path.resolve() == options.model.resolve():
        raise ValueError(f"{path} is the model itself. Give another name: -o FILE.")
    arrays = weights.load(options.model)
    if not weight_files.write(path, arrays, suffix):
        weights.save(path, arrays)
    total = sum(array.size for array in arrays.values())
    if options.json:
        shapes = {name: list(array.shape) for name, array in arrays.items()}
        print_json({"model": str(options.model), "to": options.to, "written": [str(path)], "arrays": shapes})
    elif not options.quiet:
        show(("array", "elements", "shape"), [(name, str(a.dtype), str(a.shape)) for name, a in arrays.items()])
        print(f"{plural(len(arrays), 'array')} with {plural(total, 'number')}.\nWritten: {path}")
    return OK
