//! The page: files that `make web` builds.

use weir_service::http::Page;

/// The page, which may also follow these servers.
pub(super) fn page(peers: &[String]) -> Page {
    let sockets = peers.iter().map(|peer| peer.replacen("http", "ws", 1));
    let others: Vec<String> = peers.iter().cloned().chain(sockets).collect();
    let files = [
        file!("index.html", "text/html; charset=utf-8"),
        file!("page.js", "text/javascript; charset=utf-8"),
        file!("page.css", "text/css; charset=utf-8"),
    ];
    Page::new(files, &others)
}

macro_rules! file {
    ($name:literal, $media:literal) => {
        ($name, $media, include_bytes!(concat!("../../page/", $name)).as_slice())
    };
}
use file;
