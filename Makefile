# Every target is one `python -m …` line, which does the same where there is no make; README.md lists them.
PYTHON ?= python3
SUBMISSIONS ?= examples/class
SECONDS ?= 600

# What a user gives is taken as it stands: not expanded by make (`value`), and handed to the shell as a variable, so that
# a folder may be called `a'b` or `$(touch x)`. ARGS alone is a piece of a command line, with the shell's quoting.
override SUBMISSIONS := $(value SUBMISSIONS)
override LESSON := $(value LESSON)
override PROJECT := $(value PROJECT)
override UNIT := $(or $(PROJECT),$(LESSON))
override FILE := $(value FILE)
export SUBMISSIONS UNIT FILE

RUN = $(PYTHON) -m environment

.PHONY: help grade check lab test endurance fuzz lint build build-check bundle site serve reset record verify lock bench

help:
	@$(RUN) --targets

grade: ## grade a class, one folder a learner: SUBMISSIONS=examples/class ARGS="--json results.json"
	@$(RUN) graders grade "$$SUBMISSIONS" $(ARGS)

check: ## check your own work: LESSON=recovery-01 or PROJECT=recovery-audit; FILE=mine.ipynb for another file
	@$(RUN) graders check $(if $(UNIT),"$$UNIT") $(if $(FILE),"$$FILE") $(ARGS)

lab: ## open JupyterLab in exercises/; ARGS=--no-browser where there is no browser
	@$(RUN) jupyterlab --ServerApp.root_dir=. --ServerApp.preferred_dir=exercises --LabApp.news_url=None --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate $(ARGS)

reset: ## bring an original back, after a backup of yours: LESSON=recovery-01 or PROJECT=recovery-audit
	@$(RUN) publish reset $(if $(UNIT),"$$UNIT") $(ARGS)

record: ## run a reference, write its receipt: LESSON=recovery-01, PROJECT=recovery-audit or ARGS=--all
	@$(RUN) graders record $(if $(UNIT),"$$UNIT") $(ARGS)

verify: ## run references again, compare with their receipts: LESSON=recovery-01, or all of them
	@$(RUN) graders verify $(if $(UNIT),"$$UNIT") $(ARGS)

build: ## write the generated files: notebooks, exercises, schemas, study guides
	@$(RUN) publish build $(ARGS)

build-check: ## fail where a generated file is not what `make build` would write
	@$(RUN) publish build --check $(ARGS)

bundle: ## write a project as a ZIP without its solution: PROJECT=recovery-audit
	@$(RUN) publish bundle $(if $(UNIT),"$$UNIT") $(ARGS)

site: ## write the pages to _site/, to be read without a network: ARGS=--fresh
	@$(PYTHON) -m environment --site publish site $(ARGS)

serve: ## show _site/ to browsers on this machine: ARGS="--port 8000"
	@$(RUN) publish serve $(ARGS)

test: ## run the tests: ARGS="-k comparison -x"
	@$(PYTHON) -m environment --dev pytest $(ARGS)

endurance: ## the tests that repeat a thing a hundred or a thousand times: tens of minutes
	@$(PYTHON) -m environment --dev pytest -m endurance $(ARGS)

fuzz: ## run the property tests with many more examples, in rounds: SECONDS=600
	@$(PYTHON) -m environment --dev tests.fuzz $(SECONDS) $(ARGS)

lint: ## ruff, its formatter and mypy
	@$(RUN) --lint

lock: ## renew the requirements-*.txt from pyproject.toml: ARGS=--upgrade
	@$(RUN) --lock $(ARGS)

bench: ## measure this grader and its peers on the same notebooks: ARGS=--quick, ARGS=--help
	@$(RUN) bench $(ARGS)
