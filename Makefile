# Every target works from a fresh clone: it makes .venv, installs what it needs, and does its work.
# Options: PYTHON=/path/to/python3.12  ARGS="-k paths"  (ARGS goes to pytest, the demo or the benchmark)

PY := .venv/bin/python
ARGS ?=
# Four more than there are processors: tests also wait, for deadlines and for programs that they start.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + 4)
MAKEFLAGS += --no-print-directory
# Where somebody forbids Python to keep what it has compiled, everything takes half as long again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test hostile check bench measure format constraints clean runtime dev peers \
	check-lint check-format check-types check-layers check-architecture

help: ## show this list
	@echo "OpenSkill. Usage: make TARGET"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: runtime ## see what OpenSkill does, in half a minute
	@scripts/system-packages.sh bwrap setpriv
	@$(PY) scripts/demo.py $(ARGS)

test: ## run all tests
	@scripts/test_needs.sh $(if $(ARGS),,--all)
	@$(PY) -m pytest --workers $(WORKERS) $(ARGS)

LONG_TESTS := tests/hostile tests/agent/test_crashes.py tests/artifacts/test_crash.py \
	tests/host/test_openapi_conformance.py tests/session/test_durable_stores.py tests/benchmarks \
	tests/host/console tests/host/test_server.py tests/executors/bubblewrap/test_reuse.py tests/skills_cli/test_log_transform.py \
	tests/adapters/mcp/test_server.py tests/host/test_several_hosts.py tests/executors/ray tests/executors/test_conformance.py tests/executors/test_cgroup.py \
	tests/adapters/mcp/test_conformance.py tests/cli/test_serve.py tests/host/test_history.py

hostile: dev ## run the long forms of the hostile tests (an hour)
	@OPENSKILL_HOSTILE=long scripts/system-packages.sh
	@OPENSKILL_HOSTILE=long $(PY) -m pytest --workers $(WORKERS) --timeout=0 $(LONG_TESTS) $(ARGS)
	@OPENSKILL_HOSTILE=long $(PY) -m pytest --workers $(WORKERS) --timeout=0 -m hypothesis $(ARGS)

check: check-lint check-format check-types check-layers check-architecture ## run every gate: style, types, layers, architecture

check-lint: dev
	@echo "→ ruff check"
	@$(PY) -m ruff check --quiet

check-format: dev
	@echo "→ ruff format --check"
	@$(PY) -m ruff format --check --quiet || { echo "not formatted; run: make format" >&2; $(PY) -m ruff format --check; exit 1; }

check-types: dev
	@echo "→ pyright (strict)"
	@$(PY) -m pyright

check-layers: dev
	@echo "→ import-linter"
	@.venv/bin/lint-imports --no-logo

check-architecture: dev
	@echo "→ architecture tests"
	@$(PY) -m pytest -q tests/architecture

bench: dev peers ## compare our speed with other libraries
	@scripts/system-packages.sh
	@$(PY) benchmarks/everything.py --write $(ARGS)

measure: dev ## report lengths of files and functions (no gate)
	@$(PY) scripts/measure.py

format: dev ## mend formatting and what ruff can mend
	@$(PY) -m ruff check --fix --quiet || true
	@$(PY) -m ruff format

constraints: ## resolve all dependencies anew and write constraints.txt
	@scripts/setup.sh constraints

clean: ## remove everything that make made
	rm -rf .venv .venv.unfinished .bench .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist

runtime:
	@scripts/setup.sh runtime

dev:
	@scripts/setup.sh dev

peers:
	@scripts/setup.sh peers
