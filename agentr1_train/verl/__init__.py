"""The adapter to verl: the same environments, estimators and losses in its trainer.

Nothing of verl is copied or changed on disk. `agentr1_train.verl.plugin` is what verl is told to
import (``VERL_USE_EXTERNAL_MODULES``); it registers the trainer modes and, with
``VERL_PLATFORM=cpu``, a platform and a rollout that need no GPU.
"""

from __future__ import annotations

TESTED_VERSIONS = ("0.9.1",)


def check_version(version: str) -> None:
    """Refuse a verl that this adapter was not tested with.

    Raises:
        RuntimeError: with the versions that were tested, unless AGENTR1_ANY_VERL=1 is set.
    """
    import os

    if version in TESTED_VERSIONS or os.environ.get("AGENTR1_ANY_VERL") == "1":
        return
    tested = ", ".join(TESTED_VERSIONS)
    raise RuntimeError(
        f"verl {version} is installed; this adapter overrides internals of verl and was tested "
        f"with {tested}. Install verl=={TESTED_VERSIONS[-1]}, or set AGENTR1_ANY_VERL=1 to try."
    )
