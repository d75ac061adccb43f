#!/usr/bin/env bash
# beside.sh FIRST SECOND [NAME=value ...]: two targets of make beside each other. What the second one says comes when the
# first has ended. Fails where one of them does.
set -u
first=$1 second=$2
shift 2
said=$(mktemp)
trap 'rm -f "$said"' EXIT
make --no-print-directory "$second" "$@" >"$said" 2>&1 &
other=$!
failed=0
make --no-print-directory "$first" "$@" || failed=1
wait "$other" || failed=1
cat "$said"
exit "$failed"
