//! The page of a server, its WebSocket and its REST.

mod shown;

pub use shown::{Alarm, Event, Severity, Shown, State};
