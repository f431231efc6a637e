#!/bin/sh
# Older versions of Anthropic's SDK that tests run against our host, each in a virtual environment of its own.
#
# sdk_oracles.sh               install them, unless they are there; quiet and quick then
# sdk_oracles.sh --directory   print the directory that has the environments, named by version
#
# They are kept outside the repository: in SDK_ORACLES if set, else in the user's cache directory. Where they cannot be
# had, the tests that need them skip; with CI=true that is a failure. SDK_ORACLES=none installs nothing.
set -eu
cd "$(dirname "$0")/.."

# The only list. The current version is in .venv.
versions="0.75.0 1.17.0"

python=$(.venv/bin/python -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')
name=sdk-oracles-$python-$(echo "$versions" | cksum | cut -d' ' -f1)
directory=${SDK_ORACLES:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/openskill/$name}

if [ "${1:-}" = --directory ]; then
    echo "$directory"
    exit
fi
if [ "$directory" = none ] || [ -e "$directory/complete" ]; then
    exit 0
fi

mkdir -p "$(dirname "$directory")"
exec 9>"$directory.lock"
flock 9
[ ! -e "$directory/complete" ] || exit 0 # another process was installing them

echo "→ installing SDKs that tests need"
rm -rf "$directory"
mkdir "$directory"
install() {
    for version in $versions; do
        .venv/bin/python -I -m venv "$directory/$version" &&
            "$directory/$version/bin/python" -I -m pip install --quiet --disable-pip-version-check \
                "anthropic==$version" >&2 || return 1
    done
}
if install; then
    touch "$directory/complete"
    exit 0
fi
echo "the SDKs that tests need could not be installed" >&2
if [ "${CI:-}" = true ]; then
    echo "CI=true: missing programs are a failure" >&2
    exit 1
fi
echo "what needs them will be skipped"
