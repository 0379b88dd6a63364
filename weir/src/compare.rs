//! `weir lab compare`: compares two result directories.

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
    /// Result directory to compare with.
    a: PathBuf,
    /// Result directory to check.
    b: PathBuf,
    /// Column to compare. Repeatable [default: mbit_per_s, delay_mean_us, lost_share].
    #[arg(long = "column", value_name = "COLUMN", value_delimiter = ',')]
    columns: Vec<String>,
    /// Confidence of the whole comparison; 95%: max 5% false alarms for equal runs.
    #[arg(long, default_value = "95%")]
    confidence: Share,
    /// Ignore relative differences up to this; of shares, of the rarer outcome.
    #[arg(long, default_value = "2%")]
    least: Share,
    /// Print the result as one JSON object.
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
        ensure!(
            !compared.rows.is_empty(),
            "nothing to compare: the runs have no measured cell in common. Run the same scenario."
        );
        let untested = || compared.rows.iter().find_map(|row| row.reason.as_deref()).unwrap_or_default();
        print_result(&compared, self.json)?;
        // Without a comparison, no difference found means nothing.
        ensure!(compared.rows.iter().any(|row| row.pairs.is_some()), "nothing could be compared: {}", untested());
        Ok(if compared.alarms() { Outcome::Unmet } else { Outcome::Done })
    }
}

fn check_confidence(confidence: f64) -> Result<()> {
    ensure!(confidence > 0.0 && confidence < 1.0, "--confidence: must be above 0% and below 100%");
    Ok(())
}
