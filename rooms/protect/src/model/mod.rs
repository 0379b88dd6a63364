//! The words of the room: what is done about attacks, and what [`weir_detect`] says of them.

mod action;
mod attack;
mod board;

pub use action::{Action, Route};
pub use attack::{Attack, Command, Installed, Level, Mode, Phase, Refusal};
pub use board::{Board, Caps, Counts, Group, Neighbour, Speaking, Stopped};
pub use weir_detect::model::*;
