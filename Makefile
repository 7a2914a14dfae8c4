# Two commands matter: `make demo` and `make test`. Both set up what they need and can be repeated.
PYTHON ?= python3
VENV ?= .venv
# A CPU build of torch is enough for everything here; set TORCH= to what fits your GPU.
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin

.PHONY: demo test lint docs setup clean

demo: setup ## Evolve a skill and the weights of a real model on real web pages, then print the 2×2 table
	$(BIN)/coevo run webarena/miniwob.toml
	$(BIN)/coevo report --grid

test: setup ## All tests, with a real browser and the built-in model
	$(BIN)/python -m pytest

lint: $(VENV)/.ready ## Format, lint and types, as CI checks them
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/.ready ## Write the generated pages: docs/schema.md, docs/cli.md, docs/experiment.md
	$(BIN)/python -c "from coevo.store import schema_markdown as page; print(page(), end='')" > docs/schema.md
	$(BIN)/python -m coevo.cli.reference > docs/cli.md
	$(BIN)/python -m coevo.config > docs/experiment.md

setup: $(VENV)/.ready
	@$(BIN)/python -m webarena.install
	@$(BIN)/python -m webarena.sites.install || echo "(tests and tasks of the wikipedia site are left out)"
	@$(BIN)/python -m coevo.engine.models

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
