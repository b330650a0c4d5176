#!/bin/sh
# The main job over the real suites of this repository, on 4 virtual devices: no GPU, no root. Needs Python 3.10
# or newer and a shell. The first run makes .venv-demo and learns the durations; the second one uses them.
#
#   ./ci/demo.sh                  everything at level 1
#   ./ci/demo.sh --sgpu-plan      what would run, in which order; any pytest option may follow
#   TEST_LEVEL=2 ./ci/demo.sh     more items            SGPU_GPUS=8 ./ci/demo.sh    more devices
#   PYTHON=python3.12 ./ci/demo.sh
set -eu
cd -- "$(dirname -- "$0")/.."
root=$(pwd)

stop() {
    printf 'demo: %s\n' "$@" >&2
    exit 2
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }

python=''
for candidate in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 python3.10 python; do
    if new_enough "$candidate"; then
        python=$candidate
        break
    fi
    [ "$candidate" != "${PYTHON-}" ] || stop "PYTHON=$PYTHON is not there, or older than Python 3.10"
done
[ -n "$python" ] || stop "no Python 3.10 or newer on PATH; name one: PYTHON=/path/to/python3 ./ci/demo.sh"

# One environment per Python version, so that two demos with different ones do not take each other's away.
# The stamp says for which interpreter, place and requirements it was made.
venv=$root/.venv-demo/$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
stamp=$("$python" - "$venv" <<'END'
import hashlib, pathlib, sys
text = repr((sys.version, sys.argv[1])).encode() + pathlib.Path("pyproject.toml").read_bytes()
print(hashlib.sha256(text).hexdigest())
END
)
if [ "$(cat "$venv/stamp" 2>/dev/null || :)" != "$stamp" ]; then
    echo "demo: making $venv with $("$python" -V) (once)"
    rm -rf -- "$venv"
    "$python" -m venv "$venv" || stop \
        "$python cannot make a virtual environment" \
        "on Debian and Ubuntu it needs a package: apt install python3-venv" \
        "or name another interpreter: PYTHON=/path/to/python3 ./ci/demo.sh"
    "$venv/bin/python" -m pip install --quiet --quiet --disable-pip-version-check --editable ".[demo]" || stop \
        "pip could not install this package with its extra 'demo'; its own message is above" \
        "without a network, point pip to an index or to wheels: PIP_INDEX_URL, PIP_FIND_LINKS"
    echo "$stamp" >"$venv/stamp"
fi

PATH=$venv/bin:$PATH
TEST_LEVEL=${TEST_LEVEL:-1}
export PATH TEST_LEVEL
if [ -z "${CXX-}" ] && ! command -v c++ >/dev/null && ! command -v g++ >/dev/null && ! command -v clang++ >/dev/null; then
    echo "demo: no C++ compiler here: the suite core will report that its test was skipped"
fi

exec "$venv/bin/python" -m pytest -p sgpu --sgpu-conf=conf/ci_sgpu_queue.conf "--sgpu-gpus=${SGPU_GPUS:-4}" "$@"
