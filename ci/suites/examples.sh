#!/bin/sh
# Runs the examples of the documentation, each in an empty folder of its own, so that what people copy works.
# An example is a file docs/examples/*.sh or *.py; it passes when it ends with exit code 0.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
python=${TE_CI_PYTHON:-python3}
# The commands `pytest` and `sgpu` are those of that interpreter.
PATH=$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))'):$PATH
export PATH

# An example may run a queue of its own. What this item was given is not meant for that one.
unset PYTEST_SGPU_ITEM PYTEST_ADDOPTS PYTEST_CURRENT_TEST PYTEST_PLUGINS TEST_FILTER TEST_SGPU TEST_MGPU
unset TE_CI_LIST_ITEMS TE_CI_SKIP_CHECK_SUPPORTED TE_CI_SETUP_ONLY TE_CI_SKIP_SETUP
unset HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ZE_AFFINITY_MASK
unset GITHUB_ACTIONS GITHUB_STEP_SUMMARY
TEST_LEVEL=1
export TEST_LEVEL

junit=${JUNITXML_PREFIX-$root/test-results/plain/examples/}examples${JUNITXML_SUFFIX-.xml}
unset JUNITXML_PREFIX JUNITXML_SUFFIX
work=$(mktemp -d "${TMPDIR:-/tmp}/sgpu-examples.XXXXXX")
trap 'rm -rf -- "$work"' EXIT

count=0
failed=0
for example in "$root"/docs/examples/*.sh "$root"/docs/examples/*.py; do
    [ -f "$example" ] || continue
    count=$((count + 1))
    name=${example##*/}
    echo "== $name"
    mkdir "$work/$count"
    case $name in
        *.py) set -- "$python" "$example" ;;
        *) set -- sh "$example" ;;
    esac
    # The subshell stands alone: on the left of || or in an `if`, set -e would not hold.
    set +e
    (cd "$work/$count" && exec "$@")
    code=$?
    set -e
    if [ "$code" -eq 0 ]; then
        printf '<testcase classname="docs.examples" name="%s"/>\n' "$name" >>"$work/cases"
    else
        echo "== $name failed with exit code $code"
        failed=$((failed + 1))
        printf '<testcase classname="docs.examples" name="%s"><failure message="exit code %s"/></testcase>\n' \
            "$name" "$code" >>"$work/cases"
    fi
done

if [ "$count" -eq 0 ]; then
    echo "examples: no example below $root/docs/examples" >&2
    exit 1
fi
case $junit in
    */*) mkdir -p -- "${junit%/*}" ;;
esac
{
    printf '<testsuites><testsuite name="examples" tests="%s" failures="%s" errors="0">\n' "$count" "$failed"
    cat "$work/cases"
    printf '</testsuite></testsuites>\n'
} >"$junit"
echo "examples: $count run, $failed failed"
[ "$failed" -eq 0 ]
