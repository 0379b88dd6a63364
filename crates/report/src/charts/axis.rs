//! Axes: the position of a value, and the marks.

use weir_units::format;

use crate::columns::in_unit;
use crate::record::Scale;

/// An axis of a chart.
#[derive(Clone, Debug, Default)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
    /// Whether a 0 on a logarithmic axis lies at its low end.
    floor: bool,
    /// Marks and their labels, ascending.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// A linear axis over all `values`, with round marks; `from_zero` includes 0.
    pub(super) fn linear(values: &[f64], from_zero: bool, unit: &str) -> Self {
        let (mut low, mut high) = range(values.iter().copied().filter(|v| v.is_finite())).unwrap_or((0.0, 1.0));
        if from_zero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        if high - low <= f64::EPSILON * high.abs().max(1.0) {
            (low, high) = if from_zero { (low, low + 1.0) } else { (low - 1.0, high + 1.0) };
        }
        let step = round_step((high - low) / 5.0);
        if from_zero {
            // Up to the next mark, and with space above the highest point.
            let marks = ((high + step * 0.1) / step).ceil();
            (low, high) = ((low / step).floor() * step, marks * step);
        }
        let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
        let count = (last - first).clamp(0.0, 50.0) as u32;
        let ticks = (0..=count).map(|i| (first + f64::from(i)) * step).map(|v| (v, label(unit, v))).collect();
        Self { low, high, scale: Scale::Linear, floor: false, ticks }
    }

    /// A logarithmic axis over the positive `values`, in whole decades.
    pub(super) fn log(values: &[f64], unit: &str) -> Self {
        let positive = values.iter().copied().filter(|v| v.is_finite() && *v > 1e-12);
        let (low, high) = range(positive).unwrap_or((1.0, 10.0));
        let (first, last) = (low.log10() + 1e-9, high.log10() - 1e-9);
        let (first, mut last) = (first.floor() as i32, last.ceil() as i32);
        last = last.max(first + 1);
        let mut ticks = Vec::new();
        for decade in first..=last {
            let one = 10f64.powi(decade);
            ticks.push((one, label(unit, one)));
            if last - first <= 2 && decade < last {
                ticks.extend([2.0, 5.0].map(|m| (m * one, label(unit, m * one))));
            }
        }
        // Space below, if the min lies on the lowest mark.
        let room = if low < 1.4 * 10f64.powi(first) { 0.6 } else { 1.0 };
        Self { low: room * 10f64.powi(first), high: 10f64.powi(last), scale: Scale::Log, floor: false, ticks }
    }

    /// A logarithmic axis that ends at the values instead of whole decades.
    pub(super) fn tight(mut self, values: &[f64]) -> Self {
        let positive = values.iter().copied().filter(|v| v.is_finite() && *v > 1e-12);
        if let Some((low, high)) = range(positive).filter(|(low, high)| self.scale == Scale::Log && low < high) {
            (self.low, self.high) = (low, high);
            self.ticks.retain(|(value, _)| (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(value));
        }
        self
    }

    /// A logarithmic axis with a floor for zeros, if there are any.
    pub(super) fn with_floor_for(mut self, values: &[f64]) -> Self {
        if values.contains(&0.0) && values.iter().any(|value| *value > 0.0) {
            let decades = (self.high / self.low).log10();
            self.low /= 10f64.powf(decades * 0.09);
            self.floor = true;
            self.ticks.insert(0, (0.0, "0".into()));
        }
        self
    }

    /// Whether the value is a 0 on a logarithmic axis.
    pub(super) fn is_on_floor(&self, value: f64) -> bool {
        self.floor && value == 0.0
    }

    /// An axis of words: the first at 0, the next at 1.
    pub(super) fn words(words: &[String]) -> Self {
        let ticks = words.iter().enumerate().map(|(index, word)| (index as f64, word.clone())).collect();
        Self { low: -0.5, high: words.len().max(1) as f64 - 0.5, scale: Scale::Linear, floor: false, ticks }
    }

    /// An axis of shares of all messages, by decades of the slower ones: p50, p90, p99 and p99.9 are equally spaced.
    /// Values are [`nines`].
    pub(super) fn nines(shares: &[f64]) -> Self {
        // 0.999 * 100 is not quite 99.9.
        let label = |q: f64| format!("p{}", format::plain((q * 1e6).round() / 1e4));
        let ticks: Vec<_> = shares.iter().map(|&q| (nines(q), label(q))).collect();
        let (low, high) = range(ticks.iter().map(|(value, _)| *value)).filter(|(a, b)| a < b).unwrap_or((0.0, 1.0));
        Self { low, high, scale: Scale::Linear, floor: false, ticks }
    }

    /// The value's position, 0 at the low and 1 at the high end. `None`: it cannot be shown (0 on a logarithmic axis).
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let place = match self.scale {
            Scale::Log if value == 0.0 && self.floor => 0.0,
            Scale::Log if value <= 0.0 => return None,
            _ => self.share(value),
        };
        (place.is_finite() && (-0.001..=1.001).contains(&place)).then_some(place)
    }

    /// The same, with values beyond an end moved to it.
    pub(super) fn clamped(&self, value: f64) -> f64 {
        let min = if self.scale == Scale::Log { self.low * 1e-3 } else { f64::NEG_INFINITY };
        if value.is_nan() { 0.0 } else { self.share(value.max(min)).clamp(0.0, 1.0) }
    }

    fn share(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).log10() / (self.high / self.low).log10(),
        }
    }
}

/// The number of nines: -log10 of the slower share.
pub(super) fn nines(share: f64) -> f64 {
    -(1.0 - share).log10()
}

/// The label of a mark: a duration or size in a suitable unit, else the plain number.
fn label(unit: &str, value: f64) -> String {
    match unit {
        _ if value == 0.0 => "0".into(),
        "us" | "ms" | "bytes" => in_unit(unit, value),
        _ => format::short(value),
    }
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, v| Some(range.map_or((v, v), |(low, high): (f64, f64)| (low.min(v), high.max(v)))))
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `step`.
fn round_step(step: f64) -> f64 {
    let one = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0].map(|m| m * one).into_iter().find(|&round| round >= step * (1.0 - 1e-9)).unwrap_or(10.0 * one)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn marks_are_round() {
        assert_eq!(labels(&Axis::linear(&[77.0, 96.0], true, "1/s")), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&Axis::linear(&[0.0, 20.0], false, "%")), ["0", "5", "10", "15", "20"]);
        assert_eq!(
            labels(&Axis::log(&[160.0, 3e7], "us")),
            ["100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"]
        );
        assert_eq!(labels(&Axis::log(&[100.0, 1000.0], "us")), ["100 µs", "200 µs", "500 µs", "1 ms"]);
        assert_eq!(labels(&Axis::log(&[0.0, f64::NAN], "")), ["1", "2", "5", "10"]);
    }

    #[test]
    fn zero_has_no_place_on_a_logarithmic_axis() {
        let axis = Axis::log(&[1.0, 100.0], "");
        assert_eq!(
            (axis.place(0.0), axis.place(10.0).map(|p| (p * 100.0).round() / 100.0), axis.clamped(0.0)),
            (None, Some(0.55), 0.0)
        );
        assert_eq!(labels(&Axis::log(&[2.0, 50.0], "").tight(&[2.0, 50.0])), ["2", "5", "10", "20", "50"]);
        let floored = axis.with_floor_for(&[0.0, 1.0]);
        assert_eq!(
            (floored.place(0.0), floored.place(-1.0), labels(&floored)[..2].join(" ")),
            (Some(0.0), None, "0 1".into())
        );
        assert!(floored.place(1.0).unwrap() > 0.08);
    }

    proptest! {
        #[test]
        fn every_value_has_a_place(values in proptest::collection::vec(-1e9f64..1e9, 0..20), from_zero: bool) {
            let axis = Axis::linear(&values, from_zero, "");
            prop_assert!(axis.ticks.len() <= 12);
            for v in values {
                prop_assert!(axis.place(v).is_some(), "{v} {axis:?}");
            }
        }

        #[test]
        fn every_positive_value_has_a_place_among_decades(values in proptest::collection::vec(1e-9f64..1e12, 0..20)) {
            let axis = Axis::log(&values, "");
            for v in values {
                prop_assert!(axis.place(v).is_some(), "{v} {axis:?}");
            }
        }
    }
}
