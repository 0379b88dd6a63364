#!/bin/sh
# Builds the pages into the folders of their rooms, to the same bytes wherever this folder lies.
set -eu
cd "$(dirname "$0")"
esbuild="$PWD/node_modules/.bin/esbuild"
bundle() {
    "$esbuild" "$@" --bundle --minify --format=esm --target=es2022 --jsx=automatic --jsx-import-source=preact \
        --legal-comments=none --log-level=warning
}
page=../rooms/sflow/page
bundle sflow/main.tsx --outfile=$page/page.js
bundle ground/connection/worker.ts --outfile=$page/worker.js
bundle sflow/page.css --outfile=$page/page.css
cp sflow/index.html $page/index.html
