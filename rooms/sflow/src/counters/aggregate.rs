//! Many data sources to one number.

use std::str::FromStr;

/// How values of data sources become one: the names that sFlow-RT has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// All together.
    Sum,
    /// The mean.
    Avg,
    /// The variance, of these values and no others: divided by their number.
    Var,
    /// The square root of the variance.
    Sdev,
    /// The median.
    Med,
    /// The first quartile.
    Q1,
    /// The third quartile.
    Q3,
    /// The third quartile less the first.
    Iqr,
    /// One of them.
    Any,
}

impl Aggregate {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 11] = [
        ("max", Self::Max),
        ("min", Self::Min),
        ("sum", Self::Sum),
        ("avg", Self::Avg),
        ("var", Self::Var),
        ("sdev", Self::Sdev),
        ("med", Self::Med),
        ("q1", Self::Q1),
        ("q3", Self::Q3),
        ("iqr", Self::Iqr),
        ("any", Self::Any),
    ];

    /// The one number; none of no values. Quantiles lie on the line between the two values around them (Hyndman and Fan 1996, 7).
    pub fn of(self, values: impl Iterator<Item = f64>) -> Option<f64> {
        match self {
            Self::Max => values.reduce(f64::max),
            Self::Min => values.reduce(f64::min),
            Self::Any => { values }.next(),
            Self::Sum => values.reduce(|sum, value| sum + value),
            Self::Avg => moments(values).map(|(mean, _)| mean),
            Self::Var => moments(values).map(|(_, variance)| variance),
            Self::Sdev => moments(values).map(|(_, variance)| variance.sqrt()),
            Self::Med => quantile(&sorted(values), 0.5),
            Self::Q1 => quantile(&sorted(values), 0.25),
            Self::Q3 => quantile(&sorted(values), 0.75),
            Self::Iqr => {
                let values = sorted(values);
                Some(quantile(&values, 0.75)? - quantile(&values, 0.25)?)
            }
        }
    }
}

impl FromStr for Aggregate {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, aggregate)| *aggregate).ok_or(())
    }
}

/// Mean and variance (Welford 1962).
fn moments(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (mut n, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        n += 1.0;
        let off = value - mean;
        mean += off / n;
        squares += off * (value - mean);
    }
    (n > 0.0).then_some((mean, squares / n))
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}
