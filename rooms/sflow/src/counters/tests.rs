//! The answers to cases, by arithmetic; the table of metrics; reality.

mod aggregates;
mod cases;
mod metrics;
mod wire;
