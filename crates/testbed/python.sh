#!/bin/sh
# Fetches readers of others' making from PyPI for tests: below target/peers/python, which PYTHONPATH names. The machine stays as it was.
set -eu
cd "$(dirname "$0")/../.."
place=$PWD/target/peers/python
wanted='mcap==1.3.1 mcap-protobuf-support==0.5.4 exabgp==5.0.15 statsd==4.0.1 datadog==0.56.0'

[ "$(cat "$place/wanted" 2>/dev/null)" != "$wanted" ] || exit 0
if ! python3 -m pip --version >/dev/null 2>&1; then
    echo "peers: no pip; tests that need these are skipped: $wanted"
    exit 0
fi
mkdir -p "$place"
# One a word.
# shellcheck disable=SC2086
if python3 -m pip install --quiet --root-user-action=ignore --upgrade --target "$place" $wanted; then
    echo "$wanted" >"$place/wanted"
else
    echo "peers: no access to PyPI; tests that need these are skipped: $wanted"
fi
