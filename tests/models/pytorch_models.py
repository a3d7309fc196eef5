"""Models of transformers and timm through ``nn.from_torch``: outputs and gradients against PyTorch in float64.

``make test-pytorch-models`` installs both libraries in an environment of their own and runs all models. By hand, for some of
them::

    python tests/models/pytorch_models.py --only GPT-2 resnet18

Weights are random and sizes small: what counts is the code of the architectures. A model passes if outputs are within 1e-4
of float64, relative to the largest, and gradients of all parameters are as close to it as those of PyTorch in float32, at two
batch sizes each. Training is compared without dropout, whose random numbers differ; outputs in evaluation with it.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from openbnns import nn

OUTPUTS = 1e-4
"""How far outputs may be from float64, relative to the largest; or three times as far as PyTorch's, if that is more."""
MISTRUSTED = 1e-2
"""Nothing is shown by a model whose outputs in float32 are as far from float64 in PyTorch itself."""
GRADIENTS = 1e-5
"""The error that gradients may add to three times the distance of PyTorch's in float32."""


def _define_operations_of_torchvision() -> None:
    """PyPI's torchvision is compiled for another build of PyTorch: its Python part needs these names, which no model calls."""
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    globals()["_torchvision"] = library  # gone with the object


# Inputs: functions of the number of samples.

Inputs = Callable[[int], dict[str, Any]]


def _rng(count: int) -> np.random.Generator:
    return np.random.default_rng(count)


def tokens(length: int = 12, vocabulary: int = 90, **more: Callable[[np.random.Generator, int], Any]) -> Inputs:
    """Numbers of words, and inputs besides."""

    def make(count: int) -> dict[str, Any]:
        rng = _rng(count)
        first = {"input_ids": rng.integers(3, vocabulary, (count, length))}
        return first | {name: each(rng, count) for name, each in more.items()}

    return make


def masked(length: int = 12, vocabulary: int = 90) -> Inputs:
    """Numbers of words with a mask that hides the end of every other sentence."""

    def mask(rng: np.random.Generator, count: int) -> Any:
        made = np.ones((count, length), np.int64)
        made[1::2, length - 3 :] = 0
        return made

    return tokens(length, vocabulary, attention_mask=mask)


def translated(length: int = 12, vocabulary: int = 90) -> Inputs:
    return tokens(
        length, vocabulary, decoder_input_ids=lambda rng, count: rng.integers(3, vocabulary, (count, length - 4))
    )


def floats(name: str, *shape: int) -> Inputs:
    return lambda count: {name: _rng(count).standard_normal((count, *shape)).astype(np.float32)}


def both(*inputs: Inputs) -> Inputs:
    return lambda count: {name: x for each in inputs for name, x in each(count).items()}


# Models of transformers.


@dataclass(frozen=True)
class Model:
    """``make`` gives the module, with or without dropout."""

    name: str
    library: str
    make: Callable[[bool], Any]
    inputs: Inputs
    exact: Any = torch.float64
    """The element type to compare in: float32 for models whose code only works in that."""


_WIDTHS = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 64,
}  # fmt: skip
_TRANSLATOR = {
    "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64,
}  # fmt: skip
_SPEECH = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "conv_dim": (16, 16, 16),
    "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3), "num_feat_extract_layers": 3, "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0, "layerdrop": 0.0,
}  # fmt: skip
_IMAGE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 32,
          "patch_size": 8}  # fmt: skip
_NOISE = ("dropout", "dropout_rate", "drop_path", "layerdrop", "drop_rate")


def _without_dropout(config: Any) -> None:
    for name, value in list(vars(config).items()):
        if hasattr(value, "to_dict"):
            _without_dropout(value)
        elif isinstance(value, float) and (any(noise in name for noise in _NOISE) or name.endswith("pdrop")):
            setattr(config, name, 0.0)


def _transformer(name: str, model: str, inputs: Inputs, exact: Any = torch.float64, **options: Any) -> Model:
    """A model by the name of its class; that of its configuration begins with the same word."""

    def make(dropout: bool) -> Any:
        import transformers

        made = {key: value() if callable(value) else value for key, value in options.items()}
        described = next(
            model[:end] + "Config" for end in range(len(model), 0, -1) if hasattr(transformers, model[:end] + "Config")
        )
        settings = getattr(transformers, described)(**made)
        if not dropout:
            _without_dropout(settings)
        return getattr(transformers, model)(settings)

    return Model(name, "transformers", make, inputs, exact)


def _of(name: str, **options: Any) -> Callable[[], Any]:
    """The configuration of a part."""

    def make() -> Any:
        import transformers

        return getattr(transformers, name)(**options)

    return make


_PIXELS = floats("pixel_values", 3, 32, 32)
_DECODER = {**_WIDTHS, "num_key_value_heads": 2}

TRANSFORMERS = [
    _transformer("BERT", "BertForSequenceClassification", masked(), **_WIDTHS),
    _transformer("RoBERTa", "RobertaForTokenClassification", masked(), **_WIDTHS),
    _transformer("DistilBERT", "DistilBertModel", masked(), vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=48),
    _transformer("ALBERT", "AlbertModel", masked(), **_WIDTHS, embedding_size=16),
    _transformer("ELECTRA", "ElectraForPreTraining", masked(), **_WIDTHS, embedding_size=16),
    _transformer("DeBERTa", "DebertaModel", masked(), **_WIDTHS, relative_attention=True, pos_att_type=["c2p", "p2c"]),
    _transformer(
        "DeBERTa-v2", "DebertaV2Model", masked(), **_WIDTHS, relative_attention=True, pos_att_type=["c2p", "p2c"],
        position_buckets=8, norm_rel_ebd="layer_norm", conv_kernel_size=3,
    ),
    _transformer("MPNet", "MPNetModel", masked(), **_WIDTHS),
    _transformer("MobileBERT", "MobileBertModel", masked(), **_WIDTHS, embedding_size=16, intra_bottleneck_size=16),
    _transformer("Longformer", "LongformerModel", tokens(16), **_WIDTHS, attention_window=8),
    _transformer(
        "BigBird", "BigBirdModel", masked(64), **(_WIDTHS | {"max_position_embeddings": 128}), block_size=8,
        num_random_blocks=1, attention_type="block_sparse",
    ),
    _transformer(
        "Funnel", "FunnelModel", masked(), vocab_size=99, block_sizes=[1, 1], d_model=32, n_head=4, d_head=8, d_inner=48,
        num_decoder_layers=1,
    ),
    _transformer("FNet", "FNetModel", tokens(), **_WIDTHS),
    _transformer("XLM", "XLMModel", masked(), vocab_size=99, emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=64),
    _transformer("XLNet", "XLNetModel", masked(), vocab_size=99, d_model=32, n_layer=2, n_head=4, d_inner=48),
    _transformer(
        "CANINE", "CanineModel", masked(32, 1000), torch.float32, **(_WIDTHS | {"max_position_embeddings": 128}),
        num_hash_buckets=64, local_transformer_stride=16, downsampling_rate=4,
    ),
    _transformer(
        "Perceiver", "PerceiverForMaskedLM", masked(16), vocab_size=99, d_model=32, d_latents=32, num_latents=8,
        num_blocks=1, num_self_attends_per_block=2, num_self_attention_heads=4, num_cross_attention_heads=4,
        max_position_embeddings=16, qk_channels=16, v_channels=32,
    ),
    _transformer("GPT-2", "GPT2LMHeadModel", tokens(), vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64),
    _transformer(
        "GPT-Neo", "GPTNeoModel", masked(), **(_WIDTHS | {"num_layers": 2, "num_heads": 4}), window_size=4,
        attention_types=[[["global", "local"], 1]],
    ),
    _transformer("GPT-NeoX", "GPTNeoXForCausalLM", masked(), **_WIDTHS),
    _transformer("OPT", "OPTForCausalLM", masked(), **_WIDTHS, ffn_dim=48, word_embed_proj_dim=16),
    _transformer("BLOOM", "BloomForCausalLM", masked(), vocab_size=99, hidden_size=32, n_layer=2, n_head=4),
    _transformer("LLaMA", "LlamaForCausalLM", masked(), **_DECODER),
    _transformer("Mistral", "MistralForCausalLM", masked(), **_DECODER, sliding_window=6),
    _transformer("Qwen2", "Qwen2ForCausalLM", masked(), **_DECODER),
    _transformer("Gemma", "GemmaForCausalLM", tokens(), **_DECODER, head_dim=8),
    _transformer("Phi", "PhiForCausalLM", tokens(), **_DECODER, partial_rotary_factor=0.5),
    _transformer("Falcon", "FalconForCausalLM", tokens(), **_WIDTHS, alibi=True),
    _transformer(
        "Mamba", "MambaForCausalLM", tokens(), vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=8,
        time_step_rank=4,
    ),
    _transformer(
        "RWKV", "RwkvForCausalLM", tokens(), vocab_size=99, hidden_size=32, num_hidden_layers=2, attention_hidden_size=32,
        intermediate_size=48, context_length=64,
    ),
    _transformer(
        "T5", "T5ForConditionalGeneration", translated(), vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2,
        num_heads=4,
    ),
    _transformer("BART", "BartForConditionalGeneration", translated(), **_TRANSLATOR),
    _transformer("Marian", "MarianMTModel", translated(), **_TRANSLATOR, pad_token_id=1, decoder_start_token_id=1),
    _transformer("Pegasus", "PegasusForConditionalGeneration", translated(), **_TRANSLATOR),
    _transformer(
        "Whisper", "WhisperForConditionalGeneration",
        both(
            floats("input_features", 20, 60),
            lambda count: {"decoder_input_ids": _rng(count).integers(3, 90, (count, 6))},
        ),
        **(_TRANSLATOR | {"max_source_positions": 30, "max_target_positions": 20, "num_mel_bins": 20}), pad_token_id=1,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    ),
    _transformer("Wav2Vec2", "Wav2Vec2ForCTC", floats("input_values", 400), **_SPEECH, vocab_size=32),
    _transformer("HuBERT", "HubertModel", floats("input_values", 400), **_SPEECH),
    _transformer("WavLM", "WavLMModel", floats("input_values", 400), **_SPEECH, num_buckets=16, max_bucket_distance=20),
    _transformer("ViT", "ViTForImageClassification", _PIXELS, **_IMAGE),
    _transformer("BEiT", "BeitModel", _PIXELS, **_IMAGE, use_relative_position_bias=True, out_indices=[1, 2]),
    _transformer(
        "Swin", "SwinForImageClassification", _PIXELS, image_size=32, patch_size=2, embed_dim=16, depths=[2, 2],
        num_heads=[2, 4], window_size=4,
    ),
    _transformer("ConvNeXt", "ConvNextForImageClassification", _PIXELS, hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 2, 1]),
    _transformer(
        "SegFormer", "SegformerForSemanticSegmentation", floats("pixel_values", 3, 64, 64), hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 4, 4], decoder_hidden_size=16,
    ),
    _transformer(
        "DETR", "DetrForObjectDetection", floats("pixel_values", 3, 64, 64),
        **{key: value for key, value in _TRANSLATOR.items() if key not in ("vocab_size", "max_position_embeddings")},
        num_queries=5, use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
        backbone_config=_of(
            "ResNetConfig", embedding_size=8, hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1], out_features=["stage4"]
        ),
    ),
    _transformer(
        "CLIP", "CLIPModel", both(tokens(), _PIXELS), projection_dim=24,
        text_config={**_WIDTHS, "eos_token_id": 2}, vision_config=_IMAGE,
    ),
]  # fmt: skip


# Models of timm.


def _timm(name: str, size: int, **options: Any) -> Model:
    def make(dropout: bool) -> Any:
        import timm

        return timm.create_model(name, pretrained=False, num_classes=11, **options)

    def inputs(count: int) -> dict[str, Any]:
        return {"x": _rng(count).standard_normal((count, 3, size, size)).astype(np.float32)}

    return Model(name, "timm", make, inputs)


TIMM = [
    _timm("resnet10t", 64),
    _timm("resnext26ts", 64),
    _timm("densenet121", 64),
    _timm("efficientnet_b0", 64),
    _timm("mobilenetv3_small_050", 64),
    _timm("regnetx_002", 64),
    _timm("vit_tiny_patch16_224", 64, img_size=64, depth=3),
    _timm("deit_tiny_distilled_patch16_224", 64, img_size=64, depth=3),
    _timm("swin_tiny_patch4_window7_224", 64, img_size=64, depths=(1, 2, 1, 1), embed_dim=24, num_heads=(2, 2, 4, 4)),
    _timm("convnext_atto", 64),
    _timm("mixer_s32_224", 96, img_size=96),
    _timm("ghostnet_050", 64),
    _timm("hrnet_w18_small", 64),
    _timm("inception_v3", 107),
    _timm("eca_nfnet_l0", 64),
    _timm("coat_lite_mini", 64, img_size=64),
    _timm("cait_xxs24_224", 64, img_size=64, depth=3),
    _timm("xcit_nano_12_p8_224", 64, img_size=64, depth=3),
    _timm("poolformer_s12", 64),
    _timm("maxvit_pico_rw_256", 64, img_size=64),
    _timm("levit_128s", 224),
    _timm("edgenext_xx_small", 64),
    _timm("repvgg_a0", 64),
    _timm("dpn48b", 64),
    _timm("rexnet_100", 64),
    _timm("tresnet_m", 64),
    _timm("volo_d1_224", 64, img_size=64),
    _timm("crossvit_9_240", 240),
    _timm("eva02_tiny_patch14_224", 56, img_size=56, depth=3),
    _timm("fastvit_t8", 64),
]
MODELS = [*TRANSFORMERS, *TIMM]


# Comparing.

_SMOOTH = {"ReLU": torch.nn.SiLU, "ReLU6": torch.nn.SiLU, "Hardswish": torch.nn.SiLU, "Hardsigmoid": torch.nn.Sigmoid,
           "LeakyReLU": torch.nn.SiLU, "ReLUActivation": torch.nn.SiLU}  # fmt: skip


def _with_weights_everywhere(module: Any) -> None:
    """Give weights that begin at zero, or near it, so that whole branches do nothing, others."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.abs().max() < 1e-3:
                parameter.normal_(0, 0.1)


def _without_kinks_and_noise(module: Any) -> None:
    """Prepare a module for a comparison of gradients.

    Rounding decides on which side of a kink a number near it lies, and which of two numbers is the larger, so that single
    entries of gradients differ much between any two ways to compute them. This holds for all models alike; gradients of ReLU
    and of max pooling have tests of their own.
    """
    for part in module.modules():
        for name, child in part._modules.items():
            if type(child).__name__ in _SMOOTH:
                setattr(part, name, _SMOOTH[type(child).__name__]())
            elif isinstance(child, torch.nn.MaxPool2d) and child.dilation == 1:
                window = child.kernel_size, child.stride, child.padding, child.ceil_mode
                setattr(part, name, torch.nn.AvgPool2d(*window))
        for name in (
            "drop_prob",
            "drop_rate",
            *(["p"] if type(part).__name__.startswith(("Dropout", "StochasticDepth")) else []),
        ):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)


@dataclass
class Outcome:
    """Distances from float64, relative to the largest number; the worst over modes and batch sizes."""

    output: float = 0.0
    output_in_pytorch: float = 0.0
    gradient: float = 0.0
    gradient_in_pytorch: float = 0.0
    problem: str = ""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def passes(self) -> bool:
        return not self.problem


def tensors(result: Any) -> Iterator[Any]:
    """The tensors or arrays in a result; a dictionary goes by its values, other objects are left out."""
    if isinstance(result, (torch.Tensor, np.ndarray)):
        yield result
    elif isinstance(result, (tuple, list, dict)):
        for part in result.values() if isinstance(result, dict) else result:
            yield from tensors(part)


def like(result: Any, ours: Any) -> Any:
    """The results of PyTorch that the network has, too: without caches, and without those of one mode only."""
    if isinstance(ours, dict):
        return {name: like(result[name], part) for name, part in ours.items()}
    if isinstance(ours, (tuple, list)):
        kept = [part for part in result if list(tensors(part))]
        return [like(a, b) for a, b in zip(kept, ours, strict=True)]
    return result


def refilled(result: Any, values: Iterator[Any]) -> Any:
    if isinstance(result, dict):
        return {name: refilled(part, values) for name, part in result.items()}
    if isinstance(result, (tuple, list)):
        return type(result)(refilled(part, values) for part in result)
    return next(values)


def _given(inputs: dict[str, Any], dtype: Any) -> dict[str, Any]:
    made = {name: torch.tensor(x) for name, x in inputs.items()}
    return {name: x.to(dtype) if x.is_floating_point() else x for name, x in made.items()}


def _distance(ours: Any, exact: Any, scale: float = 0.0) -> float:
    exact = exact.detach().double().numpy()
    ours = ours.detach().double().numpy() if isinstance(ours, torch.Tensor) else np.asarray(ours, np.float64)
    if ours.shape != exact.shape:
        raise ValueError(f"a shape is {ours.shape}, but {exact.shape} in PyTorch")
    finite = np.isfinite(exact)
    if not np.array_equal(finite, np.isfinite(ours)):
        raise ValueError("there are infinities or NaN where PyTorch has none, or the other way round")
    largest = max(float(np.abs(exact[finite]).max(initial=0.0)), scale)
    return float(np.abs(ours - exact)[finite].max(initial=0.0)) / largest if largest else 0.0


def compare(model: Model) -> Outcome:
    """Convert a model, run it, and go back through it."""
    outcome, start = Outcome(), time.perf_counter()
    try:
        for dropout in (True, False):
            torch.manual_seed(1)
            module = model.make(dropout)
            _with_weights_everywhere(module)
            if not dropout:
                _without_kinks_and_noise(module)
            network = nn.from_torch(module, model.inputs(2))
            if dropout:
                for count in (1, 4):
                    _compare_outputs(outcome, module.eval(), network.eval(), model.inputs(count), model.exact)
                names = [name for name in module.state_dict() if not name.endswith("num_batches_tracked")]
                if names != list(network.state_dict()):
                    raise ValueError("the names of the weights differ")
            else:
                for count in (3, 4):
                    _compare_training(outcome, module, network, model.inputs(count), model.exact)
        if outcome.output_in_pytorch > MISTRUSTED:
            outcome.problem = "PyTorch's own outputs differ"
        elif outcome.output > max(OUTPUTS, 3 * outcome.output_in_pytorch):
            outcome.problem = "outputs differ"
        elif outcome.gradient > 3 * outcome.gradient_in_pytorch + GRADIENTS:
            outcome.problem = "gradients differ"
    except Exception as error:
        outcome.problem = f"{type(error).__name__}: {error}"
        outcome.notes.append(traceback.format_exc())
    outcome.seconds = time.perf_counter() - start
    return outcome


def _compare_outputs(outcome: Outcome, module: Any, network: Any, inputs: dict[str, Any], dtype: Any) -> None:
    ours = network(**inputs)
    with torch.no_grad():
        exact = like(copy.deepcopy(module).to(dtype)(**_given(inputs, dtype)), ours)
        theirs = like(module(**_given(inputs, torch.float32)), ours)
    _note_outputs(outcome, *(list(tensors(result)) for result in (ours, theirs, exact)))


def _note_outputs(outcome: Outcome, ours: list[Any], theirs: list[Any], exact: list[Any]) -> None:
    if len(ours) != len(exact):
        raise ValueError(f"there are {len(ours)} outputs, but {len(exact)} in PyTorch")
    for a, b, c in zip(ours, theirs, exact, strict=True):
        outcome.output = max(outcome.output, _distance(a, c))
        outcome.output_in_pytorch = max(outcome.output_in_pytorch, _distance(b, c))


def _compare_training(outcome: Outcome, module: Any, network: Any, inputs: dict[str, Any], dtype: Any) -> None:
    exact, theirs = copy.deepcopy(module).to(dtype).train(), copy.deepcopy(module).train()
    result = network.train()(**inputs)
    results = [
        list(tensors(like(m(**_given(inputs, used)), result))) for m, used in ((exact, dtype), (theirs, torch.float32))
    ]
    ours = list(tensors(result))
    _note_outputs(outcome, ours, results[1], results[0])
    rng = np.random.default_rng(7)
    cotangents = [rng.standard_normal(y.shape).astype(np.float32) for y in ours]
    for made in results:
        terms = [
            (y * torch.tensor(c).to(y.dtype)).sum() for y, c in zip(made, cotangents, strict=True) if y.requires_grad
        ]
        sum(terms).backward()
    network.backward(refilled(result, iter(cotangents)), input_gradient=False)
    parameters = dict(network.named_parameters())
    expected = {name: p.grad for name, p in exact.named_parameters() if p.grad is not None}
    largest = max(float(g.abs().max()) for g in expected.values())
    single = dict(theirs.named_parameters())
    for name, gradient in expected.items():
        own = parameters[name].grad
        own = np.zeros(tuple(gradient.shape)) if own is None else np.asarray(own).reshape(tuple(gradient.shape))
        scale = 1e-3 * largest  # keys of an attention have biases whose gradient is zero but for rounding
        outcome.gradient = max(outcome.gradient, _distance(own, gradient, scale))
        outcome.gradient_in_pytorch = max(outcome.gradient_in_pytorch, _distance(single[name].grad, gradient, scale))


# The table.


def _row(model: Model, outcome: Outcome) -> str:
    if outcome.passes or outcome.problem.endswith("differ"):
        figures = [outcome.output, outcome.output_in_pytorch, outcome.gradient, outcome.gradient_in_pytorch]
        told = " | ".join(f"{figure:.0e}" for figure in figures)
    else:
        told = " | ".join(["-"] * 4)
    return f"| {model.name} | {told} | {outcome.problem or 'yes'} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Convert models of transformers and timm, and compare them with PyTorch."
    )
    parser.add_argument("--only", nargs="*", help="names of models")
    parser.add_argument("--trace", action="store_true", help="show where a model fails")
    options = parser.parse_args()
    _define_operations_of_torchvision()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    chosen = [model for model in MODELS if not options.only or model.name in options.only]
    outcomes = []
    print("| model | outputs | of PyTorch | gradients | of PyTorch | converts |")
    for model in chosen:
        outcome = compare(model)
        outcomes.append(outcome)
        print(f"{_row(model, outcome)} {outcome.seconds:.1f} s", flush=True)
        if options.trace:
            print(*outcome.notes, sep="\n")
    passed = sum(outcome.passes for outcome in outcomes)
    print(f"{passed} of {len(outcomes)} convert")
    return 0 if passed == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
