# Two commands do everything on a fresh machine: `make train` and `make test`.
SHELL := /bin/bash
PYTHON ?= $(shell for p in python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null \
	&& { echo $$p; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements/constraints.txt
TEST_EXTRAS := train,multi,serve,dense,spacy,harmony,docs,dev
RECIPE ?= gsm8k_tool
ARGS ?=

.PHONY: help train test test-main test-fast test-verl test-verl-fast test-bridges lint typecheck bench docs lock clean
.PRECIOUS: .venv-bridges/%/.done

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort

$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or 3.12 is needed"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=24" "setuptools>=77" wheel
	touch $@

# What `make train` needs; the version of torch comes from the constraints file.
$(VENV)/.train: $(VENV)/.python pyproject.toml setup.py requirements/constraints.txt
	$(PIP) -e ".[train]"
	touch $@

# All that the tests need. The real ALFWorld engine compiles a planner: it comes last and alone.
$(VENV)/.test: $(VENV)/.train
	$(PIP) -e ".[$(TEST_EXTRAS)]"
	touch $@

$(VENV)/.alfworld: $(VENV)/.test
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) -e ".[alfworld]"
	touch $@

train: $(VENV)/.train ## train RECIPE (gsm8k_tool) with the local back end, or go on with it; ARGS are passed on
	$(BIN)/agentr1 train recipe=$(RECIPE) --resume $(ARGS)

test: lint typecheck test-main test-verl test-bridges ## linter, type checker and all tests

test-main: $(VENV)/.alfworld ## the tests that run in .venv, real TextWorld included
	$(BIN)/python -m pytest -m "not verl and not bridge" $(ARGS)

# One environment for each stack, since their pins conflict. Each sees the packages of .venv behind
# its own, so that torch is not installed six times.
BRIDGES := openenv skyrl gem verifiers trl vllm
test-bridges: $(addprefix test-bridge-,$(BRIDGES)) ## the bridges, against the real packages

.venv-bridges/%/.done: requirements/bridges/%.txt $(VENV)/.test
	$(BIN)/python -m venv .venv-bridges/$*
	echo "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
		> "$$(.venv-bridges/$*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/_base.pth"
	$(if $(filter vllm,$*),PIP_NO_DEPS=1) .venv-bridges/$*/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	.venv-bridges/$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

test-bridge-%: .venv-bridges/%/.done
	HF_HUB_OFFLINE=1 .venv-bridges/$*/bin/python -m pytest -q tests/bridges/test_$*.py

# verl pins other versions than the tests do, so it lives in an environment of its own. Its `cpu`,
# `vllm` and `fsdp` extras pin an older torch; what they add is named here instead.
.venv-verl/.ready: pyproject.toml requirements/verl-constraints.txt
	test -x .venv-verl/bin/python || $(PYTHON) -m venv .venv-verl
	.venv-verl/bin/python -m pip install --quiet --disable-pip-version-check -c requirements/verl-constraints.txt torch
	.venv-verl/bin/python -m pip install --quiet --disable-pip-version-check -c requirements/verl-constraints.txt \
		-e ".[verl]" hypothesis pytest pytest-timeout matplotlib
	touch $@

test-verl: .venv-verl/.ready ## unmodified verl on the CPU, end to end, with an environment of its own
	.venv-verl/bin/python -m pytest -m verl tests/verl $(ARGS)

test-verl-fast: .venv-verl/.ready ## the same without the five runs: losses, configurations, rows
	.venv-verl/bin/python -m pytest -m "verl and not slow" tests/verl $(ARGS)

test-fast: $(VENV)/.test ## the tests that take seconds
	$(BIN)/python -m pytest -m "not slow and not textworld and not verl and not bridge" $(ARGS)

$(VENV)/.docs: $(VENV)/.test
	$(PIP) -e ".[docs]"
	touch $@

# The variable silences the theme's notice about its own future; a warning of ours stops the build.
docs: $(VENV)/.docs ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

lint: $(VENV)/.test ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The two mapped packages get a folder under their import name, so that mypy finds them.
typecheck: $(VENV)/.test ## mypy
	@mkdir -p .cache/types && ln -sfn ../../wrappers .cache/types/agentr1_wrappers \
		&& ln -sfn ../../recipes .cache/types/agentr1_recipes
	MYPYPATH=.cache/types $(BIN)/python -m mypy -p agentr1_envs -p agentr1_wrappers -p agentr1_train -p agentr1_recipes

clean: ## remove the environments and caches
	rm -rf .venv .venv-* .cache build dist *.egg-info
