# The commands of this book. `make` alone lists them.
PYTHON ?= python3
VENV := $(if $(filter Windows_NT,$(OS)),.venv/Scripts/python.exe,.venv/bin/python)
# On Windows, where Python's default is another encoding.
export PYTHONUTF8 := 1
NBVAL := JUPYTER_PATH=$(CURDIR) $(VENV) -m pytest -n 2 --dist loadfile --nbval \
	--nbval-sanitize-with tests/sanitize.cfg

help:            ## list the commands
	@grep -E '^[a-z-]+: *.*##' Makefile | sed -E 's/:[^#]*##/:\t/' | expand -t 16

environment:     ## set up .venv with the pins, if need be
	@$(PYTHON) tools/environment.py

book: environment      ## execute what is stale, build the site in _build/html
	@$(VENV) -m tools book

test: environment      ## everything that must hold
	$(VENV) -m ruff check .
	$(VENV) -m ruff format --check tools cudasim kernels tests setup.py
	$(VENV) -m pytest tests --ignore tests/simulator --ignore tests/cleanroom
	$(VENV) -m pytest -n 2 tests/simulator
	OMP_NUM_THREADS=1 $(NBVAL) --nbval-kernel-name cpu outputs/cpu
	OMP_NUM_THREADS=2 $(NBVAL) --nbval-kernel-name cpu outputs/cpu
	ATEN_CPU_CAPABILITY=default $(NBVAL) --nbval-kernel-name cpu outputs/cpu
	OMP_NUM_THREADS=1 $(NBVAL) --nbval-kernel-name simulated outputs/simulated
	OMP_NUM_THREADS=2 $(NBVAL) --nbval-kernel-name simulated outputs/simulated
	$(NBVAL) --nbval-kernel-name simulated-mps outputs/simulated-mps
	$(VENV) -m tools compare --if-any

record:          ## execute chapters on a runner: RUNNER=cpu|simulated|simulated-mps|gpu [CHAPTERS=...]
ifneq ($(RUNNER),gpu)
	@$(PYTHON) tools/environment.py
	@$(VENV) -m tools record $(RUNNER) $(CHAPTERS)
else
	@$(PYTHON) -m tools record gpu $(CHAPTERS)
endif

gpu-test:        ## execute the chapters on this machine's GPUs, with the torch of PYTHON
	$(PYTHON) -m tools compare

fidelity:        ## ask this machine's GPUs what tests/fidelity compares with cudasim
	$(PYTHON) tests/fidelity record

serve: book            ## show the site on http://127.0.0.1:8000
	@$(VENV) -m http.server --bind 127.0.0.1 --directory _build/html 8000

bench: environment     ## measure what the status page reports
	@$(VENV) -m tools bench

survey: environment    ## survey cudasim against PyTorch's own databases
	@$(VENV) -m tools survey

colab:           ## survey cudasim on the torch that Colab ships, a CUDA build: 5 GB, by hand
	python3.13 -m venv _build/colab
	_build/colab/bin/pip install --quiet torch==2.11.0 numpy
	_build/colab/bin/python -m cudasim.survey

# Without tests/conftest.py, which needs the pins.
cold:            ## chapters and simulator on PYTHON as it is: no .venv, outputs thrown away
	$(PYTHON) -m jupyter execute --kernel_name=python3 notebooks/*.ipynb
	JUPYTER_PATH=$(CURDIR) $(PYTHON) -m jupyter execute --kernel_name=simulated notebooks/*.ipynb
	$(PYTHON) -m pytest --confcutdir tests/simulator tests/simulator

figures: environment   ## draw the figures that the chapters carry afresh from img/
	@$(VENV) -m tools figures

fonts: environment     ## cut the site's fonts afresh from npm packages, in book/static/fonts
	@$(VENV) -m tools fonts

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
	rm -rf _build .venv

.PHONY: help environment book test record gpu-test fidelity serve bench survey colab cold figures fonts links cleanroom colab-room clear clean
