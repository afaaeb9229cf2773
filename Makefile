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
	$(VENV) -m ruff format --check book kernels tests
	$(VENV) -m pytest tests
	OMP_NUM_THREADS=1 $(NBVAL) --nbval-kernel-name cpu outputs/cpu
	OMP_NUM_THREADS=2 $(NBVAL) --nbval-kernel-name cpu outputs/cpu
	ATEN_CPU_CAPABILITY=default $(NBVAL) --nbval-kernel-name cpu outputs/cpu

record: environment    ## execute every chapter on a runner: make record RUNNER=cpu [CHAPTERS=...]
	@$(VENV) -m book.tools record $(RUNNER) $(CHAPTERS)

serve: book            ## show the site on http://127.0.0.1:8000
	@$(VENV) -m http.server --bind 127.0.0.1 --directory _build/html 8000

bench: environment     ## measure what the status page reports
	@$(VENV) -m book.tools bench

figures: environment   ## draw the figures that the chapters carry afresh from img/
	@$(VENV) -m book.tools figures

clear: environment     ## take outputs out of the chapters
	@$(VENV) -m book.tools clear

clean:           ## remove what was built and installed; outputs stay
	rm -rf _build .venv

.PHONY: help environment book test record serve bench figures clear clean
