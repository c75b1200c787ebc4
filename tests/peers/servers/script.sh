#!/bin/sh
# A script of the kind that people write around a server: it prepares something,
# starts the server as its child and waits. It does not pass signals on.
export FROM_SCRIPT=yes
"$(dirname "$0")/../serve" "$@"
status=$?
echo "the server ended with $status" >&2
exit $status
