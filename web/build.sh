#!/bin/sh
# Builds the pages into the folders of their rooms, to the same bytes wherever this folder lies.
set -eu
cd "$(dirname "$0")"
esbuild="$PWD/node_modules/.bin/esbuild"
bundle() {
    "$esbuild" "$@" --bundle --minify --format=esm --target=es2022 --jsx=automatic --jsx-import-source=preact \
        --legal-comments=none --log-level=warning
}
# A room, where its files are asked for, and where it says what REST is.
head() {
    sed "s|@ROOM@|$1|; s|@FILES@|$2|; s|@REST@|$3|" ground/index.html >"../rooms/$1/page/index.html"
}
sflow=../rooms/sflow/page
bundle sflow/main.tsx --outfile=$sflow/page.js
bundle ground/connection/worker.ts --outfile=$sflow/worker.js
bundle sflow/page.css --outfile=$sflow/page.css
head sflow /page "docs/sflow-rest.md, or curl this address"
monitor=../rooms/monitor/page
bundle monitor/main.tsx --outfile=$monitor/page.js
bundle monitor/page.css --outfile=$monitor/page.css
head monitor /page "curl this address"
protect=../rooms/protect/page
bundle protect/main.tsx --outfile=$protect/page.js
bundle protect/page.css --outfile=$protect/page.css
head protect /protect/page "curl this address"
