//! A result directory's own records: `manifest.json` and `cells.jsonl`.
//!
//! Each cell is appended as it ends, so that a killed run leaves its results.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use crate::record::{Manifest, Record};

/// The manifest's file name.
pub const MANIFEST: &str = "manifest.json";
/// The records' file name.
pub const CELLS: &str = "cells.jsonl";

/// A result file that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {path}: {cause}{hint}", path = path.display())]
pub struct StoreError {
    doing: &'static str,
    path: PathBuf,
    hint: &'static str,
    // Not named `source`: the message includes it already.
    cause: io::Error,
}

impl StoreError {
    /// An error of `doing` (`write`, `read` ...) the file at `path`; a full disk gets its remedy.
    pub fn new(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                ". Earlier results are kept: free space, then `weir lab resume` runs the rest."
            }
            io::ErrorKind::PermissionDenied => ". Choose another directory with --out.",
            _ => "",
        };
        Self { doing, path: path.to_owned(), hint, cause: source }
    }

    /// The same, if there are no results to keep.
    pub fn at_the_start(self) -> Self {
        let hint = if self.is_full() { ". Nothing was measured yet: free space and run it again." } else { self.hint };
        Self { hint, ..self }
    }

    /// The same, for a file outside the lab's results: without the lab's hints.
    pub fn outside_the_lab(self) -> Self {
        Self { hint: "", ..self }
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
    /// Bytes of the whole lines of `cells.jsonl`.
    whole: u64,
}

impl Store {
    /// Opens a result directory, created if needed, for a new run. Records of an earlier run in it are dropped.
    ///
    /// # Errors
    /// The directory or its `cells.jsonl` cannot be created.
    pub fn create(dir: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(dir).map_err(|error| StoreError::new("create directory", dir, error))?;
        let path = dir.join(CELLS);
        let cells = fresh(&path).map_err(|error| StoreError::new("create", &path, error))?;
        Ok(Self { dir: dir.to_owned(), cells, whole: 0 })
    }

    /// Opens the result directory of an interrupted run, to continue after the records to keep; others are dropped.
    ///
    /// # Errors
    /// Its `cells.jsonl` cannot be written; then it is as it was.
    pub fn resume(dir: &Path, kept: &[Record]) -> Result<Self, StoreError> {
        let path = dir.join(CELLS);
        let cells = replaced(&path, |out| {
            kept.iter().try_for_each(|record| {
                out.write_all(&sealed(record)?)?;
                out.write_all(b"\n")
            })
        })?;
        let fail = |error| StoreError::new("append to", &path, error);
        let whole = cells.metadata().map_err(fail)?.len();
        Ok(Self { dir: dir.to_owned(), cells, whole })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// It cannot be written; those before it stay readable, and later ones may be appended.
    pub fn append(&mut self, record: &Record) -> Result<(), StoreError> {
        let path = self.dir.join(CELLS);
        let fail = |error| StoreError::new("append to", &path, error);
        let mut line = sealed(record).map_err(|error| fail(error.into()))?;
        line.push(b'\n');
        match self.cells.write_all(&line) {
            Ok(()) => {
                self.whole += line.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Remove the partial line; if even this fails, the reader skips it as long as it is the last.
                let _ = self.cells.set_len(self.whole);
                let _ = io::Seek::seek(&mut self.cells, io::SeekFrom::Start(self.whole));
                Err(fail(error))
            }
        }
    }
}

/// Whether a directory has results. Remains of a run that ended before its first cell, without a manifest, cannot be
/// resumed and do not count.
pub fn holds_a_run(dir: &Path) -> bool {
    dir.join(MANIFEST).exists() || fs::metadata(dir.join(CELLS)).is_ok_and(|cells| cells.len() > 0)
}

/// Writes the manifest of a result directory: before the run, and again at its end.
///
/// # Errors
/// It cannot be written; an earlier one is kept.
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

/// Sorts records, which are in the order of their cells' ends, into the order of the sweep: the first axis is the
/// slowest, extra cells come last, repeats of a cell follow one another.
pub fn put_in_order(manifest: &Manifest, records: &mut [Record]) {
    let numbered = |values: &[String]| -> HashMap<String, usize> {
        // Of equal ones the first.
        values.iter().enumerate().rev().map(|(place, value)| (value.clone(), place)).collect()
    };
    let axes: Vec<_> = manifest.axes.iter().map(|(key, values)| (key, numbered(values))).collect();
    records.sort_by_cached_key(|record| {
        let place = |(key, places): &(&String, HashMap<String, usize>)| {
            let own = record.axes.iter().find(|(name, _)| name == *key).map(|(_, value)| value);
            own.and_then(|own| places.get(own)).copied().unwrap_or(usize::MAX)
        };
        (axes.iter().map(place).collect::<Vec<usize>>(), record.row.cell.clone(), record.row.repeat)
    });
}

/// Reads the manifest of a result directory.
///
/// # Errors
/// It is missing, or not a manifest.
pub fn read_manifest(dir: &Path) -> Result<Manifest, StoreError> {
    let path = dir.join(MANIFEST);
    let bytes = fs::read(&path).map_err(|error| {
        let missing = error.kind() == io::ErrorKind::NotFound;
        let error = StoreError::new("read", &path, error);
        if missing { StoreError { hint: NO_RESULT, ..error } } else { error }
    })?;
    parse_manifest(&path, &bytes)
}

/// The manifest in these bytes of a file.
pub(crate) fn parse_manifest(path: &Path, bytes: &[u8]) -> Result<Manifest, StoreError> {
    let read = |error: serde_json::Error| StoreError::new("read", path, error.into());
    let mut manifest: Manifest = serde_json::from_slice(bytes).map_err(read)?;
    // The scenario has it as well, and cells used that.
    let seed = manifest.source.lines().find_map(|line| line.strip_prefix("seed = ")?.parse().ok());
    manifest.seed = seed.unwrap_or(manifest.seed);
    Ok(manifest)
}

const NO_RESULT: &str = ". It is not a result directory, or the run ended before its first cell: run it again.";

/// Reads the records of a result directory in the order in which they ended. An incomplete last line (of a killed run)
/// is skipped. If a cell was run again, the last record counts.
///
/// # Errors
/// The file is missing, or a whole line of it is not a record.
pub fn read_records(dir: &Path) -> Result<Vec<Record>, StoreError> {
    let path = dir.join(CELLS);
    let file = File::open(&path).map_err(|error| StoreError::new("read", &path, error))?;
    parse_records(&path, BufReader::new(file))
}

/// The records in these lines of a file.
pub(crate) fn parse_records(path: &Path, mut lines: impl BufRead) -> Result<Vec<Record>, StoreError> {
    let fail = |error| StoreError::new("read", path, error);
    // Of each cell and repeat the last record.
    let mut records = IndexMap::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        lines.read_until(b'\n', &mut line).map_err(fail)?;
        let Some(whole) = line.strip_suffix(b"\n") else { break };
        let record = unsealed(whole)
            .map_err(|error| fail(io::Error::other(format!("line {number}: {error}. Delete the line."))))?;
        let key = (record.row.cell.clone(), record.row.repeat);
        records.shift_remove(&key);
        records.insert(key, record);
    }
    Ok(records.into_values().collect())
}

/// A record as a line with a checksum at its end, which reveals manual changes.
fn sealed(record: &Record) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(record)?;
    let seal = checksum(&line);
    line.pop();
    line.extend_from_slice(format!("{SEAL}{seal:016x}\"}}").as_bytes());
    Ok(line)
}

/// The record of a line. If it was changed, or has no checksum, it is not valid, and has a remark.
fn unsealed(line: &[u8]) -> serde_json::Result<Record> {
    let mut record: Record = serde_json::from_slice(line)?;
    let at = line.len().saturating_sub(SEAL.len() + "0123456789abcdef\"}".len());
    let written = [&line[..at], b"}"].concat();
    if line[at..] != *format!("{SEAL}{:016x}\"}}", checksum(&written)).as_bytes() {
        (record.row.valid, record.changed) = (false, true);
        record.disturbed.clear();
        record.remarks.insert(0, format!("{CELLS} was changed after the measurement"));
    }
    Ok(record)
}

/// A line about the changed records of `dir`. `None`: there are none.
pub fn changed(dir: &Path, records: &[Record]) -> Option<String> {
    let mut changed = records.iter().filter(|record| record.changed).map(|record| record.row.cell.as_str());
    let (first, more) = (changed.next()?, changed.count());
    let others = if more > 0 { format!(" and {more} more") } else { String::new() };
    let file = dir.join(CELLS);
    Some(format!("{} was changed after the measurement: {first}{others} cannot be trusted", file.display()))
}

/// FNV-1a, 64 bits: not a signature, but no accidental change matches it.
pub fn checksum(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Precedes the checksum, and follows the data.
const SEAL: &str = ",\"seal\":\"";

/// The name of a cell or a host as part of a file name: characters with a meaning in paths or shells become dashes.
pub fn file_stem(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.%@".contains(c) { c } else { '-' }).collect()
}

/// Creates or replaces a file. A symbolic link of that name is replaced and not followed: another owner of the
/// directory may have placed it, and we may be root. A device stays, and is written to.
///
/// # Errors
/// It cannot be created, or the existing one not be removed.
pub fn fresh(path: &Path) -> io::Result<File> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_file() || there.is_symlink() => fs::remove_file(path)?,
        Ok(_) => return File::options().write(true).open(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    File::options().write(true).create_new(true).open(path)
}

/// A directory within a result directory, created if needed. A symbolic link is refused, as by [`fresh`].
///
/// # Errors
/// It cannot be created, or is not a directory.
pub fn folder(path: &Path) -> Result<(), StoreError> {
    let fail = |error| StoreError::new("create directory", path, error);
    fs::create_dir_all(path).map_err(fail)?;
    if fs::symlink_metadata(path).map_err(fail)?.is_symlink() {
        return Err(fail(io::Error::other("it is a symbolic link. Remove it.")));
    }
    Ok(())
}

/// Writes a file next to `path` and moves it there once it is complete, so that readers never see a part.
///
/// # Errors
/// It cannot be written; the old file is unchanged, and nothing else is left.
pub fn replace(path: &Path, render: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), StoreError> {
    replaced(path, render).map(drop)
}

/// The same, for a file that stays open: later writes are appended.
fn replaced(path: &Path, render: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<File, StoreError> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    let beside = path.with_file_name(name);
    let written = fresh(&beside).and_then(|file| {
        let mut out = BufWriter::new(file);
        render(&mut out)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        fs::rename(&beside, path).map(|()| file)
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
        write_manifest(&store.dir, &manifest).unwrap();
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
        write_manifest(dir.path(), &fixture::manifest()).unwrap();
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

        let mut kept = read_records(dir.path()).unwrap();
        kept.retain(|record| !record.stopped);
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
        write_manifest(dir.path(), &fixture::manifest()).unwrap();
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
    fn a_record_that_was_changed_by_hand_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(dir.path()).unwrap();
        let records: Vec<Record> = fixture::records().into_iter().take(2).collect();
        records.iter().for_each(|record| store.append(record).unwrap());
        let path = dir.path().join(CELLS);
        let text = fs::read_to_string(&path).unwrap();
        let sent = format!("\"sent\":{},", records[1].row.sent);
        let (first, second) = text.split_once('\n').unwrap();
        assert!(second.contains(&sent));
        fs::write(&path, format!("{first}\n{}", second.replace(&sent, "\"sent\":7,"))).unwrap();
        let read = read_records(dir.path()).unwrap();
        assert_eq!(read.iter().map(|record| record.row.valid).collect::<Vec<_>>(), [true, false]);
        assert!(read[1].row.sent == 7 && read[1].remarks[0].starts_with("cells.jsonl was changed"));
        assert_eq!(
            read.iter().map(|record| record.believes(crate::columns::Statistic::Counter)).collect::<Vec<_>>(),
            [true, false]
        );
        assert!(!read[1].believes(crate::columns::Statistic::Rate));
        let told = changed(dir.path(), &read).unwrap();
        let own = format!("cells.jsonl was changed after the measurement: {} cannot", records[1].row.cell);
        assert!(told.contains(&own) && changed(dir.path(), &records).is_none(), "{told}");
        // Nor is one without its checksum.
        fs::write(&path, serde_json::to_string(&records[0]).unwrap() + "\n").unwrap();
        assert!(!read_records(dir.path()).unwrap()[0].row.valid);
    }

    #[test]
    fn a_full_disk_is_said_in_one_line() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut store = Store { dir: "run".into(), cells: full, whole: 0 };
        let error = store.append(&fixture::records()[0]).unwrap_err();
        assert!(error.is_full());
        let line = error.to_string();
        assert!(line.starts_with("append to run/cells.jsonl: No space left on device"), "{line}");
        assert!(line.contains("results are kept") && !line.contains('\n'), "{line}");
    }

    /// Whoever owns the directory of a result may lay links in it.
    #[test]
    fn links_in_a_result_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let run = dir.path().join("run");
        fs::create_dir(&run).unwrap();
        let link = |name: &str| std::os::unix::fs::symlink(&victim, run.join(name)).unwrap();
        [CELLS, ".manifest.json.new", "m.csv"].into_iter().for_each(link);
        let mut store = Store::create(&run).unwrap();
        store.append(&fixture::records()[0]).unwrap();
        write_manifest(&run, &fixture::manifest()).unwrap();
        fresh(&run.join("m.csv")).unwrap().write_all(b"here").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!((read_records(&run).unwrap().len(), fs::read(run.join("m.csv")).unwrap()), (1, b"here".to_vec()));
        std::os::unix::fs::symlink(dir.path(), run.join("messages")).unwrap();
        let refused = folder(&run.join("messages")).unwrap_err().to_string();
        assert!(refused.contains("it is a symbolic link"), "{refused}");
        folder(&run.join("pcap")).unwrap();
        folder(&run.join("pcap")).unwrap();
    }

    #[test]
    fn what_is_no_result_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let error = read_manifest(dir.path()).unwrap_err().to_string();
        assert!(error.contains("run it again") && error.lines().count() == 1, "{error}");
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
