//! For how many dropped packets a discarded-packet sample stands: most agents tell so many a second, and only count the others.
//!
//! `sequence_number` counts the samples, `drops` the packets without one (sFlow Discarded Packet Reporting, version 1.0): their sum
//! is all packets that were dropped, a pool of rate 1. Its growth beyond the samples themselves is handed out over the next 128 of
//! them, as that of other pools, but within seconds: the share that is told changes with what is dropped, from one in a thousand to
//! all, and a flood that is over must not weigh in single drops behind it.

use serde::{Deserialize, Serialize};

use crate::agents::{Moment, Nanos};

use super::{MEMORY, Sampler};

/// The discarded-packet samples of one data source.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Discards {
    sampler: Sampler,
    /// Packets without a sample that are not yet handed out. Not kept over a restart: what was dropped meanwhile is not of now.
    #[serde(skip)]
    untold: f32,
    /// When the latest sample came; 0: none has, since this program began.
    #[serde(skip)]
    last: Nanos,
}

impl Discards {
    /// Dropped packets that a sample stands for, that came with a datagram of this moment. `None`: it has been here before, or nobody
    /// knows.
    pub fn sample(&mut self, moment: &Moment, sequence: u32, drops: u32) -> Option<f64> {
        let weight = self.sampler.sample(moment, sequence, 1, sequence.wrapping_add(drops), drops)?;
        let last = self.last;
        self.last = last.max(moment.now);
        let Some(passed) = weight.passed.filter(|_| last != 0) else {
            self.untold = 0.0;
            return Some(1.0);
        };
        let silence = moment.now.saturating_sub(last) as f32 / PRESENT;
        if silence > 1.0 {
            self.untold = 0.0;
        }
        // Of what was dropped in a long silence, only its end is of now. A late one was counted with the one that overtook it.
        self.untold = (self.untold + (passed as f32 - 1.0) / silence.max(1.0)).max(0.0);
        let handed_out = self.untold * silence.clamp(1.0 / MEMORY, 1.0);
        self.untold -= handed_out;
        Some(1.0 + f64::from(handed_out))
    }

    /// What came of the samples, and how uneven the gaps between them are, in dropped packets.
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }
}

/// Time within which packets without a sample are handed out, ns.
const PRESENT: f32 = 5e9;
