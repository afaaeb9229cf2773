# The ten commands of this book. `python -m tools --help`, in .venv, lists the smaller ones.
PYTHON ?= python3
export PYTHONUTF8 := 1

# What is written after a command reaches it by its environment, as it was typed: no shell and no
# second reading by make sees its spaces, apostrophes and dollars. A misspelt name is refused.
KNOWN := ASSIGNMENT CHAPTER CHAPTERS CLASS DASK FULL MASTERS OUT PORT PYTHON RUNNER SOURCE STAGE SUBMISSIONS WORKERS
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
$(foreach name,$(filter-out $(KNOWN) MAKE% CURDIR,$(GIVEN)),$(error Makefile: '$(name)=' means nothing here; known are $(KNOWN)))
$(foreach name,$(filter $(KNOWN),$(GIVEN)),$(eval override $(name) := $$(value $(name)))$(eval export $(name)))
export PYTHON

VENV := $(if $(filter Windows_NT,$(OS)),.venv/Scripts/python.exe,.venv/bin/python)
SET_UP = @"$$PYTHON" tools/environment.py

help:       ## list the commands
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:[^#]*##/:\t/' | expand -t 12

book:       ## execute what is stale, build the site in _build/html
	$(SET_UP)
	@$(VENV) -m tools book

test:       ## everything that must hold: [FULL=1] for what is slow, too [STAGE="nbval site"]
	$(SET_UP)
	@$(VENV) -m tools test

serve: book ## show the site on http://127.0.0.1:8000 [PORT=...]
	@$(VENV) -m tools serve

record:     ## execute chapters: RUNNER=cpu|simulated|gpu|jax|... [CHAPTER=name]
ifeq ($(RUNNER),gpu)
	@"$$PYTHON" -m tools record
else
	$(SET_UP)
	@$(VENV) -m tools record
endif

languages:  ## bring the translations in step with the English, say what is left to do
	$(SET_UP)
	@$(VENV) -m tools languages

lab:        ## open the chapters in JupyterLab, with the runners at hand
	$(SET_UP)
	@$(VENV) -m tools lab

release:    ## write the editions of the exercises: [CLASS=key] [CHAPTER=name | ASSIGNMENT=file] [MASTERS=folder] [OUT=folder] [WORKERS=n]
	$(SET_UP)
	@$(VENV) -m tools release

grade:      ## grade SUBMISSIONS=folder|zip CLASS=key [ASSIGNMENT=file] [MASTERS=folder] [OUT=folder] [SOURCE=system] [WORKERS=n | DASK=address]
	$(SET_UP)
	@$(VENV) -m tools grade

bench:      ## measure what the simulation costs beside an empty dispatch mode: a minute
	$(SET_UP)
	@$(VENV) cudasim/facts bench

.PHONY: help book test serve record languages lab release grade bench
