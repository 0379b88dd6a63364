//! One emulated link, and the threads that drive many of them.
//!
//! [`model`] decides what happens to each packet, as a pure state machine on a virtual clock.
//! [`datapath`] carries real frames between two interfaces and asks the model, in real time.
//! [`ledger`] is the account that both keep: what came in, what left, and where the rest is.

pub mod datapath;
pub mod ledger;
pub mod model;
