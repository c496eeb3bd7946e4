#!/bin/sh
# jobs.sh COMMAND...: runs it, at most three times a day.
throttle take '3/day calendar-window Europe/Berlin' "$1"
case $? in
0) exec "$@" ;;
4) exit 0 ;; # three today already
*) exit 1 ;; # not decided: the store is away, or the rule is wrong
esac
