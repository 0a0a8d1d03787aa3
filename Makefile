# make setup | setup-detection | demo | test | test-fast | lint | docs | ws; each may run again at any time.
# Variables: PYTHON (interpreter for set-up), VENV (folder), PYTEST_WORKERS (0 = one process), PYTEST_ARGS,
# for demo: DATA, SEED, RESUME; for setup-detection: FED_PERCEPTION_WHEELS, IF_POSSIBLE.
SHELL := /bin/sh
VENV ?= .venv
PYTEST_WORKERS ?= 2
PYTEST_ARGS ?=
BIN := $(abspath $(VENV))/bin
export OMP_NUM_THREADS ?= 1

SOURCES := fed_core models/fed_models fed_nodes fed_cli fed_flower
WORDS := $(SOURCES) $(wildcard tests benchmarks examples launch scripts config msgs docs deploy *.md) Makefile Dockerfile \
  setup.py .github .devcontainer

.PHONY: help setup setup-detection demo test test-fast lint format docs ws clean

help:
	@sed -n '1,3p' Makefile

setup:
	@VENV="$(VENV)" sh scripts/setup.sh

# mmdet3d, for the network of that name.
setup-detection: setup
	@VENV="$(VENV)" IF_POSSIBLE="$(IF_POSSIBLE)" sh scripts/setup_detection.sh

demo: setup
	@$(BIN)/fedperc demo $(if $(DATA),--data "$(DATA)") $(if $(SEED),--seed "$(SEED)") $(if $(RESUME),--resume)

# One worker takes the multi-process ROS tests one after the other (tests/conftest.py), so they do not fight for cores.
PYTEST = $(BIN)/python -m pytest $(if $(filter-out 0,$(PYTEST_WORKERS)),-n $(PYTEST_WORKERS))

test: lint
	@$(PYTEST) --durations=10 $(PYTEST_ARGS) tests

test-fast: setup
	@$(PYTEST) -m "not slow and not gpu" $(PYTEST_ARGS) tests

lint: setup
	@echo "ruff" && $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "mypy" && $(BIN)/mypy $(SOURCES)
	@echo "import-linter" && PYTHONPATH=models $(BIN)/lint-imports --no-logo
	@echo "house rules" && $(BIN)/python -m pytest -q -m "not slow" tests/test_house.py
	@echo "workflow and words" && $(BIN)/yamllint -s .github .pre-commit-config.yaml $(wildcard config) \
	  && $(BIN)/check-jsonschema -q --builtin-schema vendor.github-workflows .github/workflows/*.yml \
	  && $(BIN)/hadolint Dockerfile \
	  && $(BIN)/codespell $(WORDS)

format: setup
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

# The documentation as a site in site/, served by any web server: python -m http.server -d site
docs: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The ordinary ROS way on top of the same environment: build both packages with colcon and run their tests.
ws: setup
	@cd ros2_ws && . $(BIN)/activate && python -m colcon build --event-handlers console_cohesion+ \
	  && python -m colcon test --pytest-args -m "not slow and not gpu" && python -m colcon test-result --verbose

clean:
	rm -rf $(VENV) site ros2_ws/build ros2_ws/install ros2_ws/log build *.egg-info
