//! A speaker's table, held equal to what is wanted: gobgpd, over its gRPC interface (v3 and v4).
//!
//! ```text
//! want(routes) --> desired: one announcement a route (wire: NLRI and attributes as bytes)
//!                     |                       look: local paths that gobgpd has, own = with this Weir's id
//!                     v                       v
//!                  table: what to withdraw, what to announce, whom not to touch
//!                     |  one stream, withdrawals first
//!                     v
//! gobgpd ----------> look again: what the adj-out of an established neighbour has is in force, and nothing else is said to be
//!    | its neighbours, each second --> state()
//! ```
//!
//! gobgpd keeps injected paths in memory alone. When it was restarted it has none: routes are back about a second after it.
//!
//! Routes travel as bytes (`nlri_binary`, `pattrs_binary`), for which gobgpd's v3 and v4 have the same fields: one encoder
//! (RFC 8955, 8956), one comparison, and no translation of each kind of attribute there and back.

pub mod foreign;
mod gobgp;
mod marker;
mod session;
mod speaker;
mod state;
mod table;
mod wire;

pub use speaker::Speaker;
pub use state::State;
