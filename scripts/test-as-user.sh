#!/bin/sh
# test-as-user.sh [TEST...]: what can differ for an ordinary user with the system's own Python, tried as one. Needs root.
#
# Makes a user (openskill-ci) and clones what is committed here into a directory of that user. There it runs `make demo`
# and the tests below, or those that are named, with PYTHON (/usr/bin/python3 unless set) and WORKERS (two more than
# there are processors). Missing Debian packages are installed by root first. CI=true, so a missing program is a failure;
# what needs root is skipped, because `make test` has run it. In the end the directory is removed, and so is the user
# unless there was one of that name.
set -eu
cd "$(dirname "$0")/.."

user=openskill-ci
python=${PYTHON:-/usr/bin/python3}
workers=${WORKERS:-$(($(nproc) + 2))}
if [ "$(id -u)" != 0 ]; then
    echo "test-as-user.sh makes a user, so it needs root; as an ordinary user run: make demo test PYTHON=$python" >&2
    exit 1
fi
if [ $# = 0 ]; then
    set -- tests/architecture tests/executors tests/testing tests/journeys tests/test_conftest.py tests/test_subprocesses.py \
        tests/cli/test_run.py tests/cli/test_doctor.py tests/cli/test_workspaces.py \
        tests/host tests/session \
        tests/hostile/test_arming.py tests/hostile/test_skills_directory.py tests/hostile/test_survivors.py
fi

[ -x "$python" ] || scripts/apt-install.sh python3
"$python" -I -c 'import ensurepip, venv' 2>/dev/null || scripts/apt-install.sh python3-venv
CI=true scripts/system-packages.sh

made=
if ! id "$user" >/dev/null 2>&1; then
    useradd --no-create-home --shell /bin/sh "$user"
    made=yes
    # An earlier user of that name may have had another number, and pytest refuses directories of others.
    rm -rf "/dev/shm/pytest-of-$user" "/tmp/pytest-of-$user"
fi
home=$(mktemp -d /tmp/openskill-user.XXXXXX)
leave() {
    rm -rf "$home"
    [ -z "$made" ] || userdel "$user" || echo "the user $user stays, because something of it still runs" >&2
}
trap leave EXIT
trap 'exit 130' INT TERM

git clone --quiet --no-hardlinks . "$home/checkout"
chown -R "$user:" "$home"
chmod 755 "$home"

as_user() {
    (cd "$home/checkout" && runuser -u "$user" -- env -u XDG_CACHE_HOME -u XDG_CONFIG_HOME -u XDG_STATE_HOME \
        -u XDG_RUNTIME_DIR -u PYTHONPATH -u VIRTUAL_ENV -u SUDO_USER HOME="$home" USER="$user" LOGNAME="$user" \
        PATH=/usr/local/bin:/usr/bin:/bin CI=true NPM_ORACLES=none SDK_ORACLES=none PYTHON="$python" "$@")
}

echo "→ as the user $user with $("$python" --version): make demo"
as_user make demo >"$home/demo.log" 2>&1 || {
    cat "$home/demo.log"
    exit 1
}
echo "→ as the user $user with $("$python" --version): make test ARGS=\"$*\""
as_user make test WORKERS="$workers" ARGS="$*" ||
    as_user make test WORKERS=1 ARGS="--last-failed --last-failed-no-failures none $*"
