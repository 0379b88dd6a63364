//! Bodies that are made while the client reads them.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use weir_service::http::frames;

/// A body whose pages `write` makes when there is room for them; it returns whether there is more to come. It is called beside the
/// reactor, in turn with other long work, for a page or [`LONGEST`] at a time: an answer about 50,000 agents holds up nobody.
pub(crate) fn pages(turns: Arc<Semaphore>, write: impl FnMut(&mut Vec<u8>) -> bool + Send + Unpin + 'static) -> Body {
    frames(Some(write), move |write| page(turns.clone(), write))
}

async fn page<W>(turns: Arc<Semaphore>, write: Option<W>) -> Option<(Bytes, Option<W>)>
where
    W: FnMut(&mut Vec<u8>) -> bool + Send + 'static,
{
    let mut write = write?;
    loop {
        let turn = turns.clone().acquire_owned().await.ok()?;
        let working = move || {
            let _turn = turn;
            let (begin, mut page, mut more) = (Instant::now(), Vec::new(), true);
            while more && page.len() < PAGE && begin.elapsed() < LONGEST {
                more = write(&mut page);
            }
            (page, more.then_some(write))
        };
        let (page, next) = match spawn_blocking(working).await {
            Ok(made) => made,
            // Half an answer must not look like a whole one: the connection breaks off.
            Err(failed) => resume_unwind(failed.try_into_panic().ok()?),
        };
        if !page.is_empty() {
            return Some((page.into(), next));
        }
        write = next?;
    }
}

/// Bytes after which a page is full.
pub(crate) const PAGE: usize = 64 * 1024;

/// What others wait for a page, at most.
const LONGEST: Duration = Duration::from_millis(20);
