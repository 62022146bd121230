"""The advantages of a batch that ranks shared, computed again in one process without padding.

python -m benchmarks.gpu.replay DEBUG_DIR
DEBUG_DIR is what `agentr1.verl.debug_dir=DEBUG_DIR` made a run write.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from agentr1_train.advantages import AdvantageConfig, compute_advantages


def main(folder: str, estimator: str = "grpo") -> None:
    """One line a batch."""
    for file in sorted(Path(folder).glob("advantage-*.pt")):
        saved = torch.load(file, weights_only=False, map_location="cpu")
        rows = saved["rows"]
        real = (~rows.padding).nonzero()[:, 0]
        again = compute_advantages(rows.select(real), AdvantageConfig(estimator)).advantages
        gap = (again - saved["result"].advantages[real]).abs().max()
        print(f"{file.name}: {len(real)} rows, {len(rows) - len(real)} padding, gap {float(gap)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
