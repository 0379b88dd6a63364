//! `weir lab compare`: two result directories against one another.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use weir_report::compare::{self, CompareSettings};
use weir_report::store;
use weir_units::Share;

use crate::{Outcome, print_result, usage};

/// `weir lab compare`.
#[derive(Debug, Args)]
pub(super) struct Compare {
    /// The result to compare with.
    a: PathBuf,
    /// The result in question.
    b: PathBuf,
    /// Column to compare. Repeatable [default: mbit_per_s, delay_mean_us and lost_share, where measured].
    #[arg(long = "column", value_name = "COLUMN", value_delimiter = ',')]
    columns: Vec<String>,
    /// Confidence of the whole comparison: at 95%, at most 5% of comparisons of equal runs alarm.
    #[arg(long, default_value = "95%")]
    confidence: Share,
    /// Relative differences up to this never alarm; of shares, relative to the rarer outcome.
    #[arg(long, default_value = "2%")]
    least: Share,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Compare {
    pub(super) fn run(self) -> Result<Outcome> {
        let confidence = self.confidence.fraction();
        usage(check_confidence(confidence))?;
        let a = store::read(&self.a).context("A")?;
        let b = store::read(&self.b).context("B")?;
        for ((manifest, records), dir) in [(&a, &self.a), (&b, &self.b)] {
            let checked = compare::check_columns(&self.columns, manifest, records);
            usage(checked.map_err(|mistake| anyhow!("{}: {mistake}", dir.display())))?;
        }
        let settings =
            CompareSettings { columns: self.columns, false_alarms: 1.0 - confidence, least: self.least.fraction() };
        let compared = compare::compare((&a.0, &a.1), (&b.0, &b.1), &settings);
        ensure!(!compared.rows.is_empty(), "nothing to compare: the runs have no measured cell in common");
        let untested = || compared.rows.iter().find_map(|row| row.reason.as_deref()).unwrap_or_default();
        print_result(&compared, self.json)?;
        // That nothing was found where nothing was looked at is no all-clear.
        ensure!(compared.rows.iter().any(|row| row.pairs.is_some()), "nothing could be compared: {}", untested());
        Ok(if compared.alarms() { Outcome::Unmet } else { Outcome::Done })
    }
}

fn check_confidence(confidence: f64) -> Result<()> {
    ensure!(confidence > 0.0 && confidence < 1.0, "--confidence: more than 0% and less than 100%");
    Ok(())
}
