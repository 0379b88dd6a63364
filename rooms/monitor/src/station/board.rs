//! The channels of a station: what each is, which index its next sample has, and the streams that it goes to.

use std::collections::HashMap;

use weir_program::clock::Nanos;
use weir_units::Frequency;
use weir_wire::signal::field::MOST_TEXT;
use weir_wire::signal::{Cause, Channel, Element, Rate};

use super::clock::Moment;
use super::config::{self, Config};
use super::settings::Source;
use weir_signal::send::{Lane, Outlets, Sender};

/// All channels, and where they go.
#[derive(Debug)]
pub(super) struct Board {
    /// Of one channel each.
    open: Vec<Open>,
    by_name: HashMap<String, Id>,
    /// Display, and full where there is one.
    pub(super) streams: Vec<Sender<Outlets>>,
    named: HashMap<String, config::Channel>,
    /// Buckets a second.
    display: Frequency,
    most_channels: usize,
    pub(super) now: Moment,
    /// Channels that there was no room for.
    pub(super) refused: u64,
    /// What sources have to say, for the log.
    pub(super) remarks: Vec<String>,
}

/// A channel, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(usize);

#[derive(Debug)]
struct Open {
    source: usize,
    /// As the source has it, where the configuration does not say.
    channel: Channel,
    origin: i64,
    /// Of its next sample.
    next: u64,
    /// Samples that its source missed.
    missed: u64,
    /// Points of it may come with times of their own: a step of this machine's clock is none of theirs.
    own_times: bool,
    /// When its sender started, as far as its times count from there.
    started: Option<i64>,
    /// Time of the last point that was from long before.
    stray: Option<i64>,
}

/// A channel to be opened.
#[derive(Clone, Debug)]
pub(super) struct Opening<'a> {
    /// Which source it is of.
    pub(super) source: usize,
    pub(super) name: &'a str,
    /// Where the configuration does not say.
    pub(super) unit: &'a str,
    /// Where the configuration does not say.
    pub(super) description: &'a str,
    pub(super) rate: Rate,
    /// Where the configuration does not say.
    pub(super) element: Element,
    /// Time of index 0.
    pub(super) origin: i64,
    /// Its times are not this machine's.
    pub(super) own_times: bool,
}

/// What became of a point with a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// It is the sample of a slot.
    Taken,
    /// So it is, and times go on from it: its clock was set, or begins again.
    Stepped,
    /// Its slot has one.
    Crowded,
    /// It is from before the channel's last sample.
    Late,
    /// It is from the future.
    Misplaced,
}

impl<'a> Opening<'a> {
    /// Of a source, as it has its channels.
    pub(super) fn of(source: usize, settings: &Source, name: &'a str, origin: i64) -> Self {
        let &Source { rate, element, .. } = settings;
        Self { source, name, unit: "", description: "", rate, element, origin, own_times: false }
    }
}

impl Board {
    pub(super) fn new(config: &Config, streams: Vec<Sender<Outlets>>) -> Self {
        Self {
            open: Vec::new(),
            by_name: HashMap::new(),
            streams,
            named: by_name(&config.channel),
            display: config.display,
            most_channels: config.most_channels.into(),
            now: Moment::default(),
            refused: 0,
            remarks: Vec::new(),
        }
    }

    /// The channel of that name, which is opened now if there is none; `None`: there is no room, the name is empty or too long, or
    /// another source has it.
    pub(super) fn channel(&mut self, opening: &Opening<'_>) -> Option<Id> {
        if let Some(&id) = self.by_name.get(opening.name) {
            let is_its = self.open[id.0].source == opening.source;
            self.refused += u64::from(!is_its);
            return is_its.then_some(id);
        }
        if opening.name.is_empty() || opening.name.len() > MOST_TEXT || self.open.len() >= self.most_channels {
            self.refused += 1;
            return None;
        }
        let id = Id(self.open.len());
        let said = self.named.get(opening.name);
        let channel = Channel {
            // No more than most_channels, which fits.
            id: id.0 as u16,
            name: opening.name.to_owned(),
            unit: opening.unit.to_owned(),
            description: opening.description.to_owned(),
            rate: opening.rate,
            element: said.and_then(|said| said.element).map_or(opening.element, Into::into),
            ..Channel::default()
        };
        let streams = self.streams.iter_mut().enumerate();
        for (at, stream) in streams.filter(|(at, _)| *at == DISPLAY || said.is_some_and(|said| said.full)) {
            let channel = described(&channel, said, (at == DISPLAY).then_some(self.display));
            let bucket = channel.bucket;
            stream.add(Lane::new(channel, 0, opening.origin, bucket));
        }
        let &Opening { source, origin, own_times, .. } = opening;
        self.open.push(Open { source, channel, origin, next: 0, missed: 0, own_times, started: None, stray: None });
        self.by_name.insert(opening.name.to_owned(), id);
        Some(id)
    }

    /// Index of its next sample.
    pub(super) fn next(&self, id: Id) -> u64 {
        self.open[id.0].next
    }

    /// Its next samples.
    pub(super) fn samples(&mut self, id: Id, samples: &[f64]) {
        let open = &mut self.open[id.0];
        for stream in &mut self.streams {
            stream.push(id.0 as u16, open.next, samples, self.now.elapsed);
        }
        open.next += samples.len() as u64;
    }

    /// Its source missed so many.
    pub(super) fn skip(&mut self, id: Id, samples: u64) {
        let open = &mut self.open[id.0];
        for stream in &mut self.streams {
            stream.miss(id.0 as u16, open.next, samples, Cause::Source, self.now.elapsed);
        }
        open.next += samples;
        open.missed += samples;
    }

    /// A sample with a time of its own: since 1970, or since the start of its sender. A channel has one slot a period; a point is the
    /// sample of the next slot if it is less than a period away from it. Slots that are skipped are missing: their source did not fill
    /// them. A step of more than an hour is no gap. Two points in order that are from long before tell of a clock that was set back.
    pub(super) fn place(&mut self, id: Id, time: i64, is_since_start: bool, value: f64) -> Placed {
        let now = self.now.utc;
        let Open { channel: Channel { rate, .. }, origin, next, ref mut started, ref mut stray, .. } = self.open[id.0];
        let at = match is_since_start {
            true => time.saturating_add(*started.get_or_insert(now.saturating_sub(time))),
            false => time,
        };
        let period = rate.nanos(1);
        let ahead = i128::from(at) - i128::from(origin) - rate.nanos(next);
        let is_future = at > now.saturating_add(FAR);
        // A sender that counts from its start sends in order.
        let long_ago = if is_since_start { -2 * period } else { (-2 * period).min(-i128::from(FAR)) };
        if ahead <= long_ago {
            let follows = |stray: i64| (0..=FAR).contains(&at.saturating_sub(stray));
            if !stray.replace(at).is_some_and(follows) {
                return Placed::Late;
            }
        } else if ahead <= -period {
            return if ahead > -2 * period { Placed::Crowded } else { Placed::Late };
        } else if is_future && !is_since_start {
            return Placed::Misplaced;
        } else if ahead <= HOUR && !is_future {
            *stray = None;
            if ahead >= period {
                self.skip(id, rate.samples(ahead + period / 2));
            }
            self.samples(id, &[value]);
            return Placed::Taken;
        }
        (*started, *stray) = (Some(now.saturating_sub(time)), None);
        let begin = if is_since_start { now } else { at };
        let origin = i128::from(begin) - rate.nanos(next);
        self.set_origin(id, i64::try_from(origin).unwrap_or(i64::MIN));
        self.samples(id, &[value]);
        Placed::Stepped
    }

    /// Times of this machine's clock go on by a step.
    pub(super) fn shift(&mut self, step: i64) {
        for at in 0..self.open.len() {
            if !self.open[at].own_times {
                self.set_origin(Id(at), self.open[at].origin.saturating_add(step));
            }
        }
    }

    fn set_origin(&mut self, Id(at): Id, origin: i64) {
        self.open[at].origin = origin;
        for lane in self.streams.iter_mut().filter_map(|stream| stream.lanes.get_mut(&(at as u16))) {
            // What is older has the times that it had.
            lane.flush();
            lane.origin = origin;
        }
    }

    /// Names that are described, and no channel has.
    pub(super) fn unfit(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.named.keys().filter(|name| !self.by_name.contains_key(*name)).cloned().collect();
        names.sort();
        names
    }

    /// Of every channel, how many samples were due so far.
    pub(super) fn due(&self) -> Vec<u64> {
        self.open.iter().map(|open| open.next).collect()
    }

    /// Samples of all channels of a source that it missed so far.
    pub(super) fn missed(&self, source: usize) -> u64 {
        self.open.iter().filter(|open| open.source == source).map(|open| open.missed).sum()
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Channels go on with other descriptions and display rates, where those are told anew.
    pub(super) fn describe(&mut self, channels: &[config::Channel], display: Frequency) {
        self.named = by_name(channels);
        self.display = display;
        for Open { channel, .. } in &self.open {
            for (at, stream) in self.streams.iter_mut().enumerate() {
                let Some(lane) = stream.lanes.get_mut(&channel.id) else { continue };
                let channel = described(channel, self.named.get(&channel.name), (at == DISPLAY).then_some(display));
                lane.set_bucket(channel.bucket);
                stream.describe(channel);
            }
        }
    }

    /// When something is to be sent next.
    pub(super) fn due_at(&self, delay: Nanos) -> Nanos {
        self.streams.iter().map(|stream| stream.due(delay)).min().unwrap_or(Nanos::MAX)
    }
}

fn by_name(channels: &[config::Channel]) -> HashMap<String, config::Channel> {
    channels.iter().map(|channel| (channel.name.0.clone(), channel.clone())).collect()
}

/// A channel as it is sent: as its source has it, where the configuration does not say. `display`: of a stream that is thinned.
fn described(channel: &Channel, said: Option<&config::Channel>, display: Option<Frequency>) -> Channel {
    let display = display.map(|usual| said.and_then(|said| said.display).unwrap_or(usual));
    let bucket = display.map_or(1, |display| bucket(channel.rate, display.micro_hertz as f64 / 1e6));
    let channel = Channel { bucket, ..channel.clone() };
    match said {
        Some(said) => said.describe(channel),
        None => channel,
    }
}

/// Samples a bucket for so many buckets a second. A bucket takes as much room as four samples: below that, each sample is sent.
fn bucket(rate: Rate, display: f64) -> u32 {
    if display <= 0.0 {
        return 1;
    }
    let samples = (rate.per_s() / display).ceil();
    if samples <= 4.0 { 1 } else { samples as u32 }
}

/// Of the streams, the one that is thinned.
pub(super) const DISPLAY: usize = 0;

/// Clocks that differ by more are not set, ns: a point from farther in the future would keep its channel from going on.
const FAR: i64 = 10_000_000_000;

/// A source that was silent for longer has not missed samples, but was off or had its clock set, ns.
const HOUR: i128 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_channels_go_out_as_they_are() {
        let of = |hertz, display| bucket(Rate::hertz(hertz), display);
        assert_eq!(
            [of(100, 200.0), of(800, 200.0), of(1000, 200.0), of(1_000_000, 200.0), of(1, 0.1)],
            [1, 1, 5, 5000, 10]
        );
        assert_eq!(of(1000, 0.0), 1);
    }
}
