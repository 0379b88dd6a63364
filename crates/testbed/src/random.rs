//! Numbers for tests that look random and can be had again; they share no generator with what is tested.

use std::collections::hash_map::RandomState;
use std::env;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::thread;

/// SplitMix64 (Steele, Lea, Flood 2014), begun with a seed.
pub struct Source(pub u64);

/// Names a seed to be taken instead of a new one.
const SEED: &str = "WEIR_SEED";

/// A new seed each time, printed with the test's name; the environment's WEIR_SEED repeats one.
pub fn seed() -> u64 {
    let seed = match env::var(SEED) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{SEED}={text}: write a number from 0 to 2^64 - 1")),
        // Short enough to be copied from a screen.
        Err(_) => RandomState::new().build_hasher().finish() >> 32,
    };
    let thread = thread::current();
    eprintln!("{}: {SEED}={seed}", thread.name().unwrap_or("test"));
    seed
}

impl Source {
    /// Begun with [`seed`].
    pub fn drawn() -> Source {
        Source(seed())
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of a range.
    pub fn number(&mut self, range: Range<u64>) -> u64 {
        range.start + self.bits() % (range.end - range.start)
    }

    /// As [`Source::number`], as a length or an index.
    pub fn size(&mut self, range: Range<usize>) -> usize {
        range.start + (self.bits() % (range.end - range.start) as u64) as usize
    }

    /// Any order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.size(0..last + 1));
        }
    }

    /// Any bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| self.bits().to_le_bytes()).collect();
        bytes.truncate(length);
        bytes
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// As published for seed 0.
    #[test]
    fn it_is_splitmix64() {
        let mut source = Source(0);
        assert_eq!([source.bits(), source.bits()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    /// The one who draws is this test in another process, whose environment and output are its own.
    #[test]
    fn a_seed_is_printed_and_taken_back() {
        const NAME: &str = "random::tests::a_seed_is_printed_and_taken_back";
        if env::var_os("WEIR_TEST_ROLE").is_some() {
            seed();
            return;
        }
        let drawn = |given: Option<&str>| {
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(["--exact", NAME, "--nocapture"]).env("WEIR_TEST_ROLE", "drawer").env_remove(SEED);
            given.map(|seed| command.env(SEED, seed));
            let text = String::from_utf8(command.output().unwrap().stderr).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{NAME}: {SEED}="))).map(str::to_owned);
            line.unwrap_or_else(|| panic!("{text}"))
        };
        let (one, other) = (drawn(None), drawn(None));
        assert_ne!(one, other);
        assert_eq!(drawn(Some(&one)), one);
    }
}
