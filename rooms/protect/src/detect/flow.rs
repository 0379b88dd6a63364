//! How much comes of one kind: sums of samples that sink, by when those were taken.
//!
//! A flood begins at some time, and the first sample of it was taken at some time since the datagram before was sent: of an agent that had little to
//! tell up to a second ago. Who took the rate over that second would tell of a tenth of the flood or less. So the sums of a flood begin where
//! the time of its first sample ends; what may have been taken before, or was taken with it, is summed up apart, and is what is told as long as
//! nothing else has come: then it is as much as that at least, and nobody knows how much more.

const GATHERS: u64 = 50_000_000;
use crate::estimate;
use crate::model::Rate;

/// Time constant of rates, s.
const SMOOTHING: f64 = 1.0;
/// No rate is of a shorter time, s: few samples may have come close to one another.
pub(super) const SHORTEST: f64 = 0.05;
/// The same of a flood, which many samples have decided: times are no more exact.
pub(super) const SHORTEST_OF_FLOOD: f64 = 0.001;
/// Samples since a flood's first one that say how much it is, more or less.
const FEW: f64 = 3.0;
/// For how long at most a flood is told as what came with its first sample, ns.
const AT_MOST: u64 = 2_000_000_000;
/// The part of the time of its first sample that a flood takes of it at least: it began at any moment of that, and later once in 40 times.
const LEAST: f64 = 0.025;

/// Sums of one class that sink. By when samples were taken: what comes late, or all at once, was no more for that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// Since when, and until when samples are here.
    first: u64,
    last: u64,
    /// How old the oldest may have been that came last, ns: for so long nobody knows what is going to come.
    ago: u64,
    /// Packets, their squares, bits, their squares.
    sums: [f32; 4],
    beginning: Beginning,
}

/// When the first sample of a flood may have been taken, and what else may have been then.
#[derive(Clone, Copy, Debug, Default)]
struct Beginning {
    from: u64,
    to: u64,
    sums: [f32; 4],
    /// Whether little has come since.
    is_all: bool,
    /// Since when all of it may have been taken, if it came with a batch that began earlier.
    earliest: u64,
}

impl Flow {
    /// Of a flood whose first sample was taken at some moment of this time; that one itself is not to be added.
    pub(super) fn since([from, to]: [u64; 2]) -> Self {
        let beginning = Beginning { from, to, sums: [0.0; 4], is_all: from < to, earliest: from };
        Self { first: to, last: to.max(1), ago: 0, sums: [0.0; 4], beginning }
    }

    /// It came in a batch of which the first may have been taken since then.
    pub(super) fn or_since(mut self, earliest: u64) -> Self {
        self.beginning.earliest = self.beginning.from.min(earliest);
        self
    }

    /// A sample that came now, and was taken at some time from so long ago to so long ago.
    #[inline]
    pub(super) fn add(&mut self, now: u64, ago: [u64; 2], frames: f32, bits: f32) {
        let [from, to] = ago.map(|ago| now.saturating_sub(ago));
        if self.last == 0 {
            (self.first, self.last) = (from, to);
        }
        self.ago = ago[0];
        if from < self.beginning.to {
            return self.add_early([from, to], frames, bits);
        }
        self.enter([from, to], 1.0, frames, bits);
    }

    /// One that may have been taken with the first one of a flood: as likely as the part of its time says. Of what was more likely taken then the
    /// rest is only the time in which it was sent.
    #[cold]
    fn add_early(&mut self, [from, to]: [u64; 2], frames: f32, bits: f32) {
        let end = self.beginning.to;
        let since = to.saturating_sub(end) as f32 / (to - from).max(1) as f32;
        let since = if since < 0.5 { 0.0 } else { since };
        self.miss(1.0 - since, frames, bits);
        self.enter([end.min(to), to], since, frames, bits);
    }

    /// So many samples were taken with the first one.
    pub(super) fn miss(&mut self, count: f32, frames: f32, bits: f32) {
        for (sum, one) in self.beginning.sums.iter_mut().zip([frames, frames * frames, bits, bits * bits]) {
            *sum += count * one;
        }
    }

    #[inline]
    fn enter(&mut self, [from, to]: [u64; 2], part: f32, frames: f32, bits: f32) {
        let time_constants = |nanos: u64| nanos as f32 * 1e-9 / SMOOTHING as f32;
        let sunk = |nanos: u64| if nanos > 0 { (-time_constants(nanos)).exp() } else { 1.0 };
        let left = sunk(to.saturating_sub(self.last));
        self.last = self.last.max(to);
        // At any moment of that time: what has sunk already of one of it, on average.
        let length = time_constants(to.saturating_sub(from));
        let share = if length > 1e-3 { -(-length).exp_m1() / length } else { 1.0 } * sunk(self.last - to);
        let [frames, bits] = [frames * share, bits * share];
        for (sum, one) in self.sums.iter_mut().zip([frames, frames * frames, bits, bits * bits]) {
            *sum = *sum * left + part * one;
        }
        if self.beginning.is_all {
            self.beginning.is_all = self.worth() < FEW;
        }
    }

    /// How many samples of one weight there are, but for those that may have been taken with a flood's first one.
    pub(super) fn worth(&self) -> f64 {
        let [packets, squares, ..] = self.sums.map(f64::from);
        if squares > 0.0 { packets * packets / squares } else { 0.0 }
    }

    /// For how long it is not known when a flood began, ns.
    pub(super) fn unsure(&self) -> u64 {
        self.beginning.to - self.beginning.from
    }

    /// How many times as much it may be as its rates say, since nobody knows when it began.
    pub(super) fn times(&self, now: u64) -> f64 {
        let Beginning { from, to, .. } = self.beginning;
        if !self.is_all(now) {
            return 1.0;
        }
        let since = self.until(now).saturating_sub(to) as f64;
        let unsure = (to - from) as f64;
        (since + unsure) / (since + LEAST * unsure)
    }

    /// Packets and bits a second, `z` standard deviations wide on either side.
    pub(super) fn rates(&self, now: u64, shortest: f64, z: f64) -> (Rate, Rate) {
        let is_all = self.is_all(now);
        let now = self.until(now);
        if is_all {
            let Beginning { from, sums, .. } = self.beginning;
            let seconds = (now.saturating_sub(from) as f64 * 1e-9).max(shortest);
            let [packets, squares, bits, bit_squares] = [0, 1, 2, 3].map(|at| f64::from(sums[at] + self.sums[at]));
            let of = |sum: f64, squares: f64| estimate::interval(sum, squares, seconds, z);
            return (of(packets, squares), of(bits, bit_squares));
        }
        let passed = (now - self.last) as f64 * 1e-9 / SMOOTHING;
        let [packets, squares, bits, bit_squares] = self.sums.map(f64::from);
        // What it has not seen yet is taken to be as what it has.
        let age = now.saturating_sub(self.first) as f64 * 1e-9 / SMOOTHING;
        let seconds = -(-age.max(shortest)).exp_m1() * SMOOTHING;
        let kept = (-passed).exp();
        let of = |sum: f64, squares: f64| estimate::interval(sum * kept, squares * kept * kept, seconds, z);
        (of(packets, squares), of(bits, bit_squares))
    }

    /// Packets and bits a second that it is at least: if all of it so far was taken since the first sample's batch may have been. An agent that
    /// pauses within a batch sends old ones after it, which look new.
    pub(super) fn least(&self, now: u64, shortest: f64, z: f64) -> (f64, f64) {
        let Beginning { to, earliest, sums, .. } = self.beginning;
        let until = self.until(now);
        if to.saturating_sub(earliest) < GATHERS || until >= to + AT_MOST {
            return (f64::INFINITY, f64::INFINITY);
        }
        let seconds = (until.saturating_sub(earliest) as f64 * 1e-9).max(shortest);
        let [packets, squares, bits, bit_squares] = [0, 1, 2, 3].map(|at| f64::from(sums[at] + self.sums[at]));
        let of = |sum: f64, squares: f64| estimate::interval(sum, squares, seconds, z).low;
        (of(packets, squares), of(bits, bit_squares))
    }

    /// Whether what came with a flood's first sample is nearly all that is known of it.
    fn is_all(&self, now: u64) -> bool {
        self.beginning.is_all && self.until(now) < self.beginning.to + AT_MOST
    }

    /// What was taken since is on its way, for as long as what came last may have been.
    fn until(&self, now: u64) -> u64 {
        now.saturating_sub(self.ago).max(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn rates_do_not_lag_at_the_beginning() {
        let mut flow = Flow::default();
        for tick in 0..200u64 {
            flow.add(1 + tick * 1_000_000, [0; 2], 1000.0, 8e6);
        }
        let (packets, bits) = flow.rates(200_000_000, SHORTEST, estimate::Z95);
        assert!((packets.value / 1e6 - 1.0).abs() < 0.02 && packets.low < 1e6 && 1e6 < packets.high, "{packets:?}");
        assert!((bits.value / 8e9 - 1.0).abs() < 0.02);
        assert!(flow.rates(2_200_000_000, SHORTEST, estimate::Z95).0.value < 2e5);
    }

    #[test]
    fn what_comes_all_at_once_or_late_was_no_more_for_that() {
        let (second, tenth) = (SECOND, SECOND / 10);
        let near = |flow: &Flow, now: u64| {
            let told = flow.rates(now, SHORTEST, estimate::Z95).0;
            assert!((told.value / 1e6 - 1.0).abs() < 0.02, "{now}: {told:?}");
        };
        // 1,000 samples at the end of each second; it is the same at all times until the next ones are due.
        let mut flow = Flow::default();
        for batch in 1..5 {
            (0..1_000).for_each(|_| flow.add(batch * second, [second, 0], 1000.0, 8e6));
            (0..10).for_each(|part| near(&flow, batch * second + part * tenth));
        }
        assert!(flow.rates(7 * second, SHORTEST, estimate::Z95).0.value < 2e5, "none came that were due");
        // Ten batches of a tenth of a second each that waited, and came one right after the other.
        let mut flow = Flow::default();
        for part in 1..11 {
            let (now, waited) = (3 * second + part, second - part * tenth);
            (0..100).for_each(|_| flow.add(now, [waited + tenth, waited], 1000.0, 8e6));
            near(&flow, now);
        }
    }

    /// 400 samples a second in datagrams of 7, of an agent that had been silent for a second: those of the first may have been taken at any time
    /// of that, and say nothing.
    #[test]
    fn a_flood_is_as_much_as_comes_since_its_first_datagram() {
        let (apart, begin) = (SECOND * 7 / 400, 10 * SECOND);
        let mut flow = Flow::since([begin - SECOND, begin]);
        (1..7).for_each(|_| flow.add(begin, [SECOND, 0], 1000.0, 8e6));
        let (times, told) = (flow.times(begin), flow.rates(begin, SHORTEST_OF_FLOOD, estimate::Z95).0);
        assert!(told.value == 6_000.0 && 400_000.0 < times * told.high, "{told:?}, {times} times at most");
        for datagram in 1..4 {
            (0..7).for_each(|_| flow.add(begin + datagram * apart, [apart, 0], 1000.0, 8e6));
            let (packets, bits) = flow.rates(begin + datagram * apart, SHORTEST_OF_FLOOD, estimate::Z95);
            assert!((packets.value / 400e3 - 1.0).abs() < 0.03, "{packets:?}");
            assert!(packets.low < 400e3 && 400e3 < packets.high && flow.times(begin) == 1.0, "{packets:?}");
            assert!((bits.value / 3.2e9 - 1.0).abs() < 0.03, "{bits:?}");
        }
        // It ends, and sinks.
        assert!(flow.rates(begin + 3 * SECOND, SHORTEST_OF_FLOOD, estimate::Z95).0.value < 40e3);
    }

    /// 20,000 samples of a second that take a fifth of one to be sent, and as many a second later.
    #[test]
    fn a_batch_is_as_much_as_a_second_has_however_long_it_takes() {
        let (begin, apart) = (10 * SECOND, SECOND / 100_000);
        let mut flow = Flow::since([begin - SECOND, begin]);
        let near = |flow: &Flow, now: u64| {
            let told = flow.rates(now, SHORTEST_OF_FLOOD, estimate::Z95).0;
            assert!((0.8..1.05).contains(&(told.value / 2e7)), "{now}: {told:?}");
        };
        (1..20_000).for_each(|number| flow.add(begin + number * apart, [SECOND, 0], 1000.0, 8e6));
        near(&flow, begin + SECOND / 4);
        assert!(flow.times(begin + SECOND / 4) > 4.0);
        (0..20_000).for_each(|number| flow.add(begin + SECOND + number * apart, [SECOND, 0], 1000.0, 8e6));
        near(&flow, begin + SECOND + SECOND / 4);
        assert!(flow.times(begin + SECOND + SECOND / 4) == 1.0);
    }
}
