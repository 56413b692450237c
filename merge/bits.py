"""Floats seen as the integers of the same bits: ordered like their magnitudes, and compared much faster.

Finds NaN and infinity, and results that lie many octaves below what they were computed from. Works on
tensors of any device; on the CPU numpy does the work, which on 16-bit integers is twice as fast as torch.
"""

import numpy as np
import torch

from cef_env.errors import UserError
from cef_env.merge.scratch import Scratch

# The integer of the same size, magnitude bits, bits of infinity, stored significand bits.
# A value is finite iff its magnitude bits are below those of infinity.
_LAYOUT: dict[torch.dtype, tuple[torch.dtype, int, int, int]] = {
    torch.bfloat16: (torch.int16, 0x7FFF, 0x7F80, 7),
    torch.float16: (torch.int16, 0x7FFF, 0x7C00, 10),
    torch.float32: (torch.int32, 0x7FFFFFFF, 0x7F800000, 23),
    torch.float64: (torch.int64, 0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000, 52),
}

_ROW = 1 << 10
"""Elements that are looked at together when few elements of many are sought."""


def stored_bits(dtype: torch.dtype) -> int:
    """Significand bits that are stored: the unit in the last place of x is at least 2^-(stored+1) |x|."""
    return _LAYOUT[dtype][3]


def signed_bits(values: torch.Tensor) -> torch.Tensor:
    """The integers of the same bits, sharing memory with contiguous `values`; -0 differs from 0."""
    return values.contiguous().view(_LAYOUT[values.dtype][0])


def magnitude_bits(values: torch.Tensor, scratch: Scratch | None = None, name: str = "bits") -> torch.Tensor:
    """|values| as integers that are ordered as the values are; a new tensor, or `name` of `scratch`."""
    bits = signed_bits(values)
    out = torch.empty_like(bits) if scratch is None else scratch.get(name, bits, bits.dtype)
    mask = _LAYOUT[values.dtype][1]
    if bits.device.type != "cpu":
        return torch.bitwise_and(bits, mask, out=out)
    np.bitwise_and(bits.numpy(), mask, out=out.numpy())
    return out


def largest_magnitude(values: torch.Tensor) -> int:
    """The largest of the magnitude bits of `values`; 0 of none."""
    bits, mask = signed_bits(values), _LAYOUT[values.dtype][1]
    if bits.numel() == 0:
        return 0
    if bits.device.type != "cpu":
        return int((bits & mask).max())
    array = bits.numpy()  # the largest without a sign is, if any has one, the largest of those
    return max(int(array.max()), int(array.view(f"u{array.itemsize}").max()) & mask)


def cancelled(bits: torch.Tensor, reference: torch.Tensor, top: int, limit: int) -> torch.Tensor | None:
    """Where magnitude bits `bits` are more than `limit` below those of `reference`; None when nowhere.

    One axis each. `reference` holds magnitude bits or, with a sign, `signed_bits`; `top` is the largest of
    its magnitudes or more. Fast when few of `bits` are more than `limit` below `top`.
    """
    mask = torch.iinfo(reference.dtype).max
    if bits.device.type != "cpu":
        found = ((reference & mask) - bits > limit).nonzero().view(-1)
        return found if found.numel() else None
    ours, theirs = bits.numpy(), reference.numpy()
    starts = np.arange(0, ours.size, _ROW)
    rows = starts[np.minimum.reduceat(ours, starts) < top - limit] if ours.size else starts
    if not rows.size:
        return None
    if rows.size > 32:
        at = np.flatnonzero(ours < top - limit)
    else:
        at = np.concatenate([row + np.flatnonzero(ours[row : row + _ROW] < top - limit) for row in rows])
    at = at[(theirs[at] & mask) - ours[at] > limit]
    return torch.from_numpy(at) if at.size else None


def all_finite(values: torch.Tensor) -> bool:
    """Whether there is no NaN and no infinity; far cheaper than `isfinite`."""
    return largest_magnitude(values) < _LAYOUT[values.dtype][2]


def require_finite(values: torch.Tensor, what: str, remedy: str) -> None:
    """Raise a `UserError` unless every value is finite."""
    if not all_finite(values):
        raise UserError(f"{what} holds NaN or infinity; {remedy}")
