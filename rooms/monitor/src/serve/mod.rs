//! A monitor server: what stations send, kept, watched, shown and sent on.
//!
//! ```text
//! thread receive   receive -> keeper -> history, one lock a batch
//!                  history -> derive: channels made of others -> history
//! thread publish   history -> thinned -> datagrams to the group of viewers
//! thread http      page, WebSocket, REST (api) <- open: history, board, events
//! control          ten times a second: history -> board: limits, staleness, losses -> events; reloads
//! ```

mod board;
mod changes;
pub mod config;
pub mod control;
mod derive;
pub mod events;
pub mod glance;
mod keeper;
mod latch;
pub mod ledger;
mod limits;
mod losses;
mod open;
mod publish;
mod room;
pub mod settings;

pub(crate) use open::REFUSALS;
