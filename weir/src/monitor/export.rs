//! `weir monitor export`: an archive as a table.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use weir_monitor::archive::export::{self, Choice, Format};
use weir_service::output::complain;
use weir_service::screen;
use weir_units::format::count;

use crate::{Outcome, usage};

/// `weir monitor export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir monitor export weir-20261123T0*.mcap > signals.csv
  weir monitor export run.mcap --to parquet --out run.parquet
  weir monitor export run.mcap --channel 'coil 1' --from 2026-11-23T10:00:00Z --until 2026-11-23T10:01:00Z

A row a sample, a bucket or a gap; the column `samples` adds up to what was sent, the column `cause`
tells where the samples of a gap were lost. A file that is damaged or cut is read up to there, and the
exit status is 1. docs/monitor-archive.md explains every column.")]
pub(super) struct Export {
    /// Files of `weir monitor record`, in the order in which they were written.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Which table.
    #[arg(long, value_enum, default_value_t = To::Csv)]
    to: To,
    /// Write it to this file, which is not there yet [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// A channel, by its name or by STATION/STREAM/NAME [default: all]. May be given again.
    #[arg(long, value_name = "NAME")]
    channel: Vec<String>,
    /// From this time on, e.g. 2026-11-23T10:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<i64>,
    /// Up to this time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<i64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum To {
    /// Comma-separated values.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl Export {
    pub(super) fn run(self) -> Result<Outcome> {
        let format = match self.to {
            To::Csv => Format::Csv,
            To::Parquet => Format::Parquet,
        };
        if self.out.is_none() && format == Format::Parquet && screen::is_terminal() {
            return usage(Err(anyhow::anyhow!("Parquet is not for a terminal: name a file (--out FILE)")));
        }
        if let (Some(from), Some(until)) = (self.from, self.until)
            && from >= until
        {
            let [from, until] = [from, until].map(written);
            return usage(Err(anyhow::anyhow!(
                "--from {from} is not before --until {until}: nothing is between them (choose a later --until)"
            )));
        }
        let choice = Choice { channels: self.channel, from: self.from, until: self.until };
        let exported = match &self.out {
            None => export::export(&self.files, format, &choice, io::stdout())?,
            Some(path) => {
                let file =
                    OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
                        io::ErrorKind::AlreadyExists => {
                            io::Error::other("there is such a file (choose another name, or remove it)")
                        }
                        _ => error,
                    });
                let file = file.with_context(|| format!("make {}", path.display()))?;
                export::export(&self.files, format, &choice, file).inspect_err(|_| {
                    // We made it, and it is no table.
                    let _ = fs::remove_file(path);
                })?
            }
        };
        let number = |number: u64| count(i64::try_from(number).unwrap_or(i64::MAX));
        complain!(
            "{} rows: {} samples, {} of them missing",
            number(exported.rows),
            number(exported.samples),
            number(exported.missing)
        );
        if let [first, .., last] = exported.unordered.as_slice() {
            complain!(
                "weir: {} to {}: of {} files that overlap more had to wait than fits in memory: rows of a channel are not all in \
                 order (sort them by `session` and `index`, or export fewer channels at a time)",
                first.display(),
                last.display(),
                exported.unordered.len()
            );
        }
        for file in &exported.twice {
            complain!("weir: {}: named twice, and taken once", file.display());
        }
        let mut damaged = exported.damaged.iter().map(|(file, damage)| {
            let (file, whole) = (file.display(), damage.whole_bytes);
            format!("{file}: damaged behind {whole} bytes: {} (what is before is exported)", damage.error)
        });
        // What is exported stays, and whoever reads it by a program is told that it is not all.
        let Some(last) = damaged.next_back() else { return Ok(Outcome::Done) };
        damaged.for_each(|line| complain!("weir: {line}"));
        bail!("{last}")
    }
}

/// A time as the flags take it.
fn written(time: i64) -> String {
    let since = Duration::from_nanos(u64::try_from(time).unwrap_or(0));
    humantime::format_rfc3339(UNIX_EPOCH + since).to_string()
}

/// RFC 3339, as nanoseconds since 1970 UTC.
fn time(text: &str) -> Result<i64, String> {
    let time =
        humantime::parse_rfc3339_weak(text).map_err(|error| format!("{error}; write e.g. 2026-11-23T10:00:00Z"))?;
    let since = time.duration_since(UNIX_EPOCH).map_err(|_| "it is before 1970".to_owned())?;
    i64::try_from(since.as_nanos()).map_err(|_| "it is after 2262".to_owned())
}
