# make demo   trains a network on handwritten digits;  make test   runs the tests.
# Both do all the set-up: they need Python 3.10 or later and a C compiler.
PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin/python
DEMO_ARGS ?=
TEST_ARGS ?=

.PHONY: demo test check clean

demo: $(VENV)/.installed
	$(RUN) examples/mnist.py $(DEMO_ARGS)

test: $(VENV)/.installed-dev
	$(RUN) -m pytest $(TEST_ARGS)

check: $(VENV)/.installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m mypy

$(RUN):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "dawdle needs Python 3.10 or later; set PYTHON=, as in: make demo PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "on Debian and Ubuntu: apt install python3-venv"; exit 1; }

$(VENV)/.installed: pyproject.toml | $(RUN)
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(RUN)
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
