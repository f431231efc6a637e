#!/bin/sh
# The programs that tests use beyond Python, and the Debian package that has each.
# As root on Debian the missing ones are installed; elsewhere they are named, and the tests that need them skip.
# With CI=true a missing program is a failure.
set -eu
cd "$(dirname "$0")/.."

# program:package, one per line. The only list: tests/conftest.py reads it too.
list() {
    cat <<'END'
bwrap:bubblewrap
chromium-headless-shell:chromium-headless-shell
debootstrap:debootstrap
dockerd:docker.io
git:git
haproxy:haproxy
nginx:nginx
postgres:postgresql
prlimit:util-linux
redis-server:redis-server
setpriv:util-linux
tesseract:tesseract-ocr
wrk:wrk
END
    # Only the long form boots a virtual machine.
    [ "${OPENSKILL_HOSTILE:-}" != long ] || cat <<'END'
busybox:busybox-static
qemu-system-x86_64:qemu-system-x86
END
}

if [ "${1:-}" = --list ]; then
    list
    exit
fi

# Where some programs are that an ordinary user has not on PATH, as dockerd; and those of PostgreSQL, which Debian has in
# a directory for each of its versions.
PATH="$PATH:/usr/sbin:/sbin"
for directory in /usr/lib/postgresql/*/bin; do
    PATH="$PATH:$directory"
done

# With arguments only these programs are looked for.
wanted=" $* "
missing=
for entry in $(list); do
    case "$wanted" in "  " | *" ${entry%%:*} "*) ;; *) continue ;; esac
    command -v "${entry%%:*}" >/dev/null || missing="$missing ${entry#*:}"
done
# The browser shows boxes for Chinese without it.
case "$wanted" in
"  " | *" chromium-headless-shell "*)
    [ ! -e /etc/debian_version ] || [ -e /usr/share/fonts/truetype/wqy/wqy-microhei.ttc ] || missing="$missing fonts-wqy-microhei"
    ;;
esac
[ -n "$missing" ] || exit 0

# shellcheck disable=SC2086  # one word per package
if scripts/apt-install.sh $missing; then
    exit 0
fi
if [ "${CI:-}" = true ]; then
    echo "CI=true: a missing program is a failure" >&2
    exit 1
fi
echo "what needs them will be skipped"
