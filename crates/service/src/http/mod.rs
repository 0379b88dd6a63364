//! HTTP, for pages, REST and the admin address.
//!
//! ```text
//! server: one accept loop, connections bounded --> admission: whose web page asks? --> router (a room's table: routes)
//!                                                    | call: path, query, body, checked by the route
//!                                                    v
//!         handlers --> json_response, Problem, Page, frames (a body made while it is read), live (WebSockets, bounded)
//! ```

mod admission;
mod call;
mod frames;
mod live;
mod page;
mod places;
mod problem;
mod routes;
mod server;

pub use admission::Settings;
pub(crate) use call::unknown;
pub use call::{ANY, Call, Kind, Parameter};
pub use frames::{event, events, frames};
pub use live::{End, Said, Socket, Sockets};
pub use page::{Built, Page, is_wanted};
pub use places::{Place, Places};
pub use problem::{Answer, JSON, Problem, json_response};
pub use routes::{Later, Route, Verb, index, reference, router};
pub use server::{Ended, Error, Limits, Peer, Server, Serving};
