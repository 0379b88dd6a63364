//! Bodies that are made while the client reads them.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame;

/// A body whose pages `write` makes when there is room for them; it returns whether there is more to come. A page may be
/// empty, then the next one follows at once.
pub(crate) fn pages(write: impl FnMut(&mut Vec<u8>) -> bool + Send + Unpin + 'static) -> Body {
    Body::new(Pages { write, ended: false })
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

struct Pages<W> {
    write: W,
    ended: bool,
}

impl<W: FnMut(&mut Vec<u8>) -> bool + Unpin> hyper::body::Body for Pages<W> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut page = Vec::new();
        while !self.ended && page.len() < PAGE {
            self.ended = !(self.write)(&mut page);
        }
        Poll::Ready((!page.is_empty()).then(|| Ok(Frame::data(page.into()))))
    }
}

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
