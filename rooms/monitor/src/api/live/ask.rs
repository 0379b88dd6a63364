//! What a client wants to see.

use serde::Deserialize;

/// What a client wants to see.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    /// Its number: it stands in what answers it.
    pub(super) ask: u32,
    /// Keys of channels.
    pub(super) watch: Vec<u16>,
    /// Columns of its screen.
    pub(super) columns: u32,
    /// Time on its screen, ms.
    pub(super) span_ms: f64,
    /// When it begins, ms since 1970; absent: it ends now, and goes on.
    pub(super) from_ms: Option<f64>,
}

impl Ask {
    /// Why it cannot be had.
    pub(super) fn check(&self) -> Result<(), String> {
        let bounds = [
            (self.watch.len() <= MOST_WATCHED, format!("watch has more than {MOST_WATCHED} keys")),
            ((1..=MOST_COLUMNS).contains(&self.columns), format!("columns is to be 1 to {MOST_COLUMNS}")),
            ((1e-3..=LONGEST_MS).contains(&self.span_ms), format!("span_ms is to be 0.001 to {LONGEST_MS}")),
            (self.from_ms.is_none_or(|from| from.abs() < 9e12), "from_ms is no time".to_owned()),
        ];
        bounds.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, why)| Err(why))
    }

    /// Whether another is for the same time and screen: channels may differ.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.columns == other.columns
            && self.span_ms.to_bits() == other.span_ms.to_bits()
            && self.from_ms.is_none()
            && other.from_ms.is_none()
    }

    /// From when to when, ns since 1970, where the newest sample of all is at that time; `None`: it goes on.
    pub(super) fn range(&self, newest: i64) -> (i64, Option<i64>) {
        let span = (self.span_ms * 1e6) as i64;
        match self.from_ms {
            // A little more than is seen, so that lines go on over the edge.
            Some(from) => {
                let from = (from * 1e6) as i64;
                (from.saturating_sub(span / 50), Some(from.saturating_add(span + span / 50)))
            }
            None => (newest.saturating_sub(span + span / 50), None),
        }
    }
}

const MOST_WATCHED: usize = 256;
const MOST_COLUMNS: u32 = 16_384;
const LONGEST_MS: f64 = 864e5;
