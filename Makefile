# Shorthands; each target is one command that can be typed as well.
.PHONY: build adapters docker test smoke

build:
	cargo build --release

# The scripts are the adapters: this checks that each can be read by a shell.
adapters:
	for script in adapters/*.sh adapters/*/*.sh; do sh -n "$$script" || exit 1; done

docker: build adapters
	cargo run --release -- image build claude-code
	cargo run --release -- image build aider

test:
	scripts/test

# The null agent does nothing, so its trial runs to its end and fails: exit code 1.
smoke: build
	cargo run --release -- run examples/bench/proctor.yaml --agent null --task bench-time-tracker --trials 1; test $$? -eq 1
