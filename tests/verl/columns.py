"""Writes down which columns of rows verl's workers fetch: a line of JSON each time.

Named in VERL_USE_EXTERNAL_MODULES after the plug-in; COLUMNS_FILE says where to.
"""

from __future__ import annotations

import json
import os
from typing import Any

import torch
from tensordict import NonTensorStack

from agentr1_train.verl.plugin import _after


def _watch(module: Any) -> None:
    fetch = module._meta_to_realdata

    def watched(meta: Any) -> Any:
        data = fetch(meta)
        kinds = (torch.Tensor, NonTensorStack)  # what is one for all rows is of another kind
        rows = {k: isinstance(v, torch.Tensor) for k, v in data.items() if isinstance(v, kinds)}
        with open(os.environ["COLUMNS_FILE"], "a") as handle:
            handle.write(json.dumps(rows) + "\n")
        return data

    module._meta_to_realdata = watched


if "COLUMNS_FILE" in os.environ:
    _after.add("verl.utils.transferqueue_utils", _watch)
