//! What users see of flows, against the truth.

mod coverage;
mod discards;
mod fabric;
mod pretenders;
mod readers;
mod standstills;
