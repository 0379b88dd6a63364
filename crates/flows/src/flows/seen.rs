//! Which keys samples have.

use super::Packet;
use super::field::Field;
use super::value::Scratch;

/// When each key was last seen. One sample in a hundredth of a second is looked at: reading every key of each would cost more
/// than all definitions together.
#[derive(Debug)]
pub struct Seen {
    /// By key, in the order of their table, in seconds on the clock of flows.
    last: Vec<Option<f64>>,
    due: f64,
    scratch: Scratch,
}

impl Default for Seen {
    fn default() -> Self {
        Self { last: vec![None; Field::TABLE.len()], due: 0.0, scratch: Scratch::default() }
    }
}

impl Seen {
    /// A packet is told of now.
    #[inline]
    pub fn packet(&mut self, packet: &Packet<'_>, now: f64) {
        if now >= self.due {
            self.look(packet, now);
        }
    }

    #[cold]
    fn look(&mut self, packet: &Packet<'_>, now: f64) {
        self.due = now + APART;
        for (key, last) in Field::TABLE.iter().zip(&mut self.last) {
            self.scratch.clear();
            if !packet.field(key.field, 0, &mut self.scratch).is_null() {
                *last = Some(now);
            }
        }
    }

    /// When each key was last seen, in the order of [`super::keys`]; `None`: never.
    pub fn last(&self) -> &[Option<f64>] {
        &self.last
    }
}

/// From one sample that is looked at to the next, s.
const APART: f64 = 0.01;
