//! `weir monitor export`: an archive as a table.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;
use weir_monitor::archive::export::{self, Choice};
use weir_program::output::complain;
use weir_program::signals;
use weir_units::format::count;

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
    /// Files of `weir monitor record`, in the order in which they were written.
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
            return usage(Err(anyhow::anyhow!(
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
                let describe = || format!("make {}", path.display());
                let mut table = Unfinished::new(path).with_context(describe)?;
                table.watch().context("watch for signals")?;
                let file = table.open().with_context(describe)?;
                let output = file.try_clone().with_context(describe)?;
                let exported = export::export(&self.files, &choice, output)?;
                table.finish(&file).with_context(describe)?;
                exported
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

/// A table that is being written, under a name of its own beside the one that it is to have: what has that one is whole. Dropped, it is
/// removed.
struct Unfinished<'a> {
    beside: PathBuf,
    is_ours: bool,
    path: &'a Path,
}

impl<'a> Unfinished<'a> {
    fn new(path: &'a Path) -> io::Result<Self> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(is_there());
        }
        let beside = path.with_file_name(format!(".weir-export-{}.new", process::id()));
        Ok(Self { beside, is_ours: false, path })
    }

    /// A signal that asks for the end removes it, too, and ends the process at once.
    fn watch(&self) -> io::Result<()> {
        let beside = self.beside.clone();
        signals::watch(&signals::that_ask_for_the_end(), move |signal| {
            let _ = fs::remove_file(&beside);
            process::exit(128 + signal as i32);
        })
    }

    fn open(&mut self) -> io::Result<File> {
        let file = OpenOptions::new().write(true).create_new(true).open(&self.beside);
        self.is_ours = file.is_ok();
        file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => io::Error::other(format!(
                "{}: an export that was killed has left it, or one in another container writes it (remove it)",
                self.beside.display()
            )),
            _ => error,
        })
    }

    /// It is whole: it gets its name, unless something else has that by now.
    fn finish(&self, file: &File) -> io::Result<()> {
        file.sync_all()?;
        match fs::hard_link(&self.beside, self.path) {
            Ok(()) => Ok(()),
            Err(_) if fs::symlink_metadata(self.path).is_ok() => Err(is_there()),
            // Not every file system has links.
            Err(_) => fs::rename(&self.beside, self.path),
        }
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = fs::remove_file(&self.beside);
        }
    }
}

fn is_there() -> io::Error {
    io::Error::other("there is such a file (choose another name, or remove it)")
}

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
    let text = text.to_ascii_uppercase();
    let behind = "2026-11-23T10:00:00".len();
    let (local, east) = match text.get(behind..).and_then(|rest| rest.find(['+', '-'])) {
        None => (text.as_str(), 0),
        Some(at) => {
            let (local, zone) = text.split_at(behind + at);
            let east = offset(zone).filter(|_| !local.ends_with('Z'));
            (local, east.ok_or_else(|| wrong("its offset from UTC is none"))?)
        }
    };
    let time = humantime::parse_rfc3339_weak(local).map_err(|error| wrong(&error.to_string()))?;
    let before = || "it is before 1970".to_owned();
    let after = || "it is after 2262".to_owned();
    let since = time.duration_since(UNIX_EPOCH).map_err(|_| before())?;
    let local = i64::try_from(since.as_nanos()).map_err(|_| after())?;
    let time = local.checked_sub(east).ok_or_else(after)?;
    (time >= 0).then_some(time).ok_or_else(before)
}

/// `+02:00` as nanoseconds.
fn offset(zone: &str) -> Option<i64> {
    let &[sign, ten_hours, hours, b':', ten_minutes, minutes] = zone.as_bytes() else { return None };
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    let (hours, minutes) = (digit(ten_hours)? * 10 + digit(hours)?, digit(ten_minutes)? * 10 + digit(minutes)?);
    let nanos = (hours * 60 + minutes) * 60_000_000_000;
    (hours < 24 && minutes < 60).then_some(if sign == b'-' { -nanos } else { nanos })
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
            let mut table = Unfinished::new(&path).unwrap();
            let mut file = table.open().unwrap();
            file.write_all(b"time").unwrap();
            (table, file)
        };
        // Broken off.
        let (table, _) = begin();
        assert!(!path.exists() && names() == 1);
        drop(table);
        assert_eq!(names(), 0);
        let (table, file) = begin();
        table.finish(&file).unwrap();
        drop(table);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names()), ("time", 1));
        // What is there, from the start or since, is not written over.
        assert!(Unfinished::new(&path).is_err());
        fs::remove_file(&path).unwrap();
        let (table, file) = begin();
        fs::write(&path, "another's").unwrap();
        let said = table.finish(&file).unwrap_err().to_string();
        assert_eq!(said, "there is such a file (choose another name, or remove it)");
        drop(table);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names()), ("another's", 1));
    }

    #[test]
    fn what_another_has_left_is_named_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table.csv");
        let mut table = Unfinished::new(&path).unwrap();
        let beside = table.beside.clone();
        fs::write(&beside, "another's").unwrap();
        let said = table.open().unwrap_err().to_string();
        assert!(said.starts_with(&*beside.to_string_lossy()), "{said}");
        drop(table);
        assert_eq!(fs::read_to_string(&beside).unwrap(), "another's");
    }

    #[test]
    fn a_reader_that_has_gone_has_read_enough() {
        let failed = |kind: io::ErrorKind| anyhow::Error::new(io::Error::from(kind)).context("write the table");
        assert!(has_read_enough(&failed(io::ErrorKind::BrokenPipe)));
        assert!(!has_read_enough(&failed(io::ErrorKind::StorageFull)));
    }
}
