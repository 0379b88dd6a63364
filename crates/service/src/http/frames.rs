//! Bodies that are made while the client reads them, and server-sent events in them.

use std::convert::Infallible;
use std::future::Future;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde::Serialize;

use weir_program::escape;

/// A body of frames: `next` makes one, with what the one after is made from, once the connection has room for it and not
/// before. `None` ends the body; whoever leaves drops what makes it.
pub fn frames<S, F>(state: S, mut next: impl FnMut(S) -> F + Send + 'static) -> Body
where
    S: Send + 'static,
    F: Future<Output = Option<(Bytes, S)>> + Send + 'static,
{
    Body::from_stream(unfold(state, move |state| {
        let made = next(state);
        async move { made.await.map(|(frame, state)| (Ok::<_, Infallible>(frame), state)) }
    }))
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
