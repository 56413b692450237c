"""Sums over the elements of a chunk that tell how far apart models are, compiled by numba.

Each takes one pass over what is in the processor's cache, makes no new arrays of the chunk's size and holds
no lock of Python's. Does *not* know of tensors or samples: see `statistics.py`.
"""

import numpy as np

from cef_env.merge.compiling import compiled

_STEP = 1024
"""Elements that all sums are taken over before the next ones."""

# Indices are unsigned, because signed ones may count from the end, and then nothing is vectorised.


@compiled(fastmath={"reassoc"})
def _inner(a, b, origin):  # type: ignore[no-untyped-def]
    """<a - origin, b - origin>, summed in any order; BLAS would start threads inside ours."""
    total = 0.0
    for k in range(a.size):
        i = np.uint64(k)
        total += (a[i] - origin[i]) * (b[i] - origin[i])
    return total


@compiled()
def _equal(a, b):  # type: ignore[no-untyped-def]
    """How many elements are equal."""
    count = 0
    for k in range(a.size):
        i = np.uint64(k)
        count += a[i] == b[i]
    return count


@compiled()
def _mark(differ, a, b):  # type: ignore[no-untyped-def]
    """Set `differ` where elements are not equal."""
    for k in range(a.size):
        i = np.uint64(k)
        differ[i] = differ[i] or a[i] != b[i]


@compiled("Tuple((float64, int64))(float64[:, ::1], float64[:, ::1])")
def measure_sources(sources: np.ndarray, gram: np.ndarray) -> tuple[float, int]:
    """Fill `gram` with <source_i - first, source_j - first>; return ||first||^2 and how many are all equal.

    `sources`: (m, elements); `gram`: (m - 1, m - 1).
    """
    gram[:] = 0.0
    zero, nowhere = np.zeros(_STEP), np.zeros(_STEP, np.bool_)
    squared, equal = 0.0, 0
    for start in range(0, sources.shape[1], _STEP):
        stop = start + _STEP
        # Sliced like this they are known to be contiguous.
        first = sources[0, start:stop]
        differ = np.zeros(first.size, np.bool_)
        squared += _inner(first, first, zero)
        for i in range(1, len(sources)):
            _mark(differ, sources[i, start:stop], first)
            for j in range(1, len(sources)):
                gram[i - 1, j - 1] += _inner(sources[i, start:stop], sources[j, start:stop], first)
        equal += _equal(differ, nowhere)
    return squared, equal


@compiled(
    "int64(float64[::1], float64[::1], float64[:, ::1], float64[:, ::1], float64[::1], float64[::1])",
)
def measure_output(
    merged: np.ndarray,
    previous: np.ndarray,
    sources: np.ndarray,
    stored: np.ndarray,
    moved: np.ndarray,
    equal: np.ndarray,
) -> int:
    """Fill `moved` with <merged - first, source_j - first> and `equal` with how many elements equal those of
    each source in the dtype that is written; return how many equal those of the `previous` output.

    `merged`, `previous`: (elements,); `sources`, `stored`: (m, elements); `moved`: (m - 1,); `equal`: (m,).
    """
    moved[:], equal[:] = 0.0, 0.0
    same = 0
    for start in range(0, merged.size, _STEP):
        stop = start + _STEP
        part, first = merged[start:stop], sources[0, start:stop]
        same += _equal(part, previous[start:stop])
        for j in range(len(sources)):
            equal[j] += _equal(part, stored[j, start:stop])
            if j:
                moved[j - 1] += _inner(part, sources[j, start:stop], first)
    return same


@compiled([f"void({bits}[::1], {bits}[::1], float64[::1])" for bits in ("uint16", "uint32", "uint64")])
def count_octaves(a: np.ndarray, b: np.ndarray, counts: np.ndarray) -> None:
    """Add to `counts` how many elements of float bits `a` and `b` lie 0, 1, 2-3, 4-7, ... values apart.

    `a`, `b`: unsigned integers of the floats' bits; `counts`: the last of it takes all that is further apart.
    """
    # numba gives integers 64 bits unless told otherwise; of 16 the processor does four times as many at once.
    bits = a.dtype.type
    half = bits(bits(1) << bits(8 * a.itemsize - 1))
    apart = np.empty(_STEP, a.dtype)
    for start in range(0, a.size, _STEP):
        size = min(_STEP, a.size - start)
        for k in range(size):
            at = np.uint64(start) + np.uint64(k)
            # Integers in the order of the floats, consecutive, the same for both zeros.
            left = bits(bits(0) - a[at]) if a[at] >= half else bits(a[at] + half)
            right = bits(bits(0) - b[at]) if b[at] >= half else bits(b[at] + half)
            apart[np.uint64(k)] = bits(max(left, right) - min(left, right))
        above = np.int64(size)
        for octave in range(counts.size - 1):
            least, further = bits(1 << octave), bits(0)  # _STEP fits into 16 bits
            for k in range(size):
                further = bits(further + bits(apart[np.uint64(k)] >= least))
            counts[octave] += above - np.int64(further)
            above = np.int64(further)
        counts[-1] += above
