//! The page: files that `make web` builds. There is nothing of anybody in them, so whoever comes gets them, and is asked who it is.

use std::sync::LazyLock;

use weir_service::http::Page;

macro_rules! file {
    ($name:literal, $media:literal) => {
        ($name, $media, include_bytes!(concat!("../../page/", $name)).as_slice())
    };
}

pub(super) static PAGE: LazyLock<Page> = LazyLock::new(|| {
    let files = [
        file!("index.html", "text/html; charset=utf-8"),
        file!("page.js", "text/javascript; charset=utf-8"),
        file!("page.css", "text/css; charset=utf-8"),
    ];
    Page::new(files, &[])
});
