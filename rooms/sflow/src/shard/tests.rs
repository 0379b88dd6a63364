//! What users see of flows, against the truth.

mod coverage;
mod fabric;
