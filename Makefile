# Every target does its own set-up: `make quickstart` and `make test` work on a fresh machine.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= out
QUICK ?= represent.steps=800 train.steps=4000

.PHONY: quickstart test test-slow test-browser lint bench table clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "howm needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

quickstart: $(VENV)/.installed
	mkdir -p $(OUT)
	$(BIN)/howm library show --env shapes -n 30 -o $(OUT)/library.png
	$(BIN)/howm data make --env shapes -n 10 -k 5 --force -o $(OUT)/shapes-n10.h5
	$(BIN)/howm data check $(OUT)/shapes-n10.h5
	$(BIN)/howm data show $(OUT)/shapes-n10.h5 --part eval -o $(OUT)/episode.png
	$(BIN)/howm train --method howm --data $(OUT)/shapes-n10.h5 --out $(OUT)/howm --resume --set $(QUICK)
	$(BIN)/howm eval $(OUT)/howm
	$(BIN)/howm show $(OUT)/howm -o $(OUT)

test: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow and not browser"

test-slow: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m slow

# Debian's Chromium and the driver without a browser of its own.
test-browser: $(VENV)/.installed
	command -v chromium >/dev/null || apt-get install -y --no-install-recommends chromium
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[browser]'
	OMP_NUM_THREADS=1 SCREENSHOTS=$(OUT)/screenshots $(BIN)/python -m pytest -m browser

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed
	for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

table: $(VENV)/.installed
	$(BIN)/python benchmarks/table.py --write

clean:
	rm -rf $(VENV) $(OUT) build *.egg-info
