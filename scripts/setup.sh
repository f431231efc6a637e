#!/bin/sh
# setup.sh runtime|dev|peers|constraints: find a Python and let setup.py do the work.
# PYTHON=/path/to/python chooses the interpreter.
set -eu
cd "$(dirname "$0")/.."

# The usual case: all is there already. The interpreter of .venv can tell, without a search.
if [ -z "${PYTHON:-}" ] && [ -x .venv/bin/python ] && .venv/bin/python -I scripts/setup.py --ready "$1" 2>/dev/null; then
    exit 0
fi

# The interpreter itself, not a shim in front of it and not the one of a virtual environment we may have to replace.
itself='import sys
assert sys.version_info >= (3, 11)
print(getattr(sys, "_base_executable", None) or sys.executable)'

# Prints the interpreter that a command stands for; fails when it is too old or does not run.
resolve() {
    command -v "$1" >/dev/null && "$1" -I -c "$itself" 2>/dev/null
}

can_make_environments() {
    "$1" -I -c 'import ensurepip, venv' 2>/dev/null
}

python=
if [ -n "${PYTHON:-}" ]; then
    python=$(resolve "$PYTHON") || {
        echo "PYTHON=$PYTHON is not a working Python 3.11 or newer" >&2
        exit 1
    }
else
    # The system's own first: distributions build it with profile-guided optimization, which pyenv does not unless asked.
    # With it all tests take a fifth less time.
    for candidate in /usr/bin/python3 python3.11 python3.12 python3.13 python3; do
        found=$(resolve "$candidate") || continue
        python=${python:-$found}
        if can_make_environments "$found"; then
            python=$found
            break
        fi
    done
fi
if [ -z "$python" ]; then
    echo "OpenSkill needs Python 3.11 or newer and found none." >&2
    echo "Install it (Debian 12: sudo apt-get install python3 python3-venv) or set PYTHON=/path/to/python." >&2
    exit 1
fi

# Debian's Python comes without ensurepip until its venv package is installed.
if ! can_make_environments "$python"; then
    version=$("$python" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    scripts/apt-install.sh "python$version-venv" || {
        echo "$python cannot make virtual environments (no ensurepip)." >&2
        exit 1
    }
fi

exec "$python" -I scripts/setup.py "$1"
