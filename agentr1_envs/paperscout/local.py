"""Libraries on this machine: a prepared folder, or the generated literature."""

from __future__ import annotations

_PAPERS_KEPT = 65_536
