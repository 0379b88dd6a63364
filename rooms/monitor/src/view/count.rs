//! `weir monitor view --count`: signals are counted in place of being shown, for tests of a network.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use weir_program::stop::Stop;
use weir_stats::Distribution;
use weir_wire::signal::{Block, Cause, Channel, Values};

use weir_signal::receive::{Follow, News, Receiver, Sink, Stream};

/// What a viewer has received; of a station's samples `shown` + `missing` + `before` is all, unless its end did not come.
#[derive(Debug, Default, Serialize)]
pub struct Counted {
    /// Samples shown; a bucket is as many as it stands for.
    pub shown: u64,
    /// Samples reported as missing.
    pub missing: u64,
    /// The same by cause.
    pub causes: BTreeMap<&'static str, u64>,
    /// Samples of stations before the first that this viewer was told of; of what servers send on nobody tells it.
    pub before: Option<u64>,
    /// Streams that are silent and have not said that they end.
    pub silent: usize,
    /// Datagrams of data that came in their order, and that did not come.
    pub in_order: u64,
    /// See there.
    pub lost: u64,
    /// Datagrams that the receive buffer had no room for.
    pub socket_drops: u64,
    /// From when a sample was (of a bucket its first) to when it was shown, us.
    pub delay_p50_us: Option<f64>,
    /// See there.
    pub delay_p99_us: Option<f64>,
    /// The longest time in which nothing of a station was shown that was not silent or over.
    pub silence_max_ms: f64,
    /// The first signal around its longest gap: seconds since 1970.
    pub drawn_at_s: Vec<f64>,
    /// Its values then.
    pub drawn: Vec<f64>,
}

/// Counts until the stop is set.
pub fn count(mut receiver: Receiver, stop: &Stop) -> Counted {
    let mut sink = Follow::new(Counter::default());
    sink.inner().counted.before = Some(0);
    sink.inner().counted.causes = Cause::ALL.into_iter().map(|cause| (cause.name(), 0)).collect();
    while !stop.is_set() {
        receiver.take(LONGEST, &mut sink);
    }
    // What has come by then.
    receiver.take(Duration::ZERO, &mut sink);
    let counts = receiver.shared().counts();
    let Counter { counted, silent, delays, kept, recent, .. } = std::mem::take(sink.inner());
    let quantile = |q| Some(delays.quantile_us(q)?.value);
    let drawn = kept.unwrap_or_else(|| recent.into());
    Counted {
        silent: silent.len(),
        in_order: counts.in_order,
        lost: counts.lost,
        socket_drops: counts.socket_drops,
        delay_p50_us: quantile(0.5),
        delay_p99_us: quantile(0.99),
        drawn_at_s: drawn.iter().map(|(at, _)| *at).collect(),
        drawn: drawn.iter().map(|(_, value)| *value).collect(),
        ..counted
    }
}

#[derive(Default)]
struct Counter {
    counted: Counted,
    /// Channels of which something has come.
    known: HashSet<(u64, u16)>,
    silent: HashSet<u64>,
    /// When something of a station was shown last.
    shown: HashMap<String, Instant>,
    delays: Distribution,
    /// The channel that is drawn, and its values of late.
    first: Option<(u64, u16)>,
    recent: VecDeque<(f64, f64)>,
    /// Those around the longest gap so far.
    kept: Option<Vec<(f64, f64)>>,
    longest: u64,
}

impl Sink for Counter {
    fn channel(&mut self, _: &Arc<Stream>, _: &Arc<Channel>) {}

    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>) {
        let (name, samples) = ((stream.session, block.channel), block.samples());
        if self.known.insert(name) {
            // Stations count from 0, servers periods since 1970: a station that sends 1 MHz has as many after 18 minutes.
            let begin = Some(block.first).filter(|first| *first < SINCE_1970);
            self.counted.before = self.counted.before.zip(begin).map(|(sum, begin)| sum + begin);
        }
        let is_drawn = *self.first.get_or_insert(name) == name;
        if let Values::Gap(gap) = block.values {
            self.counted.missing += samples;
            *self.counted.causes.entry(gap.cause.name()).or_default() += samples;
            if is_drawn && samples > self.longest {
                self.longest = samples;
                self.kept = Some(self.recent.iter().copied().collect());
            }
            return;
        }
        self.counted.shown += samples;
        if let Some(last) = self.shown.insert(stream.station.clone(), Instant::now()) {
            self.counted.silence_max_ms = self.counted.silence_max_ms.max(last.elapsed().as_secs_f64() * 1e3);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128;
        let time = |sample: u64| i128::from(block.time) + block.rate.nanos(sample);
        let step = if let Values::Buckets(_, bucket, _) = block.values { u64::from(bucket.max(1)) } else { 1 };
        for at in (0..samples).step_by(usize::try_from(step).unwrap_or(1)) {
            self.delays.record(u64::try_from(now - time(at)).unwrap_or(0));
        }
        if is_drawn && matches!(block.values, Values::Samples(..)) {
            (0..).zip(block.each()).for_each(|(at, value)| self.draw(time(at) as f64 / 1e9, value));
        }
    }

    fn stream(&mut self, stream: &Arc<Stream>, news: News) {
        match news {
            News::Silent => drop(self.silent.insert(stream.session)),
            News::Ended => {
                self.silent.remove(&stream.session);
                self.shown.remove(&stream.station);
            }
            _ => drop(self.silent.remove(&stream.session)),
        }
    }
}

impl Counter {
    fn draw(&mut self, at: f64, value: f64) {
        if self.recent.back().is_some_and(|(last, _)| at - last < APART_S) {
            return;
        }
        if self.recent.len() == DRAWN {
            self.recent.pop_front();
        }
        self.recent.push_back((at, value));
        self.kept.iter_mut().filter(|kept| kept.len() < 2 * DRAWN).for_each(|kept| kept.push((at, value)));
    }
}

/// The end is seen within it.
const LONGEST: Duration = Duration::from_millis(20);

/// Periods since 1970 of a channel of 1 Hz, at least.
const SINCE_1970: u64 = 1 << 30;

/// Values that are drawn: 200 of a period of 50 Hz.
const APART_S: f64 = 1e-4;

/// Kept of the values before a gap, and after it: five such periods.
const DRAWN: usize = 1000;

#[cfg(test)]
mod tests {
    use weir_wire::signal::{Clock, Element, Gap, Rate};

    use super::*;

    #[test]
    fn every_sample_is_shown_missing_or_before() {
        let mut counter = Counter { counted: Counted { before: Some(0), ..Counted::default() }, ..Counter::default() };
        let clock = Clock::default();
        let source = ([127, 0, 0, 1], 1).into();
        let stream = Arc::new(Stream { session: 7, station: "a".into(), name: "s".into(), source, clock });
        let rate = Rate::hertz(1000);
        let mut block = |channel, first, values| {
            let time = 5_000_000_000 + first as i64 * 1_000_000;
            counter.block(&stream, &Block { channel, first, time, rate, values });
        };
        let samples = |count: usize| Values::Samples(Element::F32, &[0; 400][..4 * count]);
        block(1, 30, samples(70));
        block(1, 100, Values::Gap(Gap { samples: 25, cause: Cause::Socket }));
        block(1, 125, samples(75));
        let counted = &counter.counted;
        assert_eq!((counted.before, counted.shown, counted.missing), (Some(30), 145, 25));
        assert_eq!((counted.causes["socket"], counter.kept.as_ref().map(Vec::len)), (25, Some(145)));
        // Nobody tells what was before the first sample from a server.
        let mut block =
            |channel, first, values| counter.block(&stream, &Block { channel, first, time: 0, rate, values });
        block(2, 1_700_000_000_000, samples(10));
        assert_eq!((counter.counted.before, counter.counted.shown), (None, 155));
    }

    #[test]
    fn a_stream_that_ends_is_not_silent() {
        let mut counter = Counter::default();
        let source = ([127, 0, 0, 1], 1).into();
        let stream =
            Arc::new(Stream { session: 7, station: "a".into(), name: "s".into(), source, clock: Clock::default() });
        counter.stream(&stream, News::Silent);
        assert_eq!(counter.silent.len(), 1);
        counter.stream(&stream, News::Ended);
        assert!(counter.silent.is_empty());
    }
}
