//! Spectra of windows that overlap by half: one result each half window, which stands at the middle of its window.
//!
//! A window is freed of its mean and tapered by Hann's function; its amplitudes are one-sided, so that a sine of amplitude 1 shows as 1.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};
use weir_wire::signal::{Cause, Rate};

/// What is made of a spectrum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reading {
    /// The frequency of the greatest amplitude, Hz, between bins, too.
    PeakFrequency,
    /// The amplitude at a frequency, Hz: of the bin next to it, as if all in that bin were a sine of just this frequency.
    Amplitude(f64),
}

/// A window that moves by half its length.
pub(super) struct Spectrum {
    reading: Reading,
    /// Half a window: samples from one result to the next.
    hop: usize,
    transform: Arc<dyn RealToComplex<f64>>,
    taper: Vec<f64>,
    /// The last samples, as far as none is missing between them.
    window: VecDeque<f64>,
    /// Samples since the last result, those that are missing included.
    passed: usize,
    /// Why the window is not full.
    cause: Cause,
    tapered: Vec<f64>,
    bins: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
}

impl Spectrum {
    /// Over about so many samples of a channel of this rate.
    pub(super) fn new(reading: Reading, length: u64, rate: Rate) -> Self {
        // The time from one result to the next is a whole number of ticks.
        let most = (MOST_WINDOW / 2).min(u64::from(u32::MAX / rate.per_sample.max(1))).max(1);
        let hop = (length / 2).max(LEAST_WINDOW / 2).min(most) as usize;
        let transform = RealFftPlanner::new().plan_fft_forward(2 * hop);
        // Periodic, not symmetric: windows that overlap by half add up to 1.
        let taper = |at: usize| 0.5 - 0.5 * (std::f64::consts::TAU * at as f64 / (2 * hop) as f64).cos();
        Self {
            reading,
            hop,
            taper: (0..2 * hop).map(taper).collect(),
            window: VecDeque::with_capacity(2 * hop),
            passed: 0,
            cause: Cause::Unselected,
            tapered: transform.make_input_vec(),
            bins: transform.make_output_vec(),
            scratch: transform.make_scratch_vec(),
            transform,
        }
    }

    /// Of the results, where the samples have this one.
    pub(super) fn rate(&self, rate: Rate) -> Rate {
        Rate { per_sample: rate.per_sample.saturating_mul(u32::try_from(self.hop).unwrap_or(u32::MAX)), ..rate }
    }

    /// Samples since the last result.
    pub(super) fn passed(&self) -> u64 {
        self.passed as u64
    }

    /// Takes the next sample; at the end of each half window there is a result, or why there is none.
    pub(super) fn push(&mut self, value: f64, rate: Rate) -> Option<Result<f64, Cause>> {
        if self.window.len() == 2 * self.hop {
            self.window.pop_front();
        }
        self.window.push_back(value);
        self.passed += 1;
        if self.passed < self.hop {
            return None;
        }
        self.passed = 0;
        Some(if self.window.len() == 2 * self.hop { Ok(self.read(rate)) } else { Err(self.cause) })
    }

    /// So many samples are missing: how many results there are none of until their end.
    pub(super) fn skip(&mut self, samples: u64, cause: Cause) -> u64 {
        self.window.clear();
        self.cause = cause;
        let passed = samples.saturating_add(self.passed());
        self.passed = (passed % self.hop as u64) as usize;
        passed / self.hop as u64
    }

    fn read(&mut self, rate: Rate) -> f64 {
        let length = self.window.len() as f64;
        let mean = self.window.iter().sum::<f64>() / length;
        let mut largest = 0.0_f64;
        for ((tapered, value), taper) in self.tapered.iter_mut().zip(&self.window).zip(&self.taper) {
            largest = largest.max(value.abs());
            *tapered = (value - mean) * taper;
        }
        let done = self.transform.process_with_scratch(&mut self.tapered, &mut self.bins, &mut self.scratch);
        if done.is_err() || !mean.is_finite() {
            return f64::NAN;
        }
        // The taper leaves half of a sine, and half of that is at its negative frequency, unless that is the same.
        let half = self.hop;
        let share = |bin: usize| if bin == half { 2.0 } else { 4.0 } / length;
        let amplitude = |bin: usize| self.bins.get(bin).map_or(f64::NAN, |value| value.norm() * share(bin));
        let width = rate.per_s() / length;
        match self.reading {
            Reading::Amplitude(frequency) if frequency > rate.per_s() / 2.0 => f64::NAN,
            Reading::Amplitude(frequency) => {
                let place = frequency / width;
                amplitude(place.round() as usize) / response(place - place.round())
            }
            Reading::PeakFrequency => {
                let (bin, peak) = (1..self.bins.len())
                    .map(|bin| (bin, amplitude(bin)))
                    .fold((0, 0.0), |best, next| if next.1 > best.1 { next } else { best });
                // What rounding leaves of a constant is no peak.
                if peak <= largest * 1e-12 {
                    return f64::NAN;
                }
                let beside = |bin: usize| if bin == 0 || bin >= self.bins.len() { 0.0 } else { amplitude(bin) };
                let (below, above) = (beside(bin - 1), beside(bin + 1));
                // Of a sine under Hann's taper this is exact.
                let ratio = below.max(above) / peak;
                let offset = ((2.0 * ratio - 1.0) / (ratio + 1.0)).max(0.0);
                (bin as f64 + if above > below { offset } else { -offset }) * width
            }
        }
    }
}

/// Of Hann's taper so many bins beside a sine; 1 at it.
fn response(offset: f64) -> f64 {
    let angle = std::f64::consts::PI * offset;
    if angle.abs() < 1e-9 { 1.0 } else { angle.sin() / angle / (1.0 - offset * offset) }
}

/// A transform is another's affair.
impl fmt::Debug for Spectrum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spectrum").field("reading", &self.reading).field("hop", &self.hop).finish_non_exhaustive()
    }
}

/// Samples of a window: what is longer keeps the receiving thread for too long.
const MOST_WINDOW: u64 = 1 << 18;
const LEAST_WINDOW: u64 = 8;

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;

    const RATE: Rate = Rate { per_second: 1000, per_sample: 1 };

    /// Results of a sum of sines (frequency, amplitude) on a large constant.
    fn results(reading: Reading, sines: &[(f64, f64)]) -> Vec<Result<f64, Cause>> {
        let mut spectrum = Spectrum::new(reading, 200, RATE);
        let sample = |at: u32| {
            let time = f64::from(at) / 1000.0;
            1e3 + sines
                .iter()
                .map(|(frequency, amplitude)| amplitude * (TAU * frequency * time + 0.4).sin())
                .sum::<f64>()
        };
        (0..1000).filter_map(|at| spectrum.push(sample(at), RATE)).collect()
    }

    #[test]
    fn peaks_are_found_between_bins() {
        for frequency in [50.0, 52.4, 123.4, 312.5, 447.1] {
            let found = results(Reading::PeakFrequency, &[(frequency, 2.0), (201.0, 0.3)]);
            assert_eq!((found.len(), found[0]), (10, Err(Cause::Unselected)));
            for value in &found[1..] {
                assert!((value.unwrap() - frequency).abs() < 0.05, "{frequency}: {value:?}");
            }
        }
        assert!(results(Reading::PeakFrequency, &[]).iter().all(|value| value.is_err() || value.unwrap().is_nan()));
    }

    #[test]
    fn amplitudes_are_those_of_sines() {
        for (at, frequency, amplitude) in
            [(50.0, 50.0, 2.0), (52.4, 52.4, 2.0), (312.5, 312.5, 0.01), (150.0, 50.0, 0.0)]
        {
            let sines = [(frequency, if amplitude == 0.0 { 2.0 } else { amplitude })];
            for value in &results(Reading::Amplitude(at), &sines)[1..] {
                let within = (amplitude * 1e-3).max(1e-4);
                assert!((value.unwrap() - amplitude).abs() < within, "{at}: {value:?}");
            }
        }
        assert!(results(Reading::Amplitude(501.0), &[(50.0, 1.0)])[1].unwrap().is_nan());
    }

    #[test]
    fn what_is_missing_is_counted_in_results() {
        let mut spectrum = Spectrum::new(Reading::PeakFrequency, 20, RATE);
        let mut at = 0_u32;
        let mut feed = |spectrum: &mut Spectrum, samples: u32| -> Vec<_> {
            let begin = at;
            at += samples;
            let push = |at| spectrum.push(f64::from(at % 4), RATE).map(|value| value.map(f64::round));
            (begin..begin + samples).filter_map(push).collect()
        };
        assert_eq!(feed(&mut spectrum, 24), [Err(Cause::Unselected), Ok(250.0)]);
        // The third half window ends with 4 + 3 + 3 samples; the window of the fourth still lacks those in front of the gap.
        assert_eq!(spectrum.skip(3, Cause::Network), 0);
        assert_eq!(feed(&mut spectrum, 13), [Err(Cause::Network), Err(Cause::Network)]);
        assert_eq!(feed(&mut spectrum, 10), [Ok(250.0)]);
        assert_eq!(spectrum.skip(35, Cause::Socket), 3);
        assert_eq!(spectrum.passed(), 5);
    }
}
