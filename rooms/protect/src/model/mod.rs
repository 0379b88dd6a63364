//! The words of the room: what was seen, what is under attack, what is done about it.

mod action;
mod attack;
mod board;
mod class;
mod detection;
mod rule;
mod sighting;

pub use action::{Action, Route};
pub use attack::{Attack, Command, Harm, Installed, Level, Mode, Phase, Refusal};
pub use board::{Board, Caps, Counts, Group, Neighbour, Speaking, Stopped, Threshold};
pub use class::Class;
pub use detection::{Detection, Doubt, Evidence, Finding, Rate, Share, Spot, Target};
pub use rule::{Icmp, Ports, Rule, TcpFlags};
pub use sighting::{Alive, Contested, Packet, Point, Sighting, Transport, Why, Word};
