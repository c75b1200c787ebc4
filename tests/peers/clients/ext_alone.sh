#!/usr/bin/env bash
# ext_alone.sh URL: ext-tasks on the SDK's `Client` and nothing else, in the modern era. It prints why it does not work.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
peers=$(cd "${TASKGATE_PEERS:-$here/../../../target/peers}" && pwd)
export TASKGATE_PEERS=$peers
exec "$peers/bin/node" "$here/ext_alone.mjs" "$@"
