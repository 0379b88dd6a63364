//! The answers to cases, by arithmetic; the table of metrics; reality.

mod cases;
mod cost;
mod metrics;
mod wire;
