# Shortcuts, and the runs that take longer than CI waits. docs/long-runs.md has the figures and dates of the last ones.
PYTHON ?= .venv/bin/python
ENGINES ?= .engines# environments with the parsers of other engines, some 4 GB
JOBS ?= 2
STEPS ?= versions abilities speed
INPUTS ?= 1000000
PLACES ?= 20
SEED ?= $(shell date +%Y%m%d)

.PHONY: check test slow ci pages pictures site mutants long fuzz sweep soak load beside lock build times parsers bench planner history facts

check: ## what has to be run for what changed: by git, or CHANGED="paths"; SLOW=1 for the slow tests, too
	$(PYTHON) -m tools.check_changed $(if $(SLOW),--slow) $(CHANGED)

test: ## the default suite
	$(PYTHON) -m pytest

slow: ## real engines, the built wheel, long property runs (pip install -e '.[slow]')
	$(PYTHON) -m pytest -m slow

ci: ## everything in fresh environments
	.ci/run

pages: ## every generated page, picture and schema: docs/reference, docs/engines, docs/pictures, docs/comparison.md, docs/accuracy.md, advisor/schemas
	$(PYTHON) -m tools.pages
	$(PYTHON) -m tools.pages.modules
	$(PYTHON) -m tools.pages.pictures

pictures: ## pictures of every view of the local page, in .pictures/ (phone and desk, light and dark)
	$(PYTHON) tests/web/take_pictures.py .pictures

lock: ## .ci/requirements.lock, the development environment with hashes, for Python 3.11 on (pip install uv)
	uv pip compile pyproject.toml --extra test --extra lint --extra slow --universal --python-version 3.11 --generate-hashes -q \
	  --no-header -o .ci/requirements.lock
	sed -i '1i # The development environment, locked: `make lock` makes it anew (uv pip compile, from pyproject.toml)' \
	  .ci/requirements.lock

mutants: ## which small faults in the code the tests notice: PLACES in each package (pip install cosmic-ray; an hour for 20)
	$(PYTHON) tests/mutants/measure.py $(PLACES) $(SEED)

site: ## the documents as a site, in site/ (mkdocs-material; strict: no link leads nowhere)
	.ci/site site

build: ## wheel and source distribution, built twice and compared, and the bill of materials
	.ci/build dist

load: ## `advise serve` under 32 clients for a minute, compared with `estimate --jsonl`
	$(PYTHON) tests/benchmarks/load.py 1000 $(SEED) 60

beside: ## installed beside ray, jupyter and what vLLM brings: no version changes, no import breaks
	.ci/beside

long: fuzz soak sweep times parsers ## all that CI has no time for

fuzz: ## INPUTS mutated inputs a reader, another seed every day
	$(PYTHON) tests/fuzz/mutate_check.py $(INPUTS) $(SEED)
	for kind in gguf safetensors index config log results trace snapshot lock configuration baseline line hardware; do \
	  folder=$$(mktemp -d) && $(PYTHON) tests/fuzz/mutate_readers.py $$kind $(INPUTS) $(SEED) $$folder || exit 1; \
	done

sweep: ## every model on every accelerator; writes docs/performance.md
	$(PYTHON) tests/benchmarks/sweep.py $(JOBS) --page docs/performance.md

soak: ## ten minutes of questions from 32 threads and an event loop: equal answers, no growth
	$(PYTHON) tests/benchmarks/soak.py 600 $(SEED)

times: ## how long recommend takes, over 1,000 random questions
	$(PYTHON) tests/benchmarks/recommend.py

parsers: ## the parsers of other engines take every command that is rendered, and what they took before --fix
	$(PYTHON) tests/e2e/engine_parsers.py $(ENGINES)
	ADVISOR_ENGINES=$(abspath $(ENGINES)) $(PYTHON) -m pytest -m slow tests/e2e/test_launch_files.py tests/check/test_fixes.py

bench: ## `advise bench` against a real server (pip install 'guidellm>=0.8,<0.9'; torch's CPU build is enough)
	$(PYTHON) -m pytest -m slow tests/e2e/test_bench_server.py

planner: ## the engines' own plans of every catalogue model beside ours (npm, gcc, 5 GB of vLLM; no GPU); writes tests/data/*_catalogue.csv
	$(PYTHON) tests/planner/llama_catalogue.py $(ENGINES)/llama-planner --rows tests/data/llamacpp_catalogue.csv
	$(PYTHON) tests/planner/vllm_catalogue.py $(ENGINES)/vllm-planner --rows tests/data/vllm_catalogue.csv
	$(PYTHON) tests/planner/vllm_forward.py $(ENGINES)/vllm-planner --rows tests/data/vllm_forward.csv

history: ## flags, values and variables of engines' releases, read out of their sources (1 GB into $(ENGINES)/history; npm); writes rules/flag-history
	$(PYTHON) tests/engines/history/write.py --folder $(ENGINES)/history

facts: ## facts made anew from registries and programs, with the difference (STEPS: versions flags history planner abilities speed; docs/facts.md)
	$(PYTHON) tests/facts/refresh.py $(STEPS) --folder $(abspath $(ENGINES))
