#!/bin/sh
# The items of the kill matrix. The first argument names the family of lines: early, shape, late, flight, listing,
# or whole (opaque).
#
# Each process of an item writes its number to pids/<tag>, or has its parent do it. An item of the family `shape` waits
# at gate/<tag> (a pipe) once all its processes are there. Its second attempt passes at once.
family=$1
top=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if [ "${TE_CI_SETUP_ONLY:-}" = 1 ]; then exit 0; fi
code=0

line() { # TAG COMMAND...
    if [ "${TE_CI_LIST_ITEMS:-}" = 1 ]; then
        echo "TE_CI_ITEM $1"
        return 0
    fi
    if [ "${TEST_FILTER:-}" != "$1" ]; then return 0; fi
    tag=$1 xml=$JUNITXML_PREFIX$1$JUNITXML_SUFFIX
    shift
    "$@"
}

cases() { # GOOD BAD: a JUnit file
    good=$1 bad=$2 n=0
    {
        echo "<testsuites><testsuite name='inner' tests='$((good + bad))' failures='$bad' errors='0'>"
        while [ "$n" -lt "$good" ]; do
            n=$((n + 1))
            echo "<testcase classname='$family' name='test_good_$n' time='0.001'/>"
        done
        while [ "$bad" -gt 0 ]; do
            echo "<testcase classname='$family' name='test_bad_$bad' time='0.001'>"
            echo "<failure message='sum is off by $bad'>assert False</failure></testcase>"
            bad=$((bad - 1))
        done
        echo "</testsuite></testsuites>"
    } >"$xml"
}

failing() {
    cases 2 1
    code=3
}

ran() { echo "TE_CI_RAN $tag"; }

# ---------------------------------------------------------------- the five shapes

own() { echo "$1" >>"$top/pids/$tag"; }

shape() { # COMMAND: what to start
    own $$
    echo "$PPID" >"$top/workers/$tag"
    if mkdir "$top/begun/$tag"; then
        "$1"
        read -r _ <"$top/gate/$tag"
        # Tidy up as a good item does, so that nothing is called a leak.
        grep -vx $$ "$top/pids/$tag" | xargs kill -KILL
    fi
    cases 1 0
}

plain() {
    sleep 86477 &
    own $!
}

deaf() {
    (
        trap '' TERM INT HUP
        exec sleep 86477
    ) &
    own $!
}

session() { # a leader and its child, both in a session of their own
    # shellcheck disable=SC2016 # another shell's
    setsid sh -c 'sleep 86477 & echo $$ >>"$1"; echo $! >>"$1"; wait' session "$top/pids/$tag" &
}

daemon() { # its parent is gone at once, its standard streams are closed, and it asks to be left alone
    # shellcheck disable=SC2016
    (
        setsid sh -c 'echo $$ >>"$1"; trap "" TERM INT HUP; exec sleep 86477' daemon "$top/pids/$tag" <&- >&- 2>&- &
    )
}

many() {
    count=0
    while [ "$count" -lt 200 ]; do
        sleep 86477 &
        own $!
        count=$((count + 1))
    done
}

# ---------------------------------------------------------------- the lines

case $family in
    early)
        line good cases 2 0
        line bad failing
        line said ran
        ;;
    shape)
        for one in plain deaf session daemon many; do line "$one" shape "$one"; done
        ;;
    late)
        line one cases 1 0
        line two ran
        ;;
    flight)
        count=0
        while [ "$count" -lt 60 ]; do
            count=$((count + 1))
            line "quick.$count" cases 1 0
        done
        ;;
    listing) # a script that is busy when it is asked for its items
        tag=listing
        own $$
        for one in plain session daemon; do "$one"; done
        wait
        ;;
    whole) echo "nothing asks for a proof here" ;;
esac
exit $code
