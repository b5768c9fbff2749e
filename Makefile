# `make test` is all there is to know. Everything is made inside .venv; as root, what the tests
# need from the distribution is installed too, and without root the tiers say what they lack.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PACKAGES := openssh-client openssh-server mmdebstrap systemd systemd-container btrfs-progs kmod \
  iproute2 gcc libc6-dev shellcheck busybox mksh qemu-system-x86 qemu-utils ovmf fdisk \
  dosfstools e2fsprogs grub-common gpg gpg-agent curl wget btrbk
# Of shards alone: 170 MB.
test-all shard shards: PACKAGES += chromium

.PHONY: test test-all shard shards demo bench format docs docs-pages page-picture first-hour-page system clean
.DELETE_ON_ERROR:

test: $(VENV)/ready system
	$(RUN) -m tests.tiers

test-all: $(VENV)/docs-ready system
	$(RUN) -m tests.tiers --all

# make shard NAME=properties
shard: $(VENV)/docs-ready system
	$(RUN) -m tests.tiers --shard $(NAME)

# make shards MINUTES=20: those whose files changed, the shortest first (UNTIL: at the latest)
shards: $(VENV)/docs-ready system
	$(RUN) -m tests.tiers --minutes $(MINUTES) $(if $(UNTIL),--until $(UNTIL))

demo: $(VENV)/ready system
	$(RUN) -m tests.demo

# With bytecode, as every start of an installed rigops but the first has it.
bench: $(VENV)/ready
	$(RUN) -m compileall -q src
	$(RUN) -m benchmarks.startup
	$(RUN) -m benchmarks.doctor
	$(RUN) -m benchmarks.apply
	$(RUN) -m benchmarks.snapshots
	$(RUN) -m benchmarks.watch

format: $(VENV)/ready
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

# A site to look at: .site/index.html
docs: $(VENV)/docs-ready
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --quiet --strict

# Those that are made from the code and the catalog.
docs-pages: $(VENV)/ready
	$(RUN) -m docgen

page-picture: $(VENV)/ready
	$(RUN) -m tests.pages.picture

first-hour-page: $(VENV)/ready
	$(VENV)/bin/python -m tests.first_hour >docs/first-hour.new && mv docs/first-hour.new docs/first-hour.md

# Debian's python3 comes without ensurepip, so the pip outside furnishes the one inside.
$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --python $(VENV)/bin/python install --quiet --upgrade pip
	$(RUN) -m pip install --quiet --editable . --group dev
	touch $@

$(VENV)/docs-ready: $(VENV)/ready
	$(RUN) -m pip install --quiet --group docs
	touch $@

# The tests start an sshd of their own; the one that the package brings must not open a port.
# Of btrbk they run one function; its timer would look for a configuration every day.
system:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  missing=$$(for p in $(PACKAGES); do \
	    dpkg-query -W -f '$${db:Status-Status}' $$p 2>/dev/null | grep -qx installed || echo $$p; \
	  done); \
	  if [ -n "$$missing" ]; then \
	    echo "installing" $$missing; \
	    case "$$missing" in *openssh-server*) \
	      mkdir -p /etc/systemd/system; \
	      for u in ssh.service ssh.socket; do ln -sfn /dev/null /etc/systemd/system/$$u; done;; \
	    esac; \
	    case "$$missing" in *btrbk*) \
	      mkdir -p /etc/systemd/system; \
	      for u in btrbk.service btrbk.timer; do ln -sfn /dev/null /etc/systemd/system/$$u; done;; \
	    esac; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	      apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	  fi; \
	fi

clean:
	rm -rf $(VENV) .site dist build .mypy_cache .ruff_cache .hypothesis .pytest_cache .import_linter_cache
