//! Exponential smoothing by forward decay (Cormode, Shkapenyuk, Srivastava, Xu, "Forward decay", 2009).
//!
//! What was counted a time a ago weighs exp(-a/t). Instead of letting all sums sink, new packets count more: each is added with
//! the weight exp((now - landmark)/t), and a sum is divided by that of the instant of the question. So an update is one addition,
//! and which of two flows is larger does not change while nothing arrives. Before weights leave the range of numbers a new epoch
//! begins, with a landmark of its own; a sum of an earlier epoch is brought over when it is touched next.

/// Time constants in an epoch: exp(2 x 200) leaves squares room for values up to 1e60.
const EPOCH: f64 = 200.0;

/// The clock of all definitions with one time constant.
#[derive(Debug)]
pub(super) struct Clock {
    /// Time constant in seconds.
    t: f64,
    /// When it began to count, in seconds.
    start: f64,
    now: f64,
    at: Instant,
}

/// An instant of a clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instant {
    pub(super) epoch: u32,
    /// Weight of a packet of now.
    pub(super) weight: f64,
}

impl Clock {
    pub(super) fn new(t: f64, start: f64) -> Clock {
        Clock { t, start, now: start, at: Instant { epoch: 0, weight: 1.0 } }
    }

    pub(super) fn time_constant(&self) -> f64 {
        self.t
    }

    /// The instant `now`; time that goes back stands still.
    #[inline]
    pub(super) fn advance(&mut self, now: f64) -> Instant {
        if now > self.now {
            self.now = now;
            self.at = self.instant(now);
        }
        self.at
    }

    /// The instant `now`, without setting the clock.
    pub(super) fn instant(&self, now: f64) -> Instant {
        let constants = (now.max(self.start) - self.start) / self.t;
        let epoch = (constants / EPOCH).floor();
        Instant { epoch: epoch as u32, weight: (constants - epoch * EPOCH).exp() }
    }

    /// What sums of this instant, counted `since` then, are multiplied by to be rates per second. What has counted for less than the
    /// time constant has not seen all that it would weigh; what it has seen is taken for the rest.
    pub(super) fn rate(&self, now: f64, since: f64) -> f64 {
        let seen = -(-(now - since).max(self.t * 0.05) / self.t).exp_m1();
        1.0 / (self.instant(now).weight * self.t * seen)
    }
}

impl Instant {
    /// What a sum of `epoch` is multiplied by to be one of this instant's epoch.
    #[inline]
    pub(super) fn carry(&self, epoch: u32) -> f64 {
        match self.epoch.saturating_sub(epoch) {
            0 => 1.0,
            1 => (-EPOCH).exp(),
            // Nothing is left of it.
            _ => 0.0,
        }
    }
}

/// Samples of a data source, all that came, as its clock weighs them: how many of equal weight they are worth.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stream {
    sum: f64,
    squares: f64,
    epoch: u32,
}

impl Stream {
    #[inline]
    pub(super) fn count(&mut self, at: Instant) {
        if self.epoch != at.epoch {
            let carry = at.carry(self.epoch);
            (self.sum, self.squares, self.epoch) = (self.sum * carry, self.squares * carry * carry, at.epoch);
        }
        self.sum += at.weight;
        self.squares += at.weight * at.weight;
    }

    /// The sum of their weights, where one of `at` weighs as much as a packet of then.
    pub(super) fn sum(&self, at: &Instant) -> f64 {
        self.sum * at.carry(self.epoch)
    }

    /// The number of samples, all as heavy, that tell as much.
    pub(super) fn samples(&self) -> f64 {
        if self.squares > 0.0 { self.sum * self.sum / self.squares } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_is_that_rate() {
        // 100 a second; after ten time constants and after ten epochs.
        for (t, until) in [(0.2, 2.0), (2.0, 20.0), (0.2, 400.0)] {
            let mut clock = Clock::new(t, 0.0);
            let (mut sum, mut epoch) = (0.0, 0);
            for tick in 0..(until * 100.0) as u32 {
                let at = clock.advance(f64::from(tick) / 100.0);
                sum = sum * at.carry(epoch) + at.weight;
                epoch = at.epoch;
            }
            let rate = sum * clock.instant(until).carry(epoch) * clock.rate(until, 0.0);
            assert!((rate / 100.0 - 1.0).abs() < 0.03, "{t} {until}: {rate}");
        }
    }

    #[test]
    fn a_young_clock_does_not_say_less() {
        let mut clock = Clock::new(10.0, 5.0);
        let sum: f64 = (0..100).map(|tick| clock.advance(5.0 + f64::from(tick) / 100.0).weight).sum();
        let rate = sum * clock.rate(6.0, 5.0);
        assert!((rate / 100.0 - 1.0).abs() < 0.02, "{rate}");
    }

    #[test]
    fn what_was_sinks_by_e_in_a_time_constant_across_epochs() {
        let clock = Clock::new(1.0, 0.0);
        for start in [0.0, 199.5, 1000.0] {
            let (then, later) = (clock.instant(start), clock.instant(start + 1.0));
            let left = then.weight * later.carry(then.epoch) * clock.rate(start + 1.0, 0.0)
                / clock.rate(start, 0.0)
                / then.weight;
            let seen = clock.rate(start, 0.0) * then.weight / (clock.rate(start + 1.0, 0.0) * later.weight);
            assert!((left / seen - (-1f64).exp()).abs() < 1e-9 || start == 0.0, "{start}: {left}");
        }
        assert_eq!(clock.instant(1000.0).carry(2), 0.0);
    }

    #[test]
    fn equal_samples_are_worth_two_time_constants() {
        // Of a steady stream of r a second, 2 r t are worth (sum of weights)^2 / sum of squares.
        let (mut clock, mut stream) = (Clock::new(2.0, 0.0), Stream::default());
        for tick in 0..10_000 {
            stream.count(clock.advance(f64::from(tick) / 100.0));
        }
        assert!((stream.samples() / 400.0 - 1.0).abs() < 0.01, "{}", stream.samples());
    }
}
