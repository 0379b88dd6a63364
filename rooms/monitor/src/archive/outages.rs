//! What a server that was killed or stopped, and started again, did not send on meanwhile: its next session begins behind a gap.
//!
//! Servers count the same index for the same sample (periods since 1970), however late each has begun: there is room in front of the first
//! of a session. Stations begin with 0: in front of theirs there is none.

use std::collections::HashMap;

use weir_wire::signal::{Block, Cause, Channel, Gap, Values};

use super::Limits;
use crate::receive::Stream;

/// Where each channel stands that servers send on, from one session of a server to its next.
#[derive(Debug, Default)]
pub(super) struct Outages {
    /// By server, stream, origin and name.
    places: HashMap<[String; 4], usize>,
    /// By session and number of the channel.
    numbers: HashMap<u64, HashMap<u16, usize>>,
    /// Of all sessions together.
    numbered: usize,
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    /// Of which session the last block was.
    session: (u64, u16),
    /// Time behind it, ns; `None`: nothing came yet.
    end: Option<i64>,
}

impl Outages {
    /// A channel of a session is known.
    pub(super) fn follow(&mut self, stream: &Stream, channel: &Channel) {
        let key = (stream.session, channel.id);
        self.leave(key);
        if channel.origin.is_empty() {
            return;
        }
        let place = [&stream.station, &stream.name, &channel.origin, &channel.name].map(String::clone);
        let line = match self.places.get(&place) {
            Some(&line) => line,
            // As many as are kept at once: what comes beyond them is rare, and kept as it comes.
            None if self.lines.len() >= Limits::CHANNELS => return,
            None => {
                self.lines.push(Line { session: key, end: None });
                self.places.insert(place, self.lines.len() - 1);
                self.lines.len() - 1
            }
        };
        if self.numbered < 2 * Limits::CHANNELS {
            self.numbers.entry(key.0).or_default().insert(key.1, line);
            self.numbered += 1;
        }
    }

    /// A block of a channel comes: the gap in front of it, if it is the first of another session of its server.
    pub(super) fn before(&mut self, session: u64, block: &Block<'_>) -> Option<Block<'static>> {
        let key = (session, block.channel);
        let line = self.lines.get_mut(*self.numbers.get(&session)?.get(&block.channel)?)?;
        let end = i128::from(block.time) + block.rate.nanos(block.samples());
        let before = line.end.replace(i64::try_from(end).unwrap_or(i64::MAX));
        let earlier = std::mem::replace(&mut line.session, key);
        if earlier == key {
            return None;
        }
        // Of that one nothing comes any more.
        self.leave(earlier);
        let time = before?;
        let passed = i128::from(block.time) - i128::from(time);
        // To the nearest sample.
        let samples = block.rate.samples(passed + block.rate.nanos(1) / 2);
        let first = block.first.checked_sub(samples).filter(|_| samples > 0)?;
        let values = Values::Gap(Gap { samples, cause: Cause::Server });
        Some(Block { channel: block.channel, first, time, rate: block.rate, values })
    }

    /// A session has ended: its server may begin another.
    pub(super) fn end(&mut self, session: u64) {
        self.numbered -= self.numbers.remove(&session).map_or(0, |channels| channels.len());
    }

    /// A number of a session stands for nothing any more.
    fn leave(&mut self, (session, number): (u64, u16)) {
        let Some(channels) = self.numbers.get_mut(&session) else { return };
        self.numbered -= usize::from(channels.remove(&number).is_some());
        if channels.is_empty() {
            self.numbers.remove(&session);
        }
    }
}
