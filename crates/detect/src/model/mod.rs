//! What was seen, and what is under attack.

mod class;
mod detection;
mod rule;
mod sighting;

pub use class::Class;
pub use detection::{Detection, Doubt, Evidence, Finding, Harm, Rate, Share, Spot, Target, Threshold};
pub use rule::{Icmp, Ports, Rule, TcpFlags};
pub use sighting::{Alive, Contested, Packet, Point, Sighting, Transport, Why, Word};
