//! The channels of a station: what each is, which index its next sample has, and the streams that it goes to.

use std::collections::HashMap;

use weir_program::clock::Nanos;
use weir_wire::signal::field::MOST_TEXT;
use weir_wire::signal::{Cause, Channel, Element, Rate};

use super::clock::Moment;
use super::lane::Lane;
use super::settings::{ChannelSettings, Settings};
use super::stream::Stream;

/// All channels, and where they go.
#[derive(Debug)]
pub(super) struct Board {
    /// Of one channel each.
    open: Vec<Open>,
    by_name: HashMap<String, Id>,
    /// Display, and full where there is one.
    pub(super) streams: Vec<Stream>,
    named: HashMap<String, ChannelSettings>,
    /// Buckets a second.
    display: f64,
    most_channels: usize,
    pub(super) now: Moment,
    /// Channels that there was no room for.
    pub(super) refused: u64,
}

/// A channel, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(usize);

#[derive(Debug)]
struct Open {
    source: usize,
    rate: Rate,
    origin: i64,
    /// Of its next sample.
    next: u64,
    /// Samples that its source missed.
    missed: u64,
    /// As the source has them, where the configuration does not say.
    unit: String,
    description: String,
    /// Points of it may come with times of their own: a step of this machine's clock is none of theirs.
    own_times: bool,
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
    /// Its slot has one.
    Crowded,
    /// It is from before the channel's last sample.
    Late,
    /// It is from the future.
    Misplaced,
}

impl Board {
    pub(super) fn new(settings: &Settings, streams: Vec<Stream>) -> Self {
        Self {
            open: Vec::new(),
            by_name: HashMap::new(),
            streams,
            named: settings.channels.iter().map(|channel| (channel.name.clone(), channel.clone())).collect(),
            display: settings.display,
            most_channels: settings.most_channels,
            now: Moment::default(),
            refused: 0,
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
        let named = self.named.get(opening.name).cloned().unwrap_or_default();
        let element = named.element.unwrap_or(opening.element);
        let bucket = bucket(opening.rate, named.display.unwrap_or(self.display));
        // No more than most_channels, which fits.
        let number = id.0 as u16;
        for (at, stream) in self.streams.iter_mut().enumerate() {
            let bucket = if at == DISPLAY { bucket } else { 1 };
            let lane =
                (at == DISPLAY || named.full).then(|| Lane::new(number, opening.rate, element, opening.origin, bucket));
            let channel = Channel {
                id: number,
                name: opening.name.to_owned(),
                unit: or(&named.unit, opening.unit),
                description: or(&named.description, opening.description),
                limits: named.limits,
                scale: named.scale,
                offset: named.offset,
                rate: opening.rate,
                element,
                bucket,
                ..Channel::default()
            };
            stream.add(lane, channel);
        }
        let &Opening { source, rate, origin, own_times, .. } = opening;
        let (unit, description) = (opening.unit.to_owned(), opening.description.to_owned());
        self.open.push(Open { source, rate, origin, next: 0, missed: 0, unit, description, own_times });
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
            stream.push(id.0, open.next, samples, self.now.elapsed);
        }
        open.next += samples.len() as u64;
    }

    /// Its source missed so many.
    pub(super) fn skip(&mut self, id: Id, samples: u64) {
        let open = &mut self.open[id.0];
        for stream in &mut self.streams {
            stream.miss(id.0, open.next, samples, Cause::Source, self.now.elapsed);
        }
        open.next += samples;
        open.missed += samples;
    }

    /// A sample with a time of its own. A channel has one slot a period; a point is the sample of the next slot if it is less than a period
    /// away from it. Slots that are skipped are missing: their source did not fill them.
    pub(super) fn place(&mut self, id: Id, time: i64, value: f64) -> Placed {
        let Open { rate, origin, next, .. } = self.open[id.0];
        if time > self.now.utc.saturating_add(FARTHEST) {
            return Placed::Misplaced;
        }
        let period = rate.nanos(1);
        let ahead = i128::from(time) - i128::from(origin) - rate.nanos(next);
        if ahead <= -period {
            return if ahead > -2 * period { Placed::Crowded } else { Placed::Late };
        }
        if ahead >= period {
            self.skip(id, rate.samples(ahead + period / 2));
        }
        self.samples(id, &[value]);
        Placed::Taken
    }

    /// Times of this machine's clock go on by a step.
    pub(super) fn shift(&mut self, step: i64) {
        let now = self.now.elapsed;
        self.streams.iter_mut().for_each(|stream| stream.drain(now));
        for (at, open) in self.open.iter_mut().enumerate().filter(|(_, open)| !open.own_times) {
            open.origin = open.origin.saturating_add(step);
            for lane in self.streams.iter_mut().filter_map(|stream| stream.lanes[at].as_mut()) {
                lane.origin = open.origin;
            }
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
    pub(super) fn describe(&mut self, channels: &[ChannelSettings], display: f64) {
        self.named = channels.iter().map(|channel| (channel.name.clone(), channel.clone())).collect();
        self.display = display;
        for (name, &Id(at)) in &self.by_name {
            let named = self.named.get(name).cloned().unwrap_or_default();
            let bucket = bucket(self.open[at].rate, named.display.unwrap_or(display));
            for (which, stream) in self.streams.iter_mut().enumerate() {
                if let Some(lane) = stream.lanes[at].as_mut().filter(|_| which == DISPLAY) {
                    lane.configured = bucket;
                    if lane.bucket() != bucket {
                        lane.set_bucket(bucket);
                    }
                }
                if let Some(channel) = stream.metadata.channels.iter_mut().find(|channel| usize::from(channel.id) == at)
                {
                    channel.limits = named.limits;
                    (channel.scale, channel.offset) = (named.scale, named.offset);
                    channel.unit = or(&named.unit, &self.open[at].unit);
                    channel.description = or(&named.description, &self.open[at].description);
                }
                stream.tell_metadata();
            }
        }
    }

    /// When something is to be sent next.
    pub(super) fn due_at(&self, delay: Nanos) -> Nanos {
        self.streams.iter().map(|stream| stream.due(delay)).min().unwrap_or(Nanos::MAX)
    }
}

/// What the configuration says, or else the source.
fn or(told: &str, default: &str) -> String {
    if told.is_empty() { default.to_owned() } else { told.to_owned() }
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

/// A point from farther in the future would keep its channel from going on: ns.
const FARTHEST: i64 = 10_000_000_000;

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
