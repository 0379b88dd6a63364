//! What users see of flows, against the truth.

mod coverage;
mod devices;
mod discards;
mod fabric;
mod model;
