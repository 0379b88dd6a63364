//! Aggregators: what is made of a metric's values at many data sources.

/// How values are joined, by the prefix that names it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aggregator {
    Max,
    Min,
    /// The newest.
    Any,
    /// What this makes of numbers in ascending order, one at least.
    Of(fn(&[f64]) -> f64),
}

impl Aggregator {
    /// `max:load_one` is the greatest `load_one`; so is `load_one`. `None` if there is no such aggregator.
    pub(super) fn of(selector: &str) -> Option<(Self, &str)> {
        let (prefix, name) = selector.split_once(':').unwrap_or(("max", selector));
        let aggregator = match prefix {
            "max" => Self::Max,
            "min" => Self::Min,
            "any" => Self::Any,
            "sum" => Self::Of(|values| values.iter().sum()),
            "avg" => Self::Of(mean),
            "var" => Self::Of(variance),
            "sdev" => Self::Of(|values| variance(values).sqrt()),
            "q1" => Self::Of(|values| quantile(values, 0.25)),
            "med" | "q2" => Self::Of(|values| quantile(values, 0.5)),
            "q3" => Self::Of(|values| quantile(values, 0.75)),
            "iqr" => Self::Of(|values| quantile(values, 0.75) - quantile(values, 0.25)),
            _ => return None,
        };
        Some((aggregator, name))
    }

    /// Whether the result is one of the values, and has its agent and source.
    pub(super) fn picks(self) -> bool {
        !matches!(self, Self::Of(_))
    }
}

/// All prefixes, for whoever names another.
pub(super) const AGGREGATORS: &str = "max, min, sum, avg, var, sdev, med, q1, q2, q3, iqr, any";

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of the values as a whole population.
fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
}

/// Interpolated between the neighbours.
fn quantile(values: &[f64], share: f64) -> f64 {
    let place = share * (values.len() - 1) as f64;
    let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: mean 4, squares of distances 9 + 4 + 0 + 1 + 16 = 30.
    #[test]
    fn each_aggregator_as_arithmetic_has_it() {
        for (selector, expected) in [
            ("sum:m", 20.0),
            ("avg:m", 4.0),
            ("var:m", 6.0),
            ("sdev:m", 6.0_f64.sqrt()),
            ("q1:m", 2.0),
            ("med:m", 4.0),
            ("q2:m", 4.0),
            ("q3:m", 5.0),
            ("iqr:m", 3.0),
        ] {
            let Some((Aggregator::Of(join), "m")) = Aggregator::of(selector) else { panic!("{selector}") };
            assert_eq!(join(&[1.0, 2.0, 4.0, 5.0, 8.0]), expected, "{selector}");
            let of_one = if matches!(selector, "var:m" | "sdev:m" | "iqr:m") { 0.0 } else { 3.0 };
            assert_eq!(join(&[3.0]), of_one, "{selector}");
        }
        assert_eq!(quantile(&[1.0, 2.0], 0.25), 1.25);
        for selector in ["max:m", "min:m", "any:m", "m"] {
            assert!(Aggregator::of(selector).is_some_and(|(aggregator, name)| aggregator.picks() && name == "m"));
        }
        assert!(Aggregator::of("mean:m").is_none());
    }
}
