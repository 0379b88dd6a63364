#!/bin/sh
# Builds the pages into the folders of their rooms, to the same bytes wherever this folder lies.
set -eu
cd "$(dirname "$0")"
esbuild="$PWD/node_modules/.bin/esbuild"
bundle() {
    "$esbuild" "$@" --bundle --minify --format=esm --target=es2022 --jsx=automatic --jsx-import-source=preact \
        --legal-comments=none --log-level=warning
}
sflow=../rooms/sflow/page
bundle sflow/main.tsx --outfile=$sflow/page.js
bundle ground/connection/worker.ts --outfile=$sflow/worker.js
bundle sflow/page.css --outfile=$sflow/page.css
cp sflow/index.html $sflow/index.html
monitor=../rooms/monitor/page
bundle monitor/main.tsx --outfile=$monitor/page.js
bundle monitor/page.css --outfile=$monitor/page.css
cp monitor/index.html $monitor/index.html
