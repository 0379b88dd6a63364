//! Sends a stream: numbered datagrams of what its channels have, thinned, with every gap.
//!
//! ```text
//! samples, or blocks -> Lane: thinner, pieces that wait -> packer -> sealed -> Outlet (UDP: one place, or several that get the same)
//! ```
//!
//! What the outlet does not take goes in front of the lane's next pieces as a gap, and its number is used again: for each lane,
//! pushed = sent + gaps + waiting. [`Sender`] knows no clock and no socket.

mod lane;
mod outlet;
mod pace;
mod sender;
#[cfg(test)]
mod tests;

pub use lane::Lane;
pub use outlet::{Group, Outlet, OutletCount, Outlets, Patient, REASONS};
pub use sender::{Counts, Sender, Stream};
