//! The machine against a stated load.
//!
//! ```text
//! load --> need: the receive buffer that the longest stall takes (trial: what a datagram weighs)
//! facts --> findings: what is wrong, the evidence, what mends it, what that costs
//!              |
//!              v
//!           apply: trial, journal, change, trial again; what does not help is rolled back <-- undo
//! ```

pub mod apply;
pub mod facts;
pub mod findings;
pub mod journal;
pub mod load;
pub mod setting;
pub mod trial;
