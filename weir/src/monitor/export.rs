//! `weir monitor export`: an archive as a table.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use tempfile::{Builder, NamedTempFile};
use toml::value::{Datetime, DatetimeParseError, Offset};
use weir_monitor::archive::export::{self, Choice};
use weir_program::output::complain;
use weir_program::signals;

use super::{account_for_files, number};
use crate::{Outcome, files, usage};

/// `weir monitor export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir monitor export weir-20261123T0*.mcap > signals.csv
  weir monitor export run.mcap --out run.csv
  weir monitor export run.mcap --channel 'coil 1' --from 2026-11-23T10:00:00Z --until 2026-11-23T10:01:00Z

A row a sample, a bucket or a gap; the column `samples` adds up to what was sent, the column `cause`
tells where the samples of a gap were lost. A file that is damaged or cut is read up to there, and the
exit status is 1. docs/monitor-archive.md explains every column.")]
pub(super) struct Export {
    /// Files of `weir monitor record`, in any order.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// There was another format.
    #[arg(long = "to", hide = true, value_name = "FORMAT", value_parser = ["csv"])]
    _to: Option<String>,
    /// Write it to this file, which is not there yet [default: standard output].
    #[arg(long, short, value_name = "FILE", value_parser = files::csv())]
    out: Option<PathBuf>,
    /// A channel, by its name or by STATION/STREAM/NAME [default: all]. May be given again.
    #[arg(long, value_name = "NAME")]
    channel: Vec<String>,
    /// From this time on, e.g. 2026-11-23T10:00:00Z or 2026-11-23T12:00:00+02:00.
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<i64>,
    /// Up to this time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<i64>,
}

impl Export {
    pub(super) fn run(self) -> Result<Outcome> {
        if let (Some(from), Some(until)) = (self.from, self.until)
            && from >= until
        {
            let [from, until] = [from, until].map(written);
            return usage(Err(anyhow!(
                "--from {from} is not before --until {until}: nothing is between them (choose a later --until)"
            )));
        }
        let choice = Choice { channels: self.channel, from: self.from, until: self.until };
        let exported = match &self.out {
            None => match export::export(&self.files, &choice, io::stdout()) {
                Err(error) if has_read_enough(&error) => return Ok(Outcome::Done),
                exported => exported?,
            },
            Some(path) => {
                let table = unfinished(path).with_context(|| format!("make {}", path.display()))?;
                let exported = export::export(&self.files, &choice, table.as_file())?;
                finish(table, path).with_context(|| format!("make {}", path.display()))?;
                exported
            }
        };
        let (rows, samples, missing) = (exported.rows, exported.samples, exported.missing);
        complain!("{} rows: {} samples, {} of them missing", number(rows), number(samples), number(missing));
        account_for_files(&exported.damaged, "is exported")
    }
}

/// A table that is being written, under a name of its own in the same directory: a file of the name that it is to have is
/// whole. Dropped it is removed, and by a signal that asks for the end.
fn unfinished(path: &Path) -> Result<NamedTempFile> {
    ensure!(fs::symlink_metadata(path).is_err(), IS_THERE);
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let readable = Permissions::from_mode(0o666);
    let table = Builder::new().prefix(".weir-export-").suffix(".new").permissions(readable).tempfile_in(directory)?;
    let name = table.path().to_owned();
    signals::watch(&signals::that_ask_for_the_end(), move |signal| {
        let _ = fs::remove_file(&name);
        process::exit(128 + signal as i32);
    })?;
    Ok(table)
}

/// It is whole: it gets its name, unless another file has that by now.
fn finish(table: NamedTempFile, path: &Path) -> Result<()> {
    table.as_file().sync_all()?;
    table.persist_noclobber(path).map(drop).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => anyhow!(IS_THERE),
        _ => error.error.into(),
    })
}

const IS_THERE: &str = "there is such a file (choose another name, or remove it)";

/// Whether whoever reads the table has gone (`weir monitor export ... | head`).
fn has_read_enough(error: &anyhow::Error) -> bool {
    let mut answers = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    answers.any(|answer| answer.kind() == io::ErrorKind::BrokenPipe)
}

/// A time as the flags take it.
fn written(time: i64) -> String {
    let since = Duration::from_nanos(u64::try_from(time).unwrap_or(0));
    humantime::format_rfc3339(UNIX_EPOCH + since).to_string()
}

/// RFC 3339 (section 5.6), as nanoseconds since 1970 UTC; without an offset it is UTC.
fn time(text: &str) -> Result<i64, String> {
    let wrong = |why: &str| format!("{why}; write e.g. 2026-11-23T10:00:00Z or 2026-11-23T12:00:00+02:00");
    let mut at: Datetime = text.parse().map_err(|error: DatetimeParseError| wrong(&error.to_string()))?;
    let minutes_east = match at.offset.replace(Offset::Z) {
        Some(Offset::Custom { minutes }) => minutes.into(),
        _ => 0,
    };
    let local = humantime::parse_rfc3339(&at.to_string()).map_err(|error| wrong(&error.to_string()))?;
    let before = || "it is before 1970".to_owned();
    let since = local.duration_since(UNIX_EPOCH).map_err(|_| before())?;
    let since = i64::try_from(since.as_nanos()).ok().and_then(|local| local.checked_sub(minutes_east * 60_000_000_000));
    let since = since.ok_or("it is after 2262")?;
    (since >= 0).then_some(since).ok_or_else(before)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_time_is_taken_as_rfc_3339_has_it() {
        let utc = time("2026-11-27T17:53:59Z").unwrap();
        assert_eq!(written(utc), "2026-11-27T17:53:59Z");
        let same = [
            "2026-11-27T19:53:59+02:00",
            "2026-11-27t17:53:59z",
            "2026-11-27T12:23:59-05:30",
            "2026-11-28T00:53:59+07:00",
            "2026-11-27T17:53:59-00:00",
            "2026-11-27 17:53:59+00:00",
            "2026-11-27 17:53:59",
        ];
        for text in same {
            assert_eq!(time(text), Ok(utc), "{text}");
        }
        // What is behind a fraction counts, too.
        assert_eq!(time("2026-11-27t19:53:59.25+02:00"), Ok(utc + 250_000_000));
        assert_eq!(time("1970-01-01T00:30:00+01:00").unwrap_err(), "it is before 1970");
        let form = "; write e.g. 2026-11-23T10:00:00Z or 2026-11-23T12:00:00+02:00";
        let wrong = [
            "2026-11-27T17:53:59+0200",
            "2026-11-27T17:53:59+24:00",
            "2026-11-27T17:53:59.5+02:60",
            "2026-11-27T17:53:59Z+02:00",
            "2026-11-27T17:53:59+00:00+02:00",
            "2026-11-27T17:53:5\u{fc}+02:00",
            "2026-11-27",
            "now",
        ];
        for text in wrong {
            let told = time(text).unwrap_err();
            assert!(told.ends_with(form), "{text}: {told}");
        }
    }

    #[test]
    fn only_a_whole_table_has_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table.csv");
        let names = || fs::read_dir(dir.path()).unwrap().count();
        let begin = || {
            let mut table = unfinished(&path).unwrap();
            table.write_all(b"time").unwrap();
            table
        };
        let table = begin();
        assert!(!path.exists() && names() == 1);
        drop(table);
        assert_eq!(names(), 0);
        finish(begin(), &path).unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names()), ("time", 1));
        // A file that is there, from the start or since, is not written over.
        assert!(unfinished(&path).is_err());
        fs::remove_file(&path).unwrap();
        let table = begin();
        fs::write(&path, "another's").unwrap();
        assert_eq!(finish(table, &path).unwrap_err().to_string(), IS_THERE);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names()), ("another's", 1));
    }

    #[test]
    fn a_reader_that_has_gone_has_read_enough() {
        let failed = |kind: io::ErrorKind| anyhow::Error::new(io::Error::from(kind)).context("write the table");
        assert!(has_read_enough(&failed(io::ErrorKind::BrokenPipe)));
        assert!(!has_read_enough(&failed(io::ErrorKind::StorageFull)));
    }
}
