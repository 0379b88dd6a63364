//! Bodies that are made while the client reads them.

use std::convert::Infallible;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

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

/// A body of frames: `next` makes one, with what the one after is made from, once the connection has room for it and not
/// before. `None` ends the body; whoever leaves drops what makes it.
pub(crate) fn frames<S, F>(state: S, next: impl FnMut(S) -> F + Send + Unpin + 'static) -> Body
where
    S: Send + Unpin + 'static,
    F: Future<Output = Option<(Bytes, S)>> + Send + 'static,
{
    Body::new(Frames { state: Some(state), next, making: None })
}

/// Bytes after which a page is full.
pub(crate) const PAGE: usize = 64 * 1024;

/// What others wait for a page, at most.
const LONGEST: Duration = Duration::from_millis(20);

struct Frames<S, N, F> {
    state: Option<S>,
    next: N,
    making: Option<Pin<Box<F>>>,
}

impl<S, N, F> hyper::body::Body for Frames<S, N, F>
where
    S: Unpin,
    N: FnMut(S) -> F + Unpin,
    F: Future<Output = Option<(Bytes, S)>>,
{
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.making.is_none() {
            let Some(state) = this.state.take() else { return Poll::Ready(None) };
            this.making = Some(Box::pin((this.next)(state)));
        }
        let Some(making) = &mut this.making else { return Poll::Ready(None) };
        let made = ready!(making.as_mut().poll(context));
        this.making = None;
        Poll::Ready(made.map(|(frame, state)| {
            this.state = Some(state);
            Ok(Frame::data(frame))
        }))
    }
}
