# The commands of this book. `make` alone lists them.
PYTHON ?= python3
VENV := $(if $(filter Windows_NT,$(OS)),.venv/Scripts/python.exe,.venv/bin/python)
FOLDERS = $(if $(MASTERS),--masters '$(MASTERS)') $(if $(OUT),--out '$(OUT)')
# On Windows, where Python's default is another encoding.
export PYTHONUTF8 := 1

help:            ## list the commands
	@grep -E '^[a-z-]+: *.*##' Makefile | sed -E 's/:[^#]*##/:\t/' | expand -t 16

environment:     ## set up .venv with the pins, if need be
	@"$(PYTHON)" tools/environment.py $(if $(filter file,$(origin PYTHON)),--keep-python)

pins: environment      ## compile requirements.txt from requirements.in: [UPGRADE="package ..."]
	@$(VENV) -m tools pins $(UPGRADE)

book: environment      ## execute what is stale, build the site in _build/html
	@$(VENV) -m tools book

test: environment      ## everything that must hold: [STAGE="nbval site"] for some stages only
	@$(VENV) -m tools test $(STAGE)

record:          ## execute chapters on a runner: RUNNER=cpu|simulated|simulated-mps|gpu [CHAPTERS=...]
ifneq ($(RUNNER),gpu)
	@$(MAKE) --no-print-directory environment
	@$(VENV) -m tools record $(RUNNER) $(if $(CHAPTERS),--chapters $(CHAPTERS))
else
	@"$(PYTHON)" -m tools record gpu $(if $(CHAPTERS),--chapters $(CHAPTERS))
endif

gpu-test:        ## execute the chapters on this machine's GPUs, with the torch of PYTHON
	"$(PYTHON)" -m tools compare

fidelity:        ## ask this machine's GPUs what cudasim/fidelity compares with cudasim
	"$(PYTHON)" cudasim/fidelity record

calibrate:       ## measure this machine's GPU for modelled times, and check them: [FORCE=1]
	PYTHONPATH=cudasim/src "$(PYTHON)" -m cudasim.calibrate $(if $(FORCE),--force)

serve: book            ## show the site on http://127.0.0.1:8000
	@$(VENV) -m http.server --bind 127.0.0.1 --directory _build/html 8000

bench: environment     ## measure what the status page reports: [GROUP="builds grading"] for some
	@$(VENV) -m tools bench $(GROUP)

survey: environment    ## survey cudasim against PyTorch's own databases
	@$(VENV) -m tools survey

conformance: environment ## run PyTorch's own CUDA tests on cudasim: PYTORCH_SOURCE=folder [RESUME=1] [LIMIT=seconds]
	@$(VENV) -m tools conformance '$(PYTORCH_SOURCE)' $(if $(RESUME),--resume) $(if $(LIMIT),--limit $(LIMIT))

support: environment   ## gather RECORDS=folder of CUDASIM_SUPPORT=file for the page on testing
	@$(VENV) -m tools support '$(RECORDS)'

timings: environment   ## compare modelled times with published ones, for the page on cudasim
	@$(VENV) -m tools timings

colab:           ## survey cudasim on the torch that Colab ships, a CUDA build: 5 GB, by hand
	python3.13 -m venv _build/.colab
	_build/.colab/bin/pip install --quiet torch==2.11.0 numpy
	PYTHONPATH=cudasim/src _build/.colab/bin/python -m cudasim.survey

cold:            ## chapters and simulator on PYTHON as it is: no .venv, outputs thrown away
	"$(PYTHON)" -m jupyter execute --kernel_name=python3 notebooks/*.ipynb
	JUPYTER_PATH='$(CURDIR)' "$(PYTHON)" -m jupyter execute --kernel_name=simulated notebooks/*.ipynb
	"$(PYTHON)" -m pytest cudasim/tests

release: environment   ## write the editions of the exercises: [CLASS=key] [MASTERS=folder] [OUT=folder]
	@$(VENV) -m tools release $(FOLDERS)

handout: environment   ## print links to the student edition: REPOSITORY=owner/name [BRANCH=...] [HUB=...] [CLASS=key]
	@$(VENV) -m tools handout --repository '$(REPOSITORY)' $(if $(BRANCH),--branch '$(BRANCH)') \
		$(if $(HUB),--hub '$(HUB)') $(if $(OUT),--out '$(OUT)')

example: environment   ## invent a class of five to try grading on: CHAPTER=name [CLASS=key]
	@$(VENV) -m tools example '$(CHAPTER)' $(if $(MASTERS),--masters '$(MASTERS)')

grade: environment     ## grade SUBMISSIONS=folder|zip CLASS=key: [WORKERS=n | DASK=address] [OUT=folder]
	@$(VENV) -m tools grade '$(SUBMISSIONS)' $(FOLDERS) $(if $(WORKERS),--workers $(WORKERS)) \
		$(if $(DASK),--dask '$(DASK)') $(if $(SOURCE),--source $(SOURCE))

fill: environment      ## fill grades into EXPORT=canvas.csv from GRADES=folder: [COLUMN=...] [SCALE=1]
	@$(VENV) -m tools fill '$(EXPORT)' --grades '$(GRADES)' $(if $(COLUMN),--column '$(COLUMN)') \
		$(if $(SCALE),--scale)

gradescope: environment ## build an autograder for Gradescope: CHAPTER=name CLASS=key [MASTERS=folder]
	@$(VENV) -m tools gradescope '$(CHAPTER)' $(if $(MASTERS),--masters '$(MASTERS)')

slides: environment    ## draw lecture slides of every chapter, in _build/slides
	@$(VENV) -m tools slides

chapter: environment   ## make a new chapter from a template: NAME=streams-and-events
	@$(VENV) -m tools chapter $(NAME)

lab: environment       ## open the chapters in JupyterLab, with the runners at hand
	@$(VENV) -m tools lab

rules: environment     ## name every place where a chapter breaks a rule
	@$(VENV) -m tools rules

figures: environment   ## draw the figures that the chapters carry afresh from img/
	@$(VENV) -m tools figures

fonts: environment     ## cut the site's fonts afresh from npm packages, in book/static/fonts
	@$(VENV) -m tools fonts

reveal: environment    ## bring reveal.js afresh from its npm package, in book/slides/reveal
	@$(VENV) -m tools reveal

links: environment     ## write links and set-up cells: [REPOSITORY=owner/name] [BRANCH=...] [HUB=...]
	@$(VENV) -m tools links $(if $(REPOSITORY),--repository '$(REPOSITORY)') \
		$(if $(BRANCH),--branch '$(BRANCH)') $(if $(HUB),--hub '$(HUB)')

cleanroom: environment ## run the chapters as readers' services would: environments made for it
	$(VENV) -m pytest -n 2 --dist loadgroup tests/cleanroom

colab-room:      ## the same in Colab's Python with its CUDA build of PyTorch: 8 GB, by hand
	CLEANROOM_TORCH=cuda $(VENV) -m pytest -rA tests/cleanroom -k colab

clear: environment     ## take outputs out of the chapters
	@$(VENV) -m tools clear

clean:           ## remove what was built and installed; outputs stay
	rm -rf _build .venv .venv.*

.PHONY: reveal slides release handout example grade fill gradescope slides help environment pins chapter lab rules book test record gpu-test fidelity calibrate serve bench survey conformance support timings colab cold figures fonts links cleanroom colab-room clear clean
