//! Bodies that are made while the client reads them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::mpsc::Receiver;

/// A body whose pages `write` makes when there is room for them; it returns whether there is more to come. A page may be
/// empty, then the next one follows at once.
pub(crate) fn pages(write: impl FnMut(&mut Vec<u8>) -> bool + Send + Unpin + 'static) -> Body {
    Body::new(Pages { write, ended: false })
}

/// A body of what a task sends.
pub(crate) fn sent(frames: Receiver<Bytes>) -> Body {
    Body::new(Sent(frames))
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

struct Sent(Receiver<Bytes>);

impl hyper::body::Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
    }
}
