# Every target does its own set-up: `make quickstart` and `make test` work on a fresh machine.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= out
RUNS ?= runs
RESULTS ?= results

.PHONY: install-all quickstart test test-slow test-ray test-browser fuzz torture cheats trust-short lint docs bench table sweep \
	planning planning-baselines clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "howm needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

# With all extras, one after the other: two pips in one environment would get in each other's way.
install-all:
	$(MAKE) $(VENV)/.installed
	$(MAKE) $(VENV)/.docs
	$(MAKE) $(VENV)/.ray
	$(MAKE) $(VENV)/.browser

quickstart: $(VENV)/.installed
	mkdir -p $(OUT)
	$(BIN)/howm library show --world shapes -n 30 -o $(OUT)/library.png
	$(BIN)/howm data make --world shapes -n 10 -k 5 --force -o $(OUT)/shapes-n10.h5
	$(BIN)/howm data check $(OUT)/shapes-n10.h5
	$(BIN)/howm data show $(OUT)/shapes-n10.h5 --part eval -o $(OUT)/episode.png
	$(BIN)/howm train --method howm --data $(OUT)/shapes-n10.h5 --out $(OUT)/howm --resume
	$(BIN)/howm eval $(OUT)/howm
	$(BIN)/howm show $(OUT)/howm -o $(OUT)
	$(BIN)/howm plan $(OUT)/howm --goals 4 --open-loop --set budget=3000 --no-references -o $(OUT)/plan.png

test: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not ray and not browser"

test-slow: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m slow

$(VENV)/.ray: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[ray]'
	touch $@

test-ray: $(VENV)/.ray
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m ray

# Debian's Chromium and the driver without a browser of its own.
$(VENV)/.browser: $(VENV)/.installed
	command -v chromium >/dev/null || (apt-get update -q && apt-get install -y --no-install-recommends chromium)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[browser]'
	touch $@

test-browser: $(VENV)/.browser
	OMP_NUM_THREADS=1 SCREENSHOTS=$(OUT)/screenshots $(BIN)/python -m pytest -m browser

# Damaged files, over all readers and through the command line as another user; minutes.
fuzz: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/run.py --cases 10000 --commands 200 --json $(RESULTS)/trust/fuzz.json

# Random kills over all commands that write; what is resumed must equal what was never disturbed.
torture: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python tests/torture/run.py --kills 200 --json $(RESULTS)/trust/torture.json

# Models that try to score without knowing the dynamics; none may gain by it.
cheats: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python tests/evaluation/run_cheats.py --json $(RESULTS)/trust/cheats.json

# Damaged files and kills again, in a minute or two, for every change.
trust-short: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/run.py --cases 900 --commands 10 > /dev/null
	OMP_NUM_THREADS=1 $(BIN)/python tests/torture/run.py --kills 10 > /dev/null

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -E -W --keep-going -q -b html docs docs/_build/html
	@echo docs/_build/html/index.html

bench: $(VENV)/.installed
	for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# All that results/ holds, hours of it; what is there already is skipped.
sweep: $(VENV)/.installed
	$(BIN)/howm sweep --methods howm -n 5 10 20 30 --steps 1 5 10 50 100 --queries 2000 \
		--out $(RUNS)/howm --results $(RESULTS)
	$(BIN)/howm sweep --paper --out $(RUNS)/paper --results $(RESULTS)
	$(BIN)/howm sweep --methods howm --worlds shapes -n 100 300 1000 --queries 500 \
		--set represent.steps=3000 train.steps=3000 --out $(RUNS)/hundreds --results $(RESULTS)
	$(BIN)/howm sweep experiments/large.yaml --out $(RUNS)/large --results $(RESULTS)
	$(BIN)/howm sweep experiments/large.yaml --methods howm --seeds 1 2 --out $(RUNS)/large-seeds --results $(RESULTS)
	$(BIN)/howm sweep experiments/larger-grid.yaml --out $(RUNS)/larger-grid --results $(RESULTS)
	$(BIN)/howm sweep experiments/larger-grid.yaml --methods howm-long --seeds 1 2 --out $(RUNS)/larger-grid-seeds \
		--results $(RESULTS)
	$(BIN)/howm sweep --methods howm --worlds shapes -n 100 -k 20 --world-set grid=10x10 --queries 1000 \
		--set represent.steps=2500 train.steps=4000 --out $(RUNS)/10x10 --results $(RESULTS)
	$(BIN)/howm sweep experiments/without-grid.yaml --methods howm --out $(RUNS)/without-grid --results $(RESULTS)
	$(BIN)/howm sweep --methods cswm-n cswm-k cswm-k-ca cwm-n howm --envs shapes -n 10 --train-scenes 10 --seeds 0 \
		--out $(RUNS)/few-scenes --results $(RESULTS)/few-scenes
	$(BIN)/howm sweep benchmarks/ablation.yaml --out $(RUNS)/ablation --results $(RESULTS)/ablation
	$(BIN)/howm sweep benchmarks/negatives.yaml --out $(RUNS)/negatives --results $(RESULTS)/negatives
	for part in ladder ladder-grid ladder-free ladder-slow; do \
		$(BIN)/howm sweep experiments/$$part.yaml --out $(RUNS)/$$part --results $(RESULTS)/ladder || exit 1; done
	for part in splits splits-slow; do \
		$(BIN)/howm sweep experiments/$$part.yaml --out $(RUNS)/$$part --results $(RESULTS)/splits || exit 1; done
	$(BIN)/python benchmarks/transfer.py --work $(RUNS) --results $(RESULTS)/transfer

# Goals reached by planning with the models of the package; minutes.
planning: $(VENV)/.installed
	$(BIN)/howm plan howm-rush_hour-n20 --goals 500 --seed 7 --results $(RESULTS)
	for model in howm-push-n10 howm-free-n10; do \
		$(BIN)/howm plan $$model --goals 500 --seed 7 --no-references --results $(RESULTS) || exit 1; done
	$(BIN)/howm plan howm-shapes-n10 --cost embedding --goals 40 --seed 7 --no-references --results $(RESULTS)
	$(BIN)/howm plan howm-shapes-n10 --planner cem --goals 40 --seed 7 --no-references --results $(RESULTS)

# The same of three seeds of howm and of the baselines, which are trained first; hours.
planning-baselines: $(VENV)/.installed
	$(BIN)/howm sweep --methods howm -n 10 30 --seeds 0 1 2 --out $(RUNS)/planning
	for run in $(RUNS)/planning/runs/*/*/; do \
		$(BIN)/howm plan $$run --goals 500 --seed 7 --results $(RESULTS) || exit 1; done
	$(BIN)/howm sweep --methods cswm-n cswm-k -n 10 30 --seeds 0 --out $(RUNS)/planning-baselines
	for run in $(RUNS)/planning-baselines/runs/*/*/; do \
		$(BIN)/howm plan $$run --goals 100 --seed 7 --no-references --results $(RESULTS) || exit 1; done
	$(BIN)/howm sweep --methods cwm-n -n 10 30 --seeds 0 --out $(RUNS)/planning-flat
	$(BIN)/howm sweep --methods monet-bm -n 10 --seeds 0 --out $(RUNS)/planning-monet
	for run in $(RUNS)/planning-flat/runs/*/*/ $(RUNS)/planning-monet/runs/*/*/; do \
		$(BIN)/howm plan $$run --goals 20 --seed 7 --no-references --results $(RESULTS) || exit 1; done

table: $(VENV)/.installed
	$(BIN)/python benchmarks/table.py --write

clean:
	rm -rf $(VENV) $(OUT) build docs/_build *.egg-info
