//! Sums of weighted samples, and how far they can be trusted.

/// Samples added up, of a flow or of all; decayed ones are multiplied by the same decay in `sum`, by its square in `squares`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Of weight x value: the estimate, in packets or in bytes.
    pub sum: f64,
    /// Of (weight x value) squared.
    pub squares: f64,
}

/// A 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// 2.5 % of the time the truth is below.
    pub low: f64,
    /// 2.5 % of the time it is above.
    pub high: f64,
}

/// Two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_964;

impl Tally {
    /// Adds a sample: its weight in packets, times 1 or its frame length.
    #[inline]
    pub fn add(&mut self, weight: f64, value: f64) {
        let value = weight * value;
        self.sum += value;
        self.squares += value * value;
    }

    /// Of how many equal samples this is worth. 0: of none.
    pub fn samples(&self) -> f64 {
        if self.squares > 0.0 { self.sum * self.sum / self.squares } else { 0.0 }
    }

    /// The interval of this estimate.
    ///
    /// `all` is the tally, in packets, of all samples of the same sources. `exact`: their pools count packets
    /// ([`super::Sampler::counts_packets`]), so that only the share is uncertain (Phaal and Panchen, "Packet Sampling Basics":
    /// Var = N^2 p (1 - p) / n); otherwise their number is, too. `edges` is the variance, in packets squared, of what is on its
    /// way at the ends of the time: [`super::edges::between`].
    ///
    /// It is Wilson's score interval (1927), written for counts, so that it holds for few samples, too. Without samples it goes
    /// from 0 to 0, since nobody knows their weight.
    pub fn interval(&self, all: &Tally, exact: bool, edges: f64) -> Interval {
        let count = self.samples();
        if count == 0.0 {
            return Interval { low: 0.0, high: 0.0 };
        }
        let among = if exact { all.samples().max(count) } else { f64::INFINITY };
        let shrink = 1.0 + Z * Z / among;
        let centre = (count + Z * Z / 2.0) / shrink;
        let share = (count * (1.0 - count / among) + Z * Z / 4.0) / (shrink * shrink);
        // What is on its way is this flow's in proportion.
        let edges = if all.sum > 0.0 { edges / (all.sum * all.sum) * count * count } else { 0.0 };
        let half = Z * (share + edges).sqrt();
        let unit = self.sum / count;
        Interval { low: (centre - half).max(0.0) * unit, high: (centre + half) * unit }
    }
}
