#!/bin/sh
# apt-install.sh PACKAGE...: install Debian packages when that is possible without asking anybody.
# Exit 0: installed. Exit 1: not possible here or it failed; the reason and the command to run are on stderr.
set -eu

advice="install them with: sudo apt-get install -y $*"
if [ ! -e /etc/debian_version ] || ! command -v apt-get >/dev/null; then
    echo "missing system packages (Debian names): $*" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "missing system packages: $*; $advice" >&2
    exit 1
fi

# One at a time: `make test` installs packages while it sets up Python, which may need one as well.
exec 9</etc/debian_version
flock 9
echo "→ installing system packages: $*"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update && apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"; } \
    >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    echo "apt-get failed; $advice" >&2
    exit 1
fi
