# shellcheck shell=sh
# Gives the suites of this repository the shell library of the package: the one in this checkout, or the
# installed one when a suite was copied somewhere else. A sourced POSIX script does not know its own path,
# so this looks upwards from the script that sources it.
case $0 in
    */*) te_ci_up=${0%/*} ;;
    *) te_ci_up=. ;;
esac
te_ci_lib=''
for te_ci_step in . .. ../.. ../../..; do
    if [ -f "$te_ci_up/$te_ci_step/pytest_sgpu/suite/te_ci.sh" ]; then
        te_ci_lib=$te_ci_up/$te_ci_step/pytest_sgpu/suite/te_ci.sh
        break
    fi
done
if [ -z "$te_ci_lib" ]; then
    te_ci_lib=$(sgpu shell-lib) || {
        echo "$0: no pytest_sgpu/suite/te_ci.sh near this script, and no command 'sgpu': pip install pytest-sgpu" >&2
        exit 2
    }
fi
unset te_ci_up te_ci_step
# shellcheck source=pytest_sgpu/suite/te_ci.sh
. "$te_ci_lib"
