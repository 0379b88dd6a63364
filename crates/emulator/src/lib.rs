//! One emulated link, and the threads that drive many of them.
//!
//! [`model`] decides what happens to each packet, as a pure state machine on a virtual clock.
//! [`datapath`] carries real frames between two interfaces and asks the model, in real time.
//! [`ledger`] is what both count: packets received, sent, and the rest.

pub mod datapath;
pub mod ledger;
pub mod model;
