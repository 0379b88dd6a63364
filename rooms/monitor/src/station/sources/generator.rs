//! Waves by arithmetic: a sample follows from its index alone.

use std::f64::consts::TAU;

use anyhow::Result;
use weir_wire::signal::Rate;

use super::clocked::{Clocked, Due};
use super::{Next, Source};
use crate::station::board::{Board, Id, Opening};
use crate::station::config::Wave;
use crate::station::settings::{Shape, Source as Settings};

/// One wave, or copies of it that differ in phase or seed.
#[derive(Debug)]
pub(super) struct Waves {
    number: usize,
    settings: Settings,
    shape: Shape,
    wave: Wave,
    open: Option<(Clocked, Vec<Id>)>,
    /// Of one call.
    part: Vec<f64>,
}

impl Waves {
    pub(super) fn new(number: usize, settings: &Settings, shape: Shape, wave: &Wave) -> Self {
        let (settings, wave) = (settings.clone(), wave.clone());
        Self { number, settings, shape, wave, open: None, part: vec![0.0; PART] }
    }

    fn open(&self, board: &mut Board) -> (Clocked, Vec<Id>) {
        let Settings { name, rate, .. } = &self.settings;
        let origin = board.now.utc;
        let mut channel = |name: &str| board.channel(&Opening::of(self.number, &self.settings, name, origin));
        let channels = match self.wave.copies {
            None => channel(name).into_iter().collect(),
            Some(copies) => (0..copies).filter_map(|copy| channel(&format!("{name}{copy}"))).collect(),
        };
        (Clocked::new(*rate, board.now.elapsed), channels)
    }
}

impl Source for Waves {
    fn take(&mut self, board: &mut Board) -> Result<Next> {
        let (mut clocked, channels) = match self.open.take() {
            Some(open) => open,
            None => self.open(board),
        };
        let Due { missed, samples } = clocked.take(board.now.elapsed);
        for (copy, &id) in channels.iter().enumerate() {
            if missed > 0 {
                board.skip(id, missed);
            }
            let mut left = samples as usize;
            while left > 0 {
                let part = &mut self.part[..left.min(PART)];
                fill(self.shape, &self.wave, self.settings.rate, copy as u64, board.next(id), part);
                board.samples(id, part);
                left -= part.len();
            }
        }
        let next = clocked.due();
        self.open = Some((clocked, channels));
        Ok(Next::At(next))
    }
}

/// The samples from an index on.
fn fill(shape: Shape, wave: &Wave, rate: Rate, copy: u64, first: u64, to: &mut [f64]) {
    let &Wave { amplitude, offset, frequency, phase, seed, copies, .. } = wave;
    let phase = phase / 360.0 + copy as f64 / f64::from(copies.unwrap_or(1));
    match shape {
        Shape::Sine | Shape::Step => {
            // Periods are counted in whole steps: no error adds up, however long it runs.
            let whole = 1_000_000 * u128::from(rate.per_second);
            let step = u128::from(frequency.micro_hertz) * u128::from(rate.per_sample) % whole;
            let mut at = u128::from(first) * step % whole;
            for value in to {
                let periods = (at as f64 / whole as f64 + phase).rem_euclid(1.0);
                let wave = match shape {
                    Shape::Sine => (TAU * periods).sin(),
                    _ if periods < 0.5 => -1.0,
                    _ => 1.0,
                };
                *value = offset + amplitude * wave;
                at += step;
                if at >= whole {
                    at -= whole;
                }
            }
        }
        Shape::Noise => {
            for (index, value) in (first..).zip(to) {
                let bits = mixed(seed.wrapping_add(copy << 48) ^ mixed(index));
                // 53 bits, as a float has them: from -1 to 1.
                *value = offset + amplitude * ((bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0);
            }
        }
        Shape::Counter => {
            for (index, value) in (first..).zip(to) {
                *value = offset + amplitude * index as f64;
            }
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
fn mixed(index: u64) -> u64 {
    let mut bits = index.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

const PART: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(hertz: u64) -> Wave {
        let text =
            format!("name = \"a\"\namplitude = 2.0\noffset = 1.0\nfrequency = \"{hertz}/s\"\nseed = 7\ncopies = 4\n");
        weir_program::config::Document::parse("", &text).unwrap().read().unwrap()
    }

    fn at(shape: Shape, hertz: u64, copy: u64, first: u64, length: usize) -> Vec<f64> {
        let mut values = vec![0.0; length];
        fill(shape, &wave(hertz), Rate::hertz(1000), copy, first, &mut values);
        values
    }

    #[test]
    fn waves_are_what_they_are_called() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        let day = 86_400_000;
        at(Shape::Sine, 250, 0, day, 4).into_iter().zip([1.0, 3.0, 1.0, -1.0]).for_each(|(a, b)| near(a, b));
        at(Shape::Sine, 250, 1, 0, 4).into_iter().zip([3.0, 1.0, -1.0, 1.0]).for_each(|(a, b)| near(a, b));
        assert_eq!(at(Shape::Step, 250, 0, 0, 5), [-1.0, -1.0, 3.0, 3.0, -1.0]);
        assert_eq!(at(Shape::Counter, 1, 0, 5, 2), [11.0, 13.0]);
    }

    #[test]
    fn noise_follows_from_the_index_and_the_seed() {
        let (all, part) = (at(Shape::Noise, 1, 0, 0, 100_000), at(Shape::Noise, 1, 0, 500, 10));
        assert_eq!(all[500..510], part);
        assert_ne!(at(Shape::Noise, 1, 1, 500, 10), part);
        let mean = all.iter().sum::<f64>() / 1e5;
        let variance = all.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 1e5;
        // Of the even distribution from -1 to 3: 1, and 16 / 12.
        assert!((mean - 1.0).abs() < 0.02 && (variance - 4.0 / 3.0).abs() < 0.02, "{mean} {variance}");
    }
}
