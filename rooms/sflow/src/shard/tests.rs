//! What users see of flows, against the truth.

mod coverage;
mod discards;
mod fabric;
mod model;
mod pretenders;
mod readers;
mod standstills;
