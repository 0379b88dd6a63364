//! Every message, for whoever writes them down.

use std::sync::mpsc::{SyncSender, TrySendError};

use crate::Delivery;

/// Messages that wait to be handed over together.
pub(super) struct Deliveries {
    waiting: Vec<Delivery>,
    to: SyncSender<Vec<Delivery>>,
    /// Those that found the other end too slow.
    refused: u64,
}

impl Deliveries {
    pub(super) fn new(to: SyncSender<Vec<Delivery>>) -> Self {
        Self { waiting: Vec::with_capacity(TOGETHER), to, refused: 0 }
    }

    /// Adds one. The receiver waits for nobody: what finds no room is counted.
    pub(super) fn add(&mut self, delivery: Delivery) {
        self.waiting.push(delivery);
        if self.waiting.len() < TOGETHER {
            return;
        }
        let full = std::mem::replace(&mut self.waiting, Vec::with_capacity(TOGETHER));
        if let Err(TrySendError::Full(full) | TrySendError::Disconnected(full)) = self.to.try_send(full) {
            self.refused += full.len() as u64;
        }
    }

    /// Hands over the rest. How many were not.
    pub(super) fn finish(self) -> u64 {
        let rest = self.waiting.len() as u64;
        self.refused + if self.to.send(self.waiting).is_ok() { 0 } else { rest }
    }
}

/// 256 KiB.
const TOGETHER: usize = 4096;
