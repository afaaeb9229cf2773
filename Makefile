# The commands of this book. `make` alone lists them.
PYTHON ?= python3
VENV := .venv/bin/python
NBVAL := JUPYTER_PATH=$(CURDIR) $(VENV) -m pytest -n 2 --dist loadfile --nbval \
	--nbval-sanitize-with tests/sanitize.cfg

help:            ## list the commands
	@grep -E '^[a-z]+: .*##|^[a-z]+: *##' Makefile | sed -E 's/:[^#]*##/:\t/' | expand -t 16

environment:     ## set up .venv with the pins, if need be
	@$(PYTHON) book/tools/environment.py

book: environment      ## execute what is stale, build the site in _build/html
	@$(VENV) -m book.tools book

test: environment      ## everything that must hold
	$(VENV) -m ruff check .
	$(VENV) -m ruff format --check book cudasim kernels tests setup.py
	$(VENV) -m pytest tests --ignore tests/simulator
	$(VENV) -m pytest -n 2 tests/simulator
	OMP_NUM_THREADS=1 $(NBVAL) --nbval-kernel-name cpu outputs/cpu
	OMP_NUM_THREADS=2 $(NBVAL) --nbval-kernel-name cpu outputs/cpu
	ATEN_CPU_CAPABILITY=default $(NBVAL) --nbval-kernel-name cpu outputs/cpu

record: environment    ## execute every chapter on a runner: make record RUNNER=cpu [CHAPTERS=...]
	@$(VENV) -m book.tools record $(RUNNER) $(CHAPTERS)

serve: book            ## show the site on http://127.0.0.1:8000
	@$(VENV) -m http.server --bind 127.0.0.1 --directory _build/html 8000

bench: environment     ## measure what the status page reports
	@$(VENV) -m book.tools bench

survey: environment    ## survey cudasim against PyTorch's own databases
	@$(VENV) -m book.tools survey

colab:           ## survey cudasim on the torch that Colab ships, a CUDA build: 5 GB, by hand
	python3.13 -m venv _build/colab
	_build/colab/bin/pip install --quiet torch==2.11.0 numpy
	_build/colab/bin/python -m cudasim.survey

figures: environment   ## draw the figures that the chapters carry afresh from img/
	@$(VENV) -m book.tools figures

clear: environment     ## take outputs out of the chapters
	@$(VENV) -m book.tools clear

clean:           ## remove what was built and installed; outputs stay
	rm -rf _build .venv

.PHONY: help environment book test record serve bench survey colab figures clear clean
