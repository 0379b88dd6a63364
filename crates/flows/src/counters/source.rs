//! All that is known of a data source by its counters.

use serde::{Deserialize, Serialize};
use weir_wire::sflow::CounterSample;

use super::block::{Block, Reason, Reasons, STALE, age, identity};
use super::metric::{Metric, Number};
use crate::agents::{Moment, Nanos};

/// Records that are kept of a data source.
const BLOCKS: usize = 64;
/// How often counters are taken to be sent until that has been seen, s.
const POLLING: f32 = 60.0;

/// The counters of one data source.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Counters {
    blocks: Vec<Block>,
    number: Option<u32>,
    /// When the first sample came.
    since: Nanos,
    last: Moment,
    /// How often samples come, s; 0: not known yet.
    polling: f32,
    missed: Missed,
}

/// What the sequence numbers of a data source's samples tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// Never came.
    pub lost: u32,
    /// Came again, within the datagram or in another one of the same instant.
    pub duplicates: u32,
    /// Overtaken by later ones; not taken.
    pub late: u32,
}

/// After what time without news something is stale that comes this often, s. `None`: nobody knows yet how often.
pub fn stale_after(polling: Option<f64>) -> f64 {
    STALE * polling.unwrap_or(f64::from(POLLING))
}

/// A metric's value, and what it is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading<'a> {
    /// The value.
    pub value: Number<'a>,
    /// Over what time, s, if it is a rate.
    pub interval: f64,
    /// How long ago it came.
    pub age: Nanos,
    /// Whether the next should have come long ago: more than three times the polling interval.
    pub stale: bool,
}

impl Counters {
    /// Takes a sample that came with a datagram of this moment.
    pub fn sample(&mut self, moment: Moment, sample: &CounterSample<'_>, reasons: &mut Reasons) {
        if moment.late && !self.is_newer(&moment) {
            // What it would tell, the later one has told, over a longer interval.
            reasons.count(Reason::Late);
            self.overtaken(sample.sequence);
            return;
        }
        let reason = self.order(&moment, sample.sequence, reasons);
        for record in sample.records() {
            let Some((record, structure)) = record.ok().and_then(|record| Some((record, record.structure?))) else {
                reasons.count(Reason::Unreadable);
                continue;
            };
            let identity = identity(&record);
            let same = |block: &Block| block.structure.format == structure.format && block.identity == identity;
            match self.blocks.iter().position(same) {
                Some(at) => self.blocks[at].update(&record, moment, reason, reasons),
                None if self.blocks.len() < BLOCKS => {
                    self.blocks.reserve_exact(1);
                    self.blocks.push(Block::new(&record, structure, moment, reasons));
                }
                None => reasons.count(Reason::Refused),
            }
        }
    }

    /// Whether a sample of a datagram that was overtaken was made after all that were taken: those that overtook it had none of this data source.
    fn is_newer(&self, moment: &Moment) -> bool {
        if self.number.is_none() || moment.epoch != self.last.epoch {
            return true;
        }
        // By its arrival alone nobody knows when it was sent.
        let later = moment.uptime.wrapping_sub(self.last.uptime) as i32;
        moment.clock != 0 && moment.clock == self.last.clock && later > 0
    }

    /// Whether totals can be compared with those before. The numbers of samples decide nothing: some agents give all the same, or those of their
    /// places in a datagram.
    fn order(&mut self, moment: &Moment, number: u32, reasons: &mut Reasons) -> Option<Reason> {
        if self.number.is_none() {
            self.since = moment.now;
        }
        let before = std::mem::replace(&mut self.last, *moment);
        let ahead = self.number.replace(number).map(|newest| number.wrapping_sub(newest) as i32)?;
        if moment.epoch != before.epoch {
            self.polling = 0.0;
            return Some(Reason::Restart);
        }
        let lost = ahead.saturating_sub(1).max(0).unsigned_abs();
        reasons.add(Reason::Lost, lost);
        self.missed.lost = self.missed.lost.saturating_add(lost);
        self.missed.duplicates += u32::from(ahead == 0 && moment.uptime == before.uptime);
        let seconds = (moment.now.saturating_sub(before.now) as f64 / 1e9) as f32;
        self.polling += if self.polling == 0.0 { seconds } else { (seconds - self.polling) / 4.0 };
        None
    }

    /// One whose datagram came late, and that is not taken: if it is older than the newest, it was counted as lost.
    fn overtaken(&mut self, number: u32) {
        self.missed.late = self.missed.late.saturating_add(1);
        match self.number.map(|newest| number.wrapping_sub(newest) as i32) {
            Some(..0) => self.missed.lost = self.missed.lost.saturating_sub(1),
            Some(0) => {}
            Some(ahead) => {
                self.missed.lost = self.missed.lost.saturating_add(ahead.unsigned_abs() - 1);
                self.number = Some(number);
            }
            None => {}
        }
    }

    /// Whether two of several streams tell of one data source: another one has since the latest began, and within three polling intervals.
    pub fn are_shared(streams: &[&Self]) -> bool {
        let latest = |of: fn(&Self) -> Nanos| streams.iter().map(|one| of(one)).max().unwrap_or(0);
        let (since, newest) = (latest(|one| one.since), latest(|one| one.last.now));
        let is_fresh = |one: &&&Self| (newest - one.last.now) as f64 <= stale_after(one.polling()) * 1e9;
        let goes_on = |one: &&&Self| !one.blocks.is_empty() && one.last.now >= since;
        streams.iter().filter(goes_on).filter(is_fresh).count() > 1
    }

    /// What did not come as it should.
    pub fn missed(&self) -> Missed {
        self.missed
    }

    /// How often samples come, s. `None`: not known yet.
    pub fn polling(&self) -> Option<f64> {
        (self.polling > 0.0).then_some(f64::from(self.polling))
    }

    /// What is known, record by record, in the order in which they first came.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// A metric, as it is now.
    ///
    /// # Errors
    /// Why there is no value. `None`: the data source does not have it at all.
    pub fn read(&self, metric: &Metric, now: Nanos) -> Option<Result<Reading<'_>, Reason>> {
        let block = self.blocks.iter().find(|block| block.structure.format == metric.structure.format)?;
        Some(metric.of(block).map(|value| {
            let age = age(&block.moment, now);
            let stale = age as f64 / 1e9 > stale_after(self.polling());
            Reading { value, interval: f64::from(block.interval), age, stale }
        }))
    }
}
