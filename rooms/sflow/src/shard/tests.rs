//! What users see of flows, against the truth.

mod announced;
mod coverage;
mod devices;
mod discards;
mod fabric;
mod model;
