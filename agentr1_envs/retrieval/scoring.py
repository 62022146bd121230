"""BM25 in Lucene's arithmetic: 32-bit floats where Lucene uses them, quantised lengths.

Sources: Apache Lucene 8, `BM25Similarity` and `SmallFloat` (the formulas). For a term with
frequency tf in a document of length dl, and frequency q in the query:

    idf   = f32(ln(1 + (N - df + 0.5) / (df + 0.5)))
    score = f32(q * idf) * f32(tf / (tf + k1 * (1 - b + b * dl / avgdl)))

N counts documents with at least one term, dl is the length after quantisation to one byte, avgdl
the exact mean; a document's score is the sum in double precision, cast to 32 bits.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

K1 = 0.9
B = 0.4
_FREE = 24  # lengths below this are exact; Lucene: 255 - longToInt4(2**31 - 1)


def _decode(byte: int) -> int:
    if byte < _FREE:
        return byte
    byte -= _FREE
    mantissa, shift = byte & 7, (byte >> 3) - 1
    return _FREE + (mantissa if shift < 0 else (mantissa | 8) << shift)


# The shortest length each byte stands for, ascending.
LENGTHS: npt.NDArray[np.int64] = np.array([_decode(byte) for byte in range(256)], np.int64)


def quantise(lengths: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
    """Document lengths in terms -> one byte each (`SmallFloat.intToByte4`)."""
    return (np.searchsorted(LENGTHS, lengths, side="right") - 1).astype(np.uint8)


def idf(df: int, documents: int) -> np.float32:
    """Inverse document frequency of a term in df of that many documents."""
    return np.float32(math.log(1 + (documents - df + 0.5) / (df + 0.5)))


def saturation(
    tf: npt.NDArray[np.integer], length: npt.NDArray[np.uint8], mean: float, k1: float, b: float
) -> npt.NDArray[np.float32]:
    """tf / (tf + norm) for pairs of a term frequency and a quantised length."""
    one, k, bb = np.float32(1), np.float32(k1), np.float32(b)
    norms = k * ((one - bb) + bb * LENGTHS.astype(np.float32) / np.float32(mean))
    frequency = tf.astype(np.float64)
    return (frequency / (frequency + norms[length].astype(np.float64))).astype(np.float32)
