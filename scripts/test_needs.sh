#!/bin/sh
# test_needs.sh [--all]: install what tests need, several things at a time: .venv, Debian packages, npm packages, SDKs.
# Quick when everything is there. --all: on a fresh clone also compile the tests, because each worker would do so itself,
# and begin with the image of the container engine.
set -eu
cd "$(dirname "$0")/.."

scripts/system-packages.sh &
packages=$!
scripts/setup.sh dev || {
    wait "$packages" || :
    exit 1
}
scripts/npm_oracles.sh &
npm=$!
scripts/sdk_oracles.sh &
sdks=$!
status=0
wait "$packages" || status=$?
# Its image takes minutes, once on each machine. Only the tests that need it wait for it.
if [ "${1:-}" = --all ]; then
    .venv/bin/python -m tests.container_engine </dev/null >/dev/null 2>&1 &
fi
# The directory of the tests that are collected last. A test file that cannot be imported is reported by the run itself.
if [ "${1:-}" = --all ] && [ ! -e tests/tools/__pycache__ ]; then
    .venv/bin/python -m pytest --collect-only -qq >/dev/null 2>&1 || :
fi
for task in "$npm" "$sdks"; do
    wait "$task" || status=$?
done
exit "$status"
