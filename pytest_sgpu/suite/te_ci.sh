# shellcheck shell=sh
# te_ci.sh: gives a suite script the protocol of the queue. POSIX sh; the caller may use `set -eu`.
#
# A suite script sources this file, says what it needs, and then has one line per work item:
#
#     . "$(sgpu shell-lib)"
#     te_ci_setup install_it                             # optional: runs once, before the first line
#     te_ci_test    1 ck         test_numerics.py        # tag test_numerics.ck, from level 1 on
#     te_ci_requires te_ci_module triton                 # optional: what the next lines need
#     FUSED=1 te_ci_test 3 ck.fused ops/test_norms.py    # tag ops.test_norms.ck.fused
#     te_ci_program 3 benchmark ./bench --quick          # a program, no pytest
#     te_ci_finish                                       # last: summary and exit code
#
# What a script reads from its environment (set by the scheduler, or by a person who tries something):
#     TEST_LEVEL                    a line runs if its level <= this; unset, empty or no number: 99
#     TEST_SGPU, TEST_MGPU          which families of lines are on; neither set: single-GPU lines
#     TEST_FILTER                   white-space separated shell globs over whole tags; only these lines
#     TE_CI_LIST_ITEMS=1            print `TE_CI_ITEM <tag>[ <gpus>]` per line that would run; run nothing
#     TE_CI_SKIP_CHECK_SUPPORTED=1  every probe counts as true: what exists, not what can run here
#     TE_CI_SETUP_ONLY=1            run the setup, then exit
#     TE_CI_SKIP_SETUP=1            the setup was done, do not repeat it
#     JUNITXML_PREFIX, _SUFFIX      the JUnit file of a line is <prefix><tag><suffix>
#     TE_CI_PYTHON                  the interpreter that runs pytest; unset or empty: python3
#
# What the command of a line finds:
#     TE_CI_TAG                     the tag of the line
#     TE_CI_JUNITXML                where its JUnit file belongs (absolute)
#
# What the script may use: te_ci_dir, the folder of the script; te_ci_name, its name without `.sh`.
#
# Each line, the setup and each probe runs in a subshell: a `cd`, an `exit` or an exported variable stays
# there. That makes a plain run of the script and the scheduler's runs line by line mean the same, since
# the scheduler starts the script anew for every line. `set -e` of the caller holds inside.
# Assignments before a line (`FUSED=1 te_ci_test ...`) reach its command, as with any command.
# A mistake in the script (no level, tag with a blank, tag used twice) ends it with exit code 2.

te_ci__nl='
'
te_ci__ifs=' 	
'
te_ci_name=${0##*/}
te_ci_name=${te_ci_name%.sh}
case $0 in
    /*) te_ci_dir=${0%/*}/ ;;
    */*) te_ci_dir=./${0%/*} ;;
    *) te_ci_dir=. ;;
esac
te_ci_dir=$(CDPATH='' cd -- "$te_ci_dir" && pwd)

te_ci__tests=$te_ci_dir # where te_ci_test looks for its files
te_ci__family=sgpu      # of the lines that follow
te_ci__gpus=1           # per line
te_ci__need=''          # what the lines that follow require, as words
te_ci__setup=''         # the setup that is still to be run
te_ci__setup_seen=''    # a setup was named
te_ci__tags=$te_ci__nl  # every tag so far, one per line
te_ci__yes=$te_ci__nl   # probes that were true
te_ci__no=$te_ci__nl    # probes that were false
te_ci__ran=0            # lines that ran
te_ci__matched=0        # lines that TEST_FILTER selects
te_ci__skipped=0        # lines whose requirement does not hold here
te_ci__worst=0          # the largest exit code
te_ci__failures=''      # "exit CODE  TAG" lines for the summary
te_ci__done=''          # the end was reached, the trap has nothing to do

# A number longer than nine digits is larger than any level, and more than some shells can compare.
case ${TEST_LEVEL-} in
    '' | *[!0-9]*) te_ci__level=99 ;;
    ?????????*) te_ci__level=999999999 ;;
    *) te_ci__level=$TEST_LEVEL ;;
esac

# te_ci_die MESSAGE: ends the script with exit code 2; for mistakes in the script itself.
te_ci_die() {
    printf 'te_ci: %s: %s\n' "$te_ci_name" "$*" >&2
    te_ci__done=1
    exit 2
}

# te_ci__on VALUE: whether a switch of the environment is on.
te_ci__on() {
    case ${1-} in
        '' | 0) return 1 ;;
    esac
}

# te_ci__replace TEXT OLD NEW: leaves TEXT with every OLD replaced in te_ci__out. No process is started.
te_ci__replace() {
    te_ci__out=''
    te_ci__rest=$1
    while :; do
        case $te_ci__rest in
            *"$2"*)
                te_ci__out=$te_ci__out${te_ci__rest%%"$2"*}$3
                te_ci__rest=${te_ci__rest#*"$2"}
                ;;
            *) break ;;
        esac
    done
    te_ci__out=$te_ci__out$te_ci__rest
}

# te_ci__call COMMAND [ARGS]: runs it in a subshell and leaves its exit code in te_ci__code. Never put it
# on the left of `||` or into an `if`: there a shell forgets `set -e`, inside the subshell too.
te_ci__call() {
    case $- in
        *e*)
            set +e
            (
                set -e
                "$@"
            )
            te_ci__code=$?
            set -e
            ;;
        *)
            ("$@")
            te_ci__code=$?
            ;;
    esac
}

# te_ci__split_call COMMAND TEXT: calls COMMAND with the words of TEXT; no word becomes a file name.
te_ci__split_call() {
    te_ci__old_ifs=${IFS-$te_ci__ifs}
    case $- in
        *f*) te_ci__globs='' ;;
        *) te_ci__globs=on ;;
    esac
    IFS=$te_ci__ifs
    set -f
    # shellcheck disable=SC2086 # splitting is the purpose
    set -- "$1" $2
    IFS=$te_ci__old_ifs
    [ -z "$te_ci__globs" ] || set +f
    "$@"
}

# te_ci__any_matches GLOB...: whether te_ci__tag as a whole matches one of the globs.
te_ci__any_matches() {
    for te_ci__glob in "$@"; do
        # shellcheck disable=SC2254 # the filter is a pattern
        case $te_ci__tag in
            $te_ci__glob) return 0 ;;
        esac
    done
    return 1
}

# te_ci__family_on: whether lines of the present family run.
te_ci__family_on() {
    case $te_ci__family in
        mgpu) te_ci__on "${TEST_MGPU-}" ;;
        *) te_ci__on "${TEST_SGPU-}" || [ -z "${TEST_SGPU-}${TEST_MGPU-}" ] ;;
    esac
}

# te_ci__is_item: whether the scheduler started this script for one line, which it listed just before.
te_ci__is_item() { te_ci__on "${TE_CI_SKIP_SETUP-}" && [ -n "${TEST_FILTER-}" ]; }

# te_ci_family sgpu | te_ci_family mgpu GPUS: the lines that follow are single-GPU lines (so it begins),
# or lines for GPUS devices each.
te_ci_family() {
    case ${1-}:${2-} in
        sgpu:) te_ci__gpus=1 ;;
        mgpu: | mgpu:0* | mgpu:*[!0-9]*) te_ci_die "te_ci_family mgpu: expected a number of GPUs, got '${2-}'" ;;
        mgpu:*) te_ci__gpus=$2 ;;
        *) te_ci_die "te_ci_family: expected 'sgpu' or 'mgpu GPUS', got '$*'" ;;
    esac
    te_ci__family=$1
}

# te_ci_tests DIR: where te_ci_test finds its files; relative to the folder of the script.
te_ci_tests() {
    case ${1:?te_ci_tests needs a folder} in
        /*) te_ci__tests=$1 ;;
        *) te_ci__tests=$te_ci_dir/$1 ;;
    esac
}

# te_ci_probe COMMAND [ARGS]: a capability probe, for `if`. Runs COMMAND at most once per script run and
# remembers whether it succeeded. What it prints goes to standard error.
te_ci_probe() {
    te_ci__on "${TE_CI_SKIP_CHECK_SUPPORTED-}" && return 0
    te_ci__probe=''
    for te_ci__word in "$@"; do
        te_ci__probe="$te_ci__probe<$te_ci__word>"
    done
    case $te_ci__yes in
        *"$te_ci__nl$te_ci__probe$te_ci__nl"*) return 0 ;;
    esac
    case $te_ci__no in
        *"$te_ci__nl$te_ci__probe$te_ci__nl"*) return 1 ;;
    esac
    if ("$@") >&2 </dev/null; then
        te_ci__yes=$te_ci__yes$te_ci__probe$te_ci__nl
        return 0
    fi
    te_ci__no=$te_ci__no$te_ci__probe$te_ci__nl
    return 1
}

# te_ci_module NAME: a probe: whether Python can import NAME.
te_ci_module() {
    "${TE_CI_PYTHON:-python3}" -c 'import importlib, sys; importlib.import_module(sys.argv[1])' "$1" 2>/dev/null
}

# te_ci_requires [PROBE [ARGS]]: the lines that follow run only where this probe is true; without a probe,
# everywhere again. ARGS hold no white space. Unlike `if te_ci_probe`, the probe runs only for a line that
# would run, and not again in an item of the scheduler: that it holds was asked when the item was listed.
te_ci_requires() { te_ci__need=$*; }

# te_ci__supported: whether the requirement of the present line holds.
te_ci__supported() {
    [ -n "$te_ci__need" ] || return 0
    if te_ci__is_item && ! te_ci__on "${TE_CI_LIST_ITEMS-}"; then
        return 0
    fi
    te_ci__split_call te_ci_probe "$te_ci__need"
}

# te_ci_setup COMMAND: what the suite installs or builds before its lines can run; one function or program
# without arguments. Name it before the first line. It runs in a subshell: what it changes must be on disk.
te_ci_setup() {
    [ "$#" -eq 1 ] || te_ci_die "te_ci_setup: expected one function or program, got '$*'"
    [ -z "$te_ci__setup_seen" ] || te_ci_die "te_ci_setup: called twice; put both into one function"
    te_ci__setup_seen=1
    te_ci__on "${TE_CI_LIST_ITEMS-}" && return 0
    if te_ci__on "${TE_CI_SETUP_ONLY-}"; then
        te_ci__setup=$1
        te_ci__set_up
        te_ci__done=1
        exit 0
    fi
    te_ci__on "${TE_CI_SKIP_SETUP-}" || te_ci__setup=$1
    return 0
}

# te_ci__set_up: runs the setup unless it was run. A setup that fails ends the script with its exit code.
te_ci__set_up() {
    [ -n "$te_ci__setup" ] || return 0
    printf 'te_ci: %s: setup\n' "$te_ci_name"
    te_ci__call "$te_ci__setup"
    te_ci__setup=''
    [ "$te_ci__code" -ne 0 ] || return 0
    printf 'te_ci: %s: the setup failed with exit code %s; nothing was run\n' "$te_ci_name" "$te_ci__code" >&2
    te_ci__done=1
    exit "$te_ci__code"
}

# te_ci__check LEVEL TAG: ends the script when a line has no proper level or tag.
te_ci__check() {
    case $1 in
        '' | *[!0-9]* | ?????????*) te_ci_die "line '$2': expected a level such as 1 or 3, got '$1'" ;;
    esac
    case $2 in
        '' | *[[:space:]]* | *[[:cntrl:]]*) te_ci_die "expected a tag without white space, got '$2'" ;;
    esac
}

# te_ci__claim: notes te_ci__tag as used. Used before: an error, which ends a listing at once; in a run the
# second line counts as failed and the others still run.
te_ci__claim() {
    case $te_ci__tags in
        *"$te_ci__nl$te_ci__tag$te_ci__nl"*) ;;
        *)
            te_ci__tags=$te_ci__tags$te_ci__tag$te_ci__nl
            return 0
            ;;
    esac
    if te_ci__on "${TE_CI_LIST_ITEMS-}"; then
        te_ci_die "tag '$te_ci__tag' is used twice; a tag must select exactly one line"
    fi
    printf 'te_ci: %s: tag '\''%s'\'' is used twice; the second line was not run\n' "$te_ci_name" "$te_ci__tag" >&2
    te_ci__record 2
    return 1
}

# te_ci__selected LEVEL TAG: the gates in order: level, family, unique tag, filter, requirement, mode.
# True when the line is to be run now.
te_ci__selected() {
    te_ci__check "$1" "$2"
    te_ci__tag=$2
    [ "$1" -le "$te_ci__level" ] || return 1
    te_ci__family_on || return 1
    te_ci__claim || return 1
    if [ -n "${TEST_FILTER-}" ]; then
        te_ci__split_call te_ci__any_matches "$TEST_FILTER" || return 1
    fi
    te_ci__matched=$((te_ci__matched + 1))
    if te_ci__on "${TE_CI_SETUP_ONLY-}" && ! te_ci__on "${TE_CI_LIST_ITEMS-}"; then
        return 1
    fi
    if ! te_ci__supported; then
        te_ci__skipped=$((te_ci__skipped + 1))
        te_ci__on "${TE_CI_LIST_ITEMS-}" || printf 'te_ci: %s: skipped, not here: %s\n' "$te_ci__tag" "$te_ci__need"
        return 1
    fi
    if te_ci__on "${TE_CI_LIST_ITEMS-}"; then
        if [ "$te_ci__gpus" = 1 ]; then
            printf 'TE_CI_ITEM %s\n' "$te_ci__tag"
        else
            printf 'TE_CI_ITEM %s %s\n' "$te_ci__tag" "$te_ci__gpus"
        fi
        return 1
    fi
}

# te_ci__record CODE: notes how te_ci__tag ended.
te_ci__record() {
    te_ci__ran=$((te_ci__ran + 1))
    [ "$1" -ne 0 ] || return 0
    te_ci__failures="${te_ci__failures}te_ci:   exit code $1: $te_ci__tag$te_ci__nl"
    [ "$1" -le "$te_ci__worst" ] || te_ci__worst=$1
}

# te_ci_junit TAG: leaves the path of the tag's JUnit file in te_ci_junit_path: <prefix><tag><suffix>. Without a
# prefix that is test-results/plain/<suite>/<tag>.xml, where a `/` in the tag makes no folder but is written %2F.
te_ci_junit() {
    if [ -n "${JUNITXML_PREFIX+set}" ]; then
        te_ci_junit_path=$JUNITXML_PREFIX$1${JUNITXML_SUFFIX-.xml}
    else
        te_ci__replace "$1" % %25
        te_ci__replace "$te_ci__out" / %2F
        te_ci_junit_path=test-results/plain/$te_ci_name/$te_ci__out${JUNITXML_SUFFIX-.xml}
    fi
    case $te_ci_junit_path in
        /*) ;;
        *) te_ci_junit_path=$PWD/$te_ci_junit_path ;;
    esac
}

# te_ci__run COMMAND [ARGS]: runs the line te_ci__tag.
te_ci__run() {
    te_ci__set_up
    te_ci_junit "$te_ci__tag"
    mkdir -p -- "${te_ci_junit_path%/*}" || te_ci_die "cannot make the folder of $te_ci_junit_path"
    rm -f -- "$te_ci_junit_path"
    TE_CI_TAG=$te_ci__tag
    TE_CI_JUNITXML=$te_ci_junit_path
    export TE_CI_TAG TE_CI_JUNITXML
    te_ci__is_item || printf 'te_ci: %s: starts\n' "$te_ci__tag"
    te_ci__call "$@"
    te_ci__record "$te_ci__code"
    unset TE_CI_TAG TE_CI_JUNITXML
}

# te_ci_line LEVEL TAG COMMAND [ARGS]: a line that runs any function or program. COMMAND must leave proof
# that it ran: a JUnit file at $TE_CI_JUNITXML with a test case in it, or a call of te_ci_ran.
te_ci_line() {
    [ "$#" -ge 3 ] || te_ci_die "te_ci_line: expected LEVEL TAG COMMAND, got '$*'"
    te_ci__selected "$1" "$2" || return 0
    shift 2
    te_ci__run "$@"
}

# te_ci_ran: inside a line: prints the proof that it ran, `TE_CI_RAN <tag>` on a line of its own. Call it
# after the work, never before: a line that finds nothing to do must not look as if it had done it.
te_ci_ran() { printf '\nTE_CI_RAN %s\n' "${TE_CI_TAG:?te_ci_ran is for use inside a line}"; }

# te_ci__program PROGRAM [ARGS]: runs it and leaves the proof, unless it could not be started.
te_ci__program() {
    if ! command -v "$1" >/dev/null 2>&1; then
        printf 'te_ci: %s: program not found: %s\n' "$TE_CI_TAG" "$1" >&2
        return 127
    fi
    te_ci__status=0
    "$@" || te_ci__status=$?
    case $te_ci__status in
        126 | 127) ;;
        *) te_ci_ran ;;
    esac
    return "$te_ci__status"
}

# te_ci_program LEVEL TAG PROGRAM [ARGS]: a line that runs a program which leaves no JUnit file, such as a
# benchmark. That it was started and ended is the proof; a program that is missing is a failure (127).
te_ci_program() {
    [ "$#" -ge 3 ] || te_ci_die "te_ci_program: expected LEVEL TAG PROGRAM, got '$*'"
    te_ci__level_arg=$1
    te_ci__tag_arg=$2
    shift 2
    te_ci_line "$te_ci__level_arg" "$te_ci__tag_arg" te_ci__program "$@"
}

# te_ci__pytest ARGS: pytest with the JUnit file of the line. No cache: items run side by side in one
# checkout, and `--lf` belongs to the pytest that runs the queue.
te_ci__pytest() {
    exec "${TE_CI_PYTHON:-python3}" -m pytest -p no:cacheprovider --junitxml="$TE_CI_JUNITXML" "$@"
}

# te_ci_pytest LEVEL TAG ARGS: a line that runs pytest with ARGS.
te_ci_pytest() {
    [ "$#" -ge 3 ] || te_ci_die "te_ci_pytest: expected LEVEL TAG PYTEST-ARGUMENTS, got '$*'"
    te_ci__level_arg=$1
    te_ci__tag_arg=$2
    shift 2
    te_ci_line "$te_ci__level_arg" "$te_ci__tag_arg" te_ci__pytest "$@"
}

# te_ci_test LEVEL BACKEND[.LABEL] FILE [ARGS]: a line that runs pytest on FILE, below the folder of
# te_ci_tests, and makes its own tag: dir.stem.backend[.label].
te_ci_test() {
    [ "$#" -ge 3 ] || te_ci_die "te_ci_test: expected LEVEL BACKEND FILE, got '$*'"
    te_ci__level_arg=$1
    te_ci__file_arg=$te_ci__tests/$3
    te_ci__stem=${3%%::*}
    te_ci__replace "${te_ci__stem%.py}" / .
    te_ci__tag_arg=$te_ci__out.$2
    shift 3
    te_ci_line "$te_ci__level_arg" "$te_ci__tag_arg" te_ci__pytest "$te_ci__file_arg" "$@"
}

# te_ci_finish: the last line of a script. Ends a plain run with a summary; exits with the largest exit
# code of all lines, or 5 when TEST_FILTER selects no line at all.
te_ci_finish() {
    te_ci__done=1
    if te_ci__on "${TE_CI_LIST_ITEMS-}" || te_ci__on "${TE_CI_SETUP_ONLY-}"; then
        exit 0
    fi
    if [ -n "${TEST_FILTER-}" ] && [ "$te_ci__matched" -eq 0 ]; then
        printf 'te_ci: %s: TEST_FILTER selects no line: %s\n' "$te_ci_name" "$TEST_FILTER" >&2
        [ "$te_ci__worst" -ne 0 ] || te_ci__worst=5
    fi
    if ! te_ci__is_item; then
        printf 'te_ci: %s: %s run, %s skipped here, worst exit code %s\n%s' \
            "$te_ci_name" "$te_ci__ran" "$te_ci__skipped" "$te_ci__worst" "$te_ci__failures"
    fi
    exit "$te_ci__worst"
}

# A script that ends early or forgets te_ci_finish must not turn failed lines into an exit code 0. A script
# that sets its own EXIT trap replaces this one.
te_ci__at_exit() {
    [ -n "$te_ci__done" ] || [ "$1" -ne 0 ] || te_ci_finish
}
trap 'te_ci__at_exit "$?"' EXIT
