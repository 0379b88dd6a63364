//! A speaker's table, held equal to what is wanted: gobgpd, over its gRPC interface (v3 and v4).
//!
//! ```text
//! want(routes) --> desired: one announcement a route (wire: NLRI and attributes as bytes)
//!                     |                       look: local paths that gobgpd has, own = with this Weir's number
//!                     v                       v
//!                  table: what to withdraw, what to announce, whom not to touch
//!                     |  one stream, withdrawals first
//!                     v
//! gobgpd ----------> look again: what is there is installed, and nothing else is said to be
//!    | events of its neighbours --> state()
//!    v
//! neighbours (Weir's own, added last: after the routes)
//! ```
//!
//! gobgpd keeps injected paths in memory alone. When it was restarted it has none, and the End-of-RIB that it sends to a
//! neighbour at once makes that neighbour drop what it had kept. So it is configured without neighbours: a session with it
//! begins with the routes, and ends with the neighbours ([`Settings::neighbours`]), who are asked to keep what they have
//! until then (RFC 4724).
//!
//! Routes travel as bytes (`nlri_binary`, `pattrs_binary`), for which gobgpd's v3 and v4 have the same fields: one encoder
//! (RFC 8955, 8956), one comparison, and no translation of each kind of attribute there and back.

mod desired;
pub mod foreign;
mod gobgp;
mod marker;
mod neighbours;
mod session;
mod settings;
mod speaker;
mod state;
mod table;
pub mod text;
mod wire;

pub use marker::Instance;
pub use settings::{Neighbour, OnStop, Password, Settings};
pub use speaker::Speaker;
pub use state::{NeighbourState, Session, State};
