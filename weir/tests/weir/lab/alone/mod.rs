//! What judges times, fills the processors, or looks through the whole machine.

mod bulk;
mod ci;
mod endings;
mod iperf3;
mod links;
mod payload;
mod shell;
mod standstills;
mod theft;
