"""Short-time Fourier transforms, made of frames and transforms of each."""

from __future__ import annotations

from typing import Any

from ...converted.tensors import Misfit
from ._table import compose, composition

COMPLEX = "complex numbers"


def _window(torch: Any, window: Any, n_fft: int, length: int | None) -> Any:
    """The weights of a frame, with zeros around those that are given."""
    size = n_fft if length is None else length
    held = torch.ones(size) if window is None else window
    before = (n_fft - size) // 2
    return torch.nn.functional.pad(held, (before, n_fft - size - before)) if size < n_fft else held


@composition(COMPLEX, "stft")
def stft(
    torch: Any, input: Any, n_fft: int, hop_length: Any = None, win_length: Any = None, window: Any = None,
    center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: Any = None,
    return_complex: Any = None, align_to_window: Any = None,
) -> Any:  # fmt: skip
    if input.is_complex() or align_to_window:
        raise Misfit("complex signals and align_to_window have no counterpart here")
    x = input if input.dim() == 2 else input.unsqueeze(0)
    if center:
        x = torch.nn.functional.pad(x.unsqueeze(1), (n_fft // 2, n_fft // 2), mode=pad_mode).squeeze(1)
    frames = x.unfold(-1, n_fft, n_fft // 4 if hop_length is None else hop_length)
    frames = frames * _window(torch, window, n_fft, win_length)
    transform = torch.fft.fft if onesided is False else torch.fft.rfft
    pairs = torch.view_as_real(transform(frames, norm="ortho" if normalized else None)).transpose(1, 2)
    pairs = pairs if input.dim() == 2 else pairs.squeeze(0)
    return torch.view_as_complex(pairs.contiguous()) if return_complex else pairs


@composition(COMPLEX, "istft")
def istft(
    torch: Any, input: Any, n_fft: int, hop_length: Any = None, win_length: Any = None, window: Any = None,
    center: bool = True, normalized: bool = False, onesided: Any = None, length: Any = None, return_complex: bool = False,
) -> Any:  # fmt: skip
    """Frames added where they overlap, divided by the squares of their weights added in the same way."""
    if return_complex or onesided is False:
        raise Misfit("complex signals have no counterpart here")
    hop = n_fft // 4 if hop_length is None else hop_length
    pairs = torch.view_as_real(input)
    pairs = (pairs if pairs.dim() == 4 else pairs.unsqueeze(0)).transpose(1, 2)
    frames = torch.fft.irfft(torch.view_as_complex(pairs.contiguous()), n_fft, norm="ortho" if normalized else None)
    weights = _window(torch, window, n_fft, win_length)
    count = frames.shape[1]
    total = n_fft + hop * (count - 1)

    def added(parts: Any) -> Any:
        fold = torch.nn.functional.fold
        return fold(parts.transpose(1, 2), (1, total), (1, n_fft), stride=(1, hop)).reshape(parts.shape[0], total)

    signal, scale = added(frames * weights), added((weights * weights).expand(1, count, n_fft))
    start = n_fft // 2 if center else 0
    end = total - start if length is None else min(start + length, total)
    signal = signal[:, start:end] / scale[:, start:end]
    if length is not None and length > end - start:
        signal = torch.nn.functional.pad(signal, (0, length - end + start))
    return signal if input.dim() == 3 else signal.squeeze(0)


def _shifted(torch: Any, input: Any, dim: Any, sign: int) -> Any:
    axes = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    steps = [input.shape[axis] // 2 if sign > 0 else (input.shape[axis] + 1) // 2 for axis in axes]
    return torch.roll(input, steps, axes)


compose(
    COMPLEX,
    **{
        "fft.fftshift": lambda torch, input, dim=None: _shifted(torch, input, dim, 1),
        "fft.ifftshift": lambda torch, input, dim=None: _shifted(torch, input, dim, -1),
    },
)
