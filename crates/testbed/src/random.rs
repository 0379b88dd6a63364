//! Numbers for simulations in tests, which share no generator with the emulator.

/// SplitMix64, begun with a seed.
pub struct Source(pub u64);

impl Source {
    /// From 0 to 1.
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Of mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        let (a, b) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// Exponential, of this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Independent events among so many trials: exact, by the gaps between them.
    pub fn binomial(&mut self, trials: u64, share: f64) -> u64 {
        let (mut at, mut events) = (0.0, 0);
        if share <= 0.0 {
            return 0;
        }
        loop {
            at += 1.0 + ((1.0 - self.uniform()).ln() / (-share).ln_1p()).floor();
            if at > trials as f64 {
                return events;
            }
            events += 1;
        }
    }

    /// Independent events, so many on average.
    pub fn poisson(&mut self, mean: f64) -> f64 {
        self.binomial(1_000_000, mean / 1e6) as f64
    }

    /// The largest of so many exponential delays.
    pub fn largest(&mut self, of: f64) -> f64 {
        -(-(1.0 - self.uniform()).powf(1.0 / of)).ln_1p()
    }
}
