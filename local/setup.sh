#!/usr/bin/env bash
# `make setup`: looks for Python, a JDK and Maven, names in one line what is missing, then hands over to local/setup.py.
# PYTHON=python3.13 chooses the Python of the environment, which later runs without PYTHON keep.
# `local/setup.sh bigquery celery registry rest s3` (make setup WITH="bigquery celery registry rest s3") also builds what these need.
set -eu
cd "$(dirname "$0")/.."

# The one that PYTHON names, and pyenv's of that name; else the one that the environment has, else the oldest.
find_python() {
    set -- .venv/bin/python python3.11 python3.12 python3.13 python3
    [ -z "${PYTHON:-}" ] || set -- "$PYTHON" "${HOME:-}"/.pyenv/versions/*/bin/"${PYTHON##*/}"
    for candidate in "$@"; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
}

# The first number of "17.0.15" or the second of "1.8.0_452".
java_version() {
    local java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
    "$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

missing=""
python="$(find_python)"
if [ -z "$python" ] && [ -n "${PYTHON:-}" ]; then
    echo "setup: PYTHON=$PYTHON is no Python 3.11-3.13 that runs here; name another one, or leave PYTHON out" >&2
    exit 1
fi
[ -n "$python" ] || missing="$missing, Python 3.11-3.13 (python3)"
if [ -n "$python" ] && ! "$python" -c 'import ensurepip' 2>/dev/null; then
    missing="$missing, Python's venv module (python3-venv)"
fi
java="$(java_version || true)"
[ "${java:-0}" -ge 17 ] || missing="$missing, JDK 17 or newer (openjdk-17-jdk-headless)"
command -v mvn >/dev/null || missing="$missing, Maven (maven)"
if [ -n "$missing" ]; then
    echo "setup: please install ${missing#, }, then run make setup again" >&2
    exit 1
fi
# imported, not run as a module: its errors are then the same class for those who import it in turn
exec "$python" -c 'import sys; from local.setup import main; sys.exit(main(sys.argv[1:]))' "$@"
