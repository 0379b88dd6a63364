//! Bodies that are made while the client reads them, and server-sent events in them.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use serde::Serialize;

use weir_program::escape;

/// A body of frames: `next` makes one, with what the one after is made from, once the connection has room for it and not
/// before. `None` ends the body; whoever leaves drops what makes it.
pub fn frames<S, F>(state: S, next: impl FnMut(S) -> F + Send + Unpin + 'static) -> Body
where
    S: Send + Unpin + 'static,
    F: Future<Output = Option<(Bytes, S)>> + Send + 'static,
{
    Body::new(Frames { state: Some(state), next, making: None })
}

/// A server-sent event: lines that end with `\n` before its data, and the data as JSON, which has no bare line ends.
pub fn event(head: &str, data: &impl Serialize) -> Bytes {
    let mut event = format!("{head}data: ").into_bytes();
    // Writing to memory does not fail, and values of ours have strings for keys.
    let _ = escape::write_json(&mut event, data);
    event.extend_from_slice(b"\n\n");
    event.into()
}

/// The answer that a body of server-sent events is.
pub fn events(body: Body) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
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
