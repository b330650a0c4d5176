# shellcheck shell=sh
# The suite protocol as these tests need it, in POSIX sh. A suite sources it and has, per call line,
#
#     line TAG BODY [GPUS]
#
# and `close` at its end. BODY runs in a subshell and finds $tag, $xml (where its JUnit file belongs) and $top (the
# folder of the script). Variables of the suite, set before the first line: $setup (a body), $missing (globs of tags
# whose probes fail here).
worst=0
top=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mode=run
[ "${TE_CI_LIST_ITEMS:-}" != 1 ] || mode=list
[ "${TE_CI_SETUP_ONLY:-}" != 1 ] || mode=setup

matches() { # TEXT GLOBS: by the rule of the suite scripts, any of several globs over the whole text
    set -f
    # shellcheck disable=SC2254 # these are globs
    for one in $2; do
        case $1 in
            $one)
                set +f
                return 0
                ;;
        esac
    done
    set +f
    return 1
}

line() {
    if [ "$mode" = setup ]; then return 0; fi
    if [ -n "${TEST_FILTER:-}" ] && ! matches "$1" "$TEST_FILTER"; then return 0; fi
    if [ -n "${missing:-}" ] && [ "${TE_CI_SKIP_CHECK_SUPPORTED:-}" != 1 ] && matches "$1" "$missing"; then return 0; fi
    if [ "$mode" = list ]; then
        printf 'TE_CI_ITEM %s\n' "$1${3:+ $3}"
        return 0
    fi
    tag=$1
    xml=${JUNITXML_PREFIX:-./}$1${JUNITXML_SUFFIX:-.xml}
    (eval "$2")
    code=$?
    if [ "$code" -ne 0 ]; then worst=$code; fi
}

close() {
    if [ "$mode" = setup ] && [ -n "${setup:-}" ]; then
        (eval "$setup")
        exit
    fi
    exit "$worst"
}

# For bodies. ran: proof by a line.  note: one line in the file `seen`.  cases GOOD [BAD]: a JUnit file.
ran() { printf 'TE_CI_RAN %s\n' "$tag"; }
note() { printf '%s\n' "${1-$tag}" >>"$top/seen"; }
cases() {
    good=$1 bad=${2:-0}
    {
        printf '<testsuites><testsuite name="inner" tests="%d" failures="%d" errors="0">' $((good + bad)) "$bad"
        n=0
        while [ $n -lt "$good" ]; do
            n=$((n + 1))
            printf '<testcase classname="mod" name="test_good_%d" time="0.001"/>' $n
        done
        n=0
        while [ $n -lt "$bad" ]; do
            n=$((n + 1))
            printf '<testcase classname="mod" name="test_bad_%d" time="0.001">' $n
            printf '<failure message="sum is off by %d">assert False</failure></testcase>' $n
        done
        printf '</testsuite></testsuites>\n'
    } >"$xml"
}
