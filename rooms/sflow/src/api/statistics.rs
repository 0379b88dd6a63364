//! Aggregators: what is made of a metric's values at many data sources.

/// How values are joined, by the prefix that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregator {
    Max,
    Min,
    Sum,
    Avg,
    /// Variance and standard deviation of the values as a whole population.
    Var,
    Sdev,
    /// Quartiles, interpolated between the neighbours.
    Q1,
    Q2,
    Q3,
    Iqr,
    /// The newest.
    Any,
}

impl Aggregator {
    /// `max:load_one` is the greatest `load_one`; so is `load_one`. `None` if there is no such aggregator.
    pub(super) fn of(selector: &str) -> Option<(Self, &str)> {
        let Some((prefix, name)) = selector.split_once(':') else { return Some((Self::Max, selector)) };
        let aggregator = match prefix {
            "max" => Self::Max,
            "min" => Self::Min,
            "sum" => Self::Sum,
            "avg" => Self::Avg,
            "var" => Self::Var,
            "sdev" => Self::Sdev,
            "q1" => Self::Q1,
            "med" | "q2" => Self::Q2,
            "q3" => Self::Q3,
            "iqr" => Self::Iqr,
            "any" => Self::Any,
            _ => return None,
        };
        Some((aggregator, name))
    }

    /// Whether the result is one of the values, and has its agent and source.
    pub(super) fn picks(self) -> bool {
        matches!(self, Self::Max | Self::Min | Self::Any)
    }

    /// Joins values; none of none. What picks one takes the first.
    pub(super) fn join(self, values: &mut [f64]) -> Option<f64> {
        let count = values.len() as f64;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
        let variance = |values: &[f64]| {
            let mean = mean(values);
            values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count
        };
        let first = *values.first()?;
        Some(match self {
            Self::Max => values.iter().copied().fold(first, f64::max),
            Self::Min => values.iter().copied().fold(first, f64::min),
            Self::Any => first,
            Self::Sum => values.iter().sum(),
            Self::Avg => mean(values),
            Self::Var => variance(values),
            Self::Sdev => variance(values).sqrt(),
            Self::Q1 => quantile(values, 0.25),
            Self::Q2 => quantile(values, 0.5),
            Self::Q3 => quantile(values, 0.75),
            Self::Iqr => quantile(values, 0.75) - quantile(values, 0.25),
        })
    }
}

/// All prefixes, for whoever names another.
pub(super) const AGGREGATORS: &str = "max, min, sum, avg, var, sdev, med, q1, q2, q3, iqr, any";

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
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
            ("max:m", 8.0),
            ("min:m", 1.0),
            ("sum:m", 20.0),
            ("avg:m", 4.0),
            ("var:m", 6.0),
            ("sdev:m", 6.0_f64.sqrt()),
            ("q1:m", 2.0),
            ("med:m", 4.0),
            ("q2:m", 4.0),
            ("q3:m", 5.0),
            ("iqr:m", 3.0),
            ("any:m", 5.0),
            ("m", 8.0),
        ] {
            let (aggregator, name) = Aggregator::of(selector).unwrap();
            assert_eq!((name, aggregator.join(&mut [5.0, 1.0, 2.0, 8.0, 4.0])), ("m", Some(expected)), "{selector}");
            assert_eq!(aggregator.join(&mut []), None);
            let of_one = if matches!(selector, "var:m" | "sdev:m" | "iqr:m") { 0.0 } else { 3.0 };
            assert_eq!(aggregator.join(&mut [3.0]), Some(of_one), "{selector}");
        }
        assert_eq!(Aggregator::Q1.join(&mut [1.0, 2.0]), Some(1.25));
        assert_eq!(Aggregator::of("mean:m"), None);
    }
}
