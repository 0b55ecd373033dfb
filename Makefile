# Every target is one `python -m …` line, which does the same where there is no make; README.md lists them.
PYTHON ?= python3
SUBMISSIONS ?= examples/class
SECONDS ?= 600

# What a user gives is taken as it stands: not expanded by make (`value`), and handed to the shell as a variable, so that
# a folder may be called `a'b` or `$(touch x)`. ARGS alone is a piece of a command line, with the shell's quoting.
override SUBMISSIONS := $(value SUBMISSIONS)
override LESSON := $(value LESSON)
override FILE := $(value FILE)
export SUBMISSIONS LESSON FILE

RUN = $(PYTHON) -m environment

.PHONY: help grade check lab test fuzz lint build build-check reset record verify lock

help:
	@$(RUN) --targets

grade: ## grade a class, one folder a learner: SUBMISSIONS=examples/class ARGS="--json results.json"
	@$(RUN) graders grade "$$SUBMISSIONS" $(ARGS)

check: ## check your own work on one lesson: LESSON=recovery-01, FILE=mine.ipynb for a file elsewhere
	@$(RUN) graders check $(if $(LESSON),"$$LESSON") $(if $(FILE),"$$FILE") $(ARGS)

lab: ## open JupyterLab in exercises/; ARGS=--no-browser where there is no browser
	@$(RUN) jupyterlab --ServerApp.root_dir=. --ServerApp.preferred_dir=exercises --LabApp.news_url=None --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate $(ARGS)

reset: ## bring back the original exercise of a lesson, after a backup of yours: LESSON=recovery-01
	@$(RUN) publish reset $(if $(LESSON),"$$LESSON") $(ARGS)

record: ## run a lesson's reference and write its receipt: LESSON=recovery-01 or ARGS=--all
	@$(RUN) graders record $(if $(LESSON),"$$LESSON") $(ARGS)

verify: ## run lessons again and compare with their receipts: LESSON=recovery-01, or all of them
	@$(RUN) graders verify $(if $(LESSON),"$$LESSON") $(ARGS)

build: ## write the generated files: notebooks, exercises, schemas, study guides
	@$(RUN) publish build $(ARGS)

build-check: ## fail where a generated file is not what `make build` would write
	@$(RUN) publish build --check $(ARGS)

test: ## run the tests: ARGS="-k comparison -x"
	@$(PYTHON) -m environment --dev pytest $(ARGS)

fuzz: ## run the property tests with many more examples, in rounds: SECONDS=600
	@$(PYTHON) -m environment --dev tests.fuzz $(SECONDS) $(ARGS)

lint: ## ruff, its formatter and mypy
	@$(RUN) --lint

lock: ## renew requirements-cpu.txt and requirements-dev.txt from pyproject.toml: ARGS=--upgrade
	@$(RUN) --lock $(ARGS)
