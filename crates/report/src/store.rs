//! A result directory's own records: `manifest.json` and `cells.jsonl`.
//!
//! Each cell is appended as it ends, so that a run that is killed leaves what it had measured.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::record::{Manifest, Record};

/// The manifest's file name.
pub const MANIFEST: &str = "manifest.json";
/// The records' file name.
pub const CELLS: &str = "cells.jsonl";

/// A file of a result directory that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {path}: {cause}{hint}", path = path.display())]
pub struct StoreError {
    doing: &'static str,
    path: PathBuf,
    hint: &'static str,
    // Not named `source`: the message says it already.
    cause: io::Error,
}

impl StoreError {
    /// An error of `doing` (`write`, `read` ...) the file at `path`; a full disk gets its remedy.
    pub fn new(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                " (what was written before is kept; free space, then `weir lab resume` runs the rest and `weir lab report` renders it)"
            }
            io::ErrorKind::PermissionDenied => " (choose another directory with --out)",
            _ => "",
        };
        Self { doing, path: path.to_owned(), hint, cause: source }
    }

    /// The same, where nothing has been measured that could be kept.
    pub fn at_the_start(self) -> Self {
        let hint = if self.is_full() { " (nothing was measured yet: free space and run it again)" } else { self.hint };
        Self { hint, ..self }
    }

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        matches!(self.cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

/// The records of a run in progress.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    cells: File,
    /// Bytes of `cells.jsonl` that are whole lines.
    whole: u64,
}

impl Store {
    /// Opens a result directory, which is made if need be, for a new run. Records of an earlier run in it are dropped.
    ///
    /// # Errors
    /// The directory or its `cells.jsonl` cannot be made.
    pub fn create(dir: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(dir).map_err(|error| StoreError::new("create directory", dir, error))?;
        let path = dir.join(CELLS);
        let open = OpenOptions::new().write(true).create(true).truncate(true).open(&path);
        let cells = open.map_err(|error| StoreError::new("create", &path, error))?;
        Ok(Self { dir: dir.to_owned(), cells, whole: 0 })
    }

    /// Opens the result directory of a run that was cut short, to go on behind the records that it is to keep (see
    /// [`whole_records`]); others are dropped.
    ///
    /// # Errors
    /// Its `cells.jsonl` cannot be written; then it is as it was.
    pub fn resume(dir: &Path, kept: &[Record]) -> Result<Self, StoreError> {
        let path = dir.join(CELLS);
        replace(&path, |out| {
            kept.iter().try_for_each(|record| {
                serde_json::to_writer(&mut *out, record)?;
                out.write_all(b"\n")
            })
        })?;
        let fail = |error| StoreError::new("append to", &path, error);
        let cells = OpenOptions::new().append(true).open(&path).map_err(fail)?;
        let whole = cells.metadata().map_err(fail)?.len();
        Ok(Self { dir: dir.to_owned(), cells, whole })
    }

    /// Writes the manifest, in place of an earlier one: [`write_manifest`].
    ///
    /// # Errors
    /// It cannot be written; an earlier one is then still there.
    pub fn manifest(&self, manifest: &Manifest) -> Result<(), StoreError> {
        write_manifest(&self.dir, manifest)
    }

    /// Appends a record.
    ///
    /// # Errors
    /// It cannot be written; those before it stay readable, and later ones may be appended.
    pub fn append(&mut self, record: &Record) -> Result<(), StoreError> {
        let path = self.dir.join(CELLS);
        let fail = |error| StoreError::new("append to", &path, error);
        let mut line = serde_json::to_vec(record).map_err(|error| fail(error.into()))?;
        line.push(b'\n');
        match self.cells.write_all(&line) {
            Ok(()) => {
                self.whole += line.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Take the torn line back; if even this fails, the reader passes over it as long as it is the last.
                let _ = self.cells.set_len(self.whole);
                let _ = io::Seek::seek(&mut self.cells, io::SeekFrom::Start(self.whole));
                Err(fail(error))
            }
        }
    }
}

/// Whether a directory has anything of a run in it. What a run leaves that ended before its first cell, without a manifest,
/// is nothing that anybody could go on with.
pub fn holds_a_run(dir: &Path) -> bool {
    dir.join(MANIFEST).exists() || fs::metadata(dir.join(CELLS)).is_ok_and(|cells| cells.len() > 0)
}

/// Writes the manifest of a result directory: before the run, and again when it is known how the run ended.
///
/// # Errors
/// It cannot be written; an earlier one is then still there.
pub fn write_manifest(dir: &Path, manifest: &Manifest) -> Result<(), StoreError> {
    replace(&dir.join(MANIFEST), |out| {
        serde_json::to_writer_pretty(&mut *out, manifest)?;
        out.write_all(b"\n")
    })
}

/// Reads a result directory: its manifest, and its records in the order of the sweep.
///
/// # Errors
/// As [`read_manifest`] and [`read_records`].
pub fn read(dir: &Path) -> Result<(Manifest, Vec<Record>), StoreError> {
    let manifest = read_manifest(dir)?;
    let mut records = read_records(dir)?;
    put_in_order(&manifest, &mut records);
    Ok((manifest, records))
}

/// Puts records, which come as cells end, into the order of the sweep: the first axis is the slowest, cells of their
/// own come last, repeats of a cell follow one another.
pub fn put_in_order(manifest: &Manifest, records: &mut [Record]) {
    records.sort_by_key(|record| {
        let place = |(key, values): &(String, Vec<String>)| {
            let own = record.axes.iter().find(|(name, _)| name == key).map(|(_, value)| value);
            values.iter().position(|value| Some(value) == own).unwrap_or(values.len())
        };
        (manifest.axes.iter().map(place).collect::<Vec<usize>>(), record.row.cell.clone(), record.row.repeat)
    });
}

/// Reads the manifest of a result directory.
///
/// # Errors
/// It is missing, or not a manifest.
pub fn read_manifest(dir: &Path) -> Result<Manifest, StoreError> {
    let path = dir.join(MANIFEST);
    let bytes = fs::read(&path).map_err(|error| StoreError::new("read", &path, error))?;
    parse_manifest(&path, &bytes)
}

/// The manifest in these bytes of a file.
pub(crate) fn parse_manifest(path: &Path, bytes: &[u8]) -> Result<Manifest, StoreError> {
    serde_json::from_slice(bytes).map_err(|error| StoreError::new("read", path, error.into()))
}

/// Reads the records of a result directory in the order in which they ended. A last line without its end (the run was
/// killed) is passed over. Of a cell that was run again the last record counts.
///
/// # Errors
/// The file is missing, or a whole line of it is not a record.
pub fn read_records(dir: &Path) -> Result<Vec<Record>, StoreError> {
    let path = dir.join(CELLS);
    let bytes = fs::read(&path).map_err(|error| StoreError::new("read", &path, error))?;
    parse_records(&path, &bytes)
}

/// The records in these bytes of a file.
pub(crate) fn parse_records(path: &Path, bytes: &[u8]) -> Result<Vec<Record>, StoreError> {
    let mut records = Vec::new();
    for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let Some(line) = line.strip_suffix(b"\n") else { break };
        let record = serde_json::from_slice(line)
            .map_err(|error| StoreError::new("read", path, io::Error::other(format!("line {}: {error}", index + 1))))?;
        records.push(record);
    }
    // Backwards the last one comes first.
    let mut seen = BTreeSet::new();
    let mut last: Vec<Record> = records.into_iter().rev().collect();
    last.retain(|record: &Record| seen.insert((record.row.cell.clone(), record.row.repeat)));
    last.reverse();
    Ok(last)
}

/// Reads the records of a run that was cut short, without those of cells that were stopped in their middle.
///
/// # Errors
/// As [`read_records`].
pub fn whole_records(dir: &Path) -> Result<Vec<Record>, StoreError> {
    let mut records = read_records(dir)?;
    records.retain(|record| !record.stopped);
    Ok(records)
}

/// The name of a cell or a host as a part of a file's name: what a path or a shell would take for something else
/// becomes a dash.
pub fn file_stem(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.%@".contains(c) { c } else { '-' }).collect()
}

/// Writes a file beside `path` and moves it there when it is complete; no one ever sees half of it.
///
/// # Errors
/// It cannot be written; what was there before is untouched, and nothing else is left.
pub fn replace(path: &Path, render: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), StoreError> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    let beside = path.with_file_name(name);
    let written = File::create(&beside).and_then(|file| {
        let mut out = BufWriter::new(file);
        render(&mut out)?;
        out.flush()?;
        fs::rename(&beside, path)
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        StoreError::new("write", path, error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn what_is_stored_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(&dir.path().join("made/on/the/way")).unwrap();
        let (manifest, records) = (fixture::manifest(), fixture::records());
        store.manifest(&manifest).unwrap();
        records.iter().for_each(|record| store.append(record).unwrap());
        assert_eq!(format!("{:?}", read_manifest(&store.dir).unwrap()), format!("{manifest:?}"));
        assert_eq!(format!("{:?}", read_records(&store.dir).unwrap()), format!("{records:?}"));
    }

    #[test]
    fn a_run_that_measured_nothing_is_in_nobodys_way() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(dir.path()).unwrap();
        assert!(!holds_a_run(dir.path()), "an empty list of cells");
        store.append(&fixture::records()[0]).unwrap();
        assert!(holds_a_run(dir.path()));
        fs::write(dir.path().join(CELLS), "").unwrap();
        store.manifest(&fixture::manifest()).unwrap();
        assert!(holds_a_run(dir.path()));
    }

    #[test]
    fn of_a_cell_that_ran_again_the_last_record_counts() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(dir.path()).unwrap();
        let records = fixture::records();
        let again = Record { reruns: records[0].reruns + 1, ..records[0].clone() };
        [&records[0], &records[1], &again].into_iter().for_each(|record| store.append(record).unwrap());
        let read = read_records(dir.path()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", [&records[1], &again]));
    }

    #[test]
    fn a_run_that_was_cut_short_goes_on_behind_its_whole_cells() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(dir.path()).unwrap();
        let mut records: Vec<Record> = fixture::records().into_iter().take(4).collect();
        records[1].stopped = true;
        records.iter().take(3).for_each(|record| store.append(record).unwrap());
        let path = dir.path().join(CELLS);
        let torn = serde_json::to_vec(&records[3]).unwrap();
        fs::write(&path, [fs::read(&path).unwrap(), torn[..50].to_vec()].concat()).unwrap();

        let kept = whole_records(dir.path()).unwrap();
        let mut resumed = Store::resume(dir.path(), &kept).unwrap();
        assert_eq!(format!("{kept:?}"), format!("{:?}", [&records[0], &records[2]]));
        resumed.append(&records[3]).unwrap();
        let cells: Vec<String> = read_records(dir.path()).unwrap().into_iter().map(|r| r.row.cell).collect();
        assert_eq!(cells, [0, 2, 3].map(|i| records[i].row.cell.clone()));
    }

    #[test]
    fn records_are_read_in_the_order_of_the_sweep() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(dir.path()).unwrap();
        store.manifest(&fixture::manifest()).unwrap();
        let records = fixture::records();
        records.iter().rev().for_each(|record| store.append(record).unwrap());
        assert_eq!(format!("{:?}", read(dir.path()).unwrap().1), format!("{records:?}"));
    }

    #[test]
    fn a_torn_last_line_is_passed_over_and_a_torn_middle_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(dir.path()).unwrap();
        fixture::records().iter().take(3).for_each(|record| store.append(record).unwrap());
        let path = dir.path().join(CELLS);
        let whole = fs::read(&path).unwrap();
        for cut in [1, 2, 100] {
            fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            assert_eq!(read_records(dir.path()).unwrap().len(), 2, "cut {cut}");
        }
        let torn = [&whole[..100], b"\n", &whole[100..]].concat();
        fs::write(&path, torn).unwrap();
        let error = read_records(dir.path()).unwrap_err().to_string();
        assert!(error.contains("cells.jsonl: line 1: "), "{error}");
    }

    #[test]
    fn a_full_disk_is_said_in_one_line() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut store = Store { dir: "run".into(), cells: full, whole: 0 };
        let error = store.append(&fixture::records()[0]).unwrap_err();
        assert!(error.is_full());
        let line = error.to_string();
        assert!(line.starts_with("append to run/cells.jsonl: No space left on device"), "{line}");
        assert!(line.contains("is kept") && !line.contains('\n'), "{line}");
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.csv");
        fs::write(&path, "old").unwrap();
        let error = replace(&path, |out| {
            out.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(error.unwrap_err().is_full());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
