.DEFAULT_GOAL := help
PYTHON ?= .venv/bin/python
MEMORY := DATABASE_URL=sqlite:///:memory:
# The variables that docs/operations.md requires of a deployment.
PRODUCTION := BASE_URL=https://api.example.com AUTH_URL=https://auth.example.com REDIS_URL=redis://localhost:6379/0 \
	WEB_CONCURRENCY=4 DATABASE_URL=postgres://service@localhost/service EMAIL_URL=smtp+tls://user@mail.example.com \
	SECRET_KEY=$$($(PYTHON) -c 'import secrets; print(secrets.token_urlsafe(64))')

.PHONY: help image test bench attack fuzz drill pictures messages check format

help: ## List the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

image: ## Build the container image from Debian packages, without a registry of images; needs root, mmdebstrap, buildah
	config/container/build

test: ## Run all tests that this machine supports, with programs, faults, fuzzing, browsers and client libraries
	$(PYTHON) -m pytest tests

bench: ## Measure CPU time and instructions of each operation, relative to a bare Django view; needs Debian's valgrind
	$(PYTHON) -m tests.bench
	$(PYTHON) -m tests.bench instructions

attack: ## Measure how attacks from one machine slow normal requests, with one unit and two; takes minutes
	$(PYTHON) -m tests.bench attack

fuzz: ## Send 25,000 hostile requests, measure their CPU time and the time of rejections; takes minutes, FUZZ_SEED=… repeats a run
	$(PYTHON) -m pytest -n 0 tests/fuzz -m long -rP

drill: ## Let each machine of docs/high-availability.md fail under load, and run the image, as root; needs Debian's patroni, etcd-server, haproxy, buildah, runc; takes minutes
	$(PYTHON) -m tests.drill
	$(PYTHON) -m pytest tests/faults/test_image.py -m long

pictures: ## Make docs/pictures anew from the quickstart's pages; needs Debian's chromium-headless-shell
	$(PYTHON) -m tests.browser.pictures

messages: ## Bring the catalogues in locale/ up to date, and compile them; needs Debian's gettext
	$(MEMORY) $(PYTHON) manage.py makemessages --all --no-obsolete --no-wrap --no-location --ignore tests --ignore docs
	$(MEMORY) $(PYTHON) manage.py compilemessages --ignore .venv

check: ## Run all checks except the tests
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(MEMORY) $(PYTHON) -m mypy
	$(dir $(PYTHON))lint-imports
	$(MEMORY) $(PYTHON) manage.py makemigrations --check --dry-run
	$(PRODUCTION) $(PYTHON) manage.py check --deploy --fail-level WARNING

format: ## Format the code and apply automatic fixes
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .
