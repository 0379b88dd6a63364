use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_program::files::writable;

use super::*;
use crate::model::{Action, Class, Route, Rule, Target};

fn entry(id: u64) -> Entry {
    let prefix = "192.0.2.7/32".parse().unwrap();
    let route = Route {
        rule: Rule::to(prefix),
        action: Action::Limit { bytes_per_s: 1.25e6 },
        next_hop: None,
        communities: vec![crate::config::values::Community::Standard(65535, 666)],
    };
    Entry {
        attack: Some(id),
        target: Some(Target { prefix, group: "web".into() }),
        class: Some(Class::UdpFlood),
        routes: vec![route],
        level: Some(0),
        times: Some(2),
        ttl_s: Some(600),
        ..Entry::new(UNIX_EPOCH + Duration::from_millis(1_799_999_999_456), "anna", What::Announced, "40 \u{1b}[2J")
    }
}

#[test]
fn what_is_written_is_read_and_for_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("protect.jsonl");
    assert!(read(&path).unwrap().entries.is_empty());
    let mut journal = Journal::new(path.clone(), MOST);
    journal.append(&[entry(1), entry(2)]).unwrap();
    drop(journal);
    Journal::new(path.clone(), MOST).append(&[Entry::new(SystemTime::now(), WEIR, What::Stopped, "")]).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.lines().count() == 3 && !text.contains('\u{1b}'), "{text}");
    let found = read(&path).unwrap();
    assert_eq!((&found.entries[..2], found.entries[2].what), (&[entry(1), entry(2)][..], What::Stopped));
}

#[test]
fn a_line_that_is_none_is_named_and_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("protect.jsonl");
    let mut journal = Journal::new(path.clone(), MOST);
    journal.append(&[entry(1)]).unwrap();
    let line = fs::read_to_string(&path).unwrap();
    // Half a line, one of another program, one that has no end, one of a later version with keys of its own.
    let later = line.replace("\"what\":\"announced\"", "\"what\":\"announced\",\"colour\":\"blue\"");
    let endless = "x".repeat(3 << 20);
    fs::write(&path, format!("{line}{}\n{{\"a\":1}}\n\n{endless}\n{later}{}", &line[..40], &line[..30])).unwrap();
    let found = read(&path).unwrap();
    assert_eq!((found.entries, found.count), (vec![entry(1), entry(1)], 4));
    assert_eq!(found.unreadable.map(|(line, _)| line), Some(2));
}

#[test]
fn a_file_that_is_no_journal_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("protect.jsonl");
    let random: Vec<u8> = (0..100_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8 | 0x80).collect();
    for (bytes, is_none) in
        [(&random[..], true), (b"[protect]\nmode = 1\n", true), (b"{\"ti", false), (b"{\"time\":\"x\"}\n", false)]
    {
        fs::write(&path, bytes).unwrap();
        let refused = read(&path).err().map(|error| error.to_string());
        assert_eq!(refused.is_some_and(|why| why.starts_with("it is no journal")), is_none, "{:?}", &bytes[..4]);
    }
    // A journal of which the first line is torn is one.
    let mut journal = Journal::new(path.clone(), MOST);
    fs::write(&path, "{\"time\":\"2026-").unwrap();
    journal.append(&[entry(1)]).unwrap();
    assert_eq!(read(&path).unwrap().count, 1);
}

/// A crash may leave half a line, and whoever starts again knows nothing of it.
#[test]
fn what_is_written_behind_half_a_line_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("protect.jsonl");
    Journal::new(path.clone(), MOST).append(&[entry(1)]).unwrap();
    let mut torn = fs::read_to_string(&path).unwrap();
    torn.push_str("{\"time\":\"2026-11-27T13:2");
    fs::write(&path, torn).unwrap();
    let stopped = Entry::new(UNIX_EPOCH, "anna", What::Stopped, "");
    let mut journal = Journal::new(path.clone(), MOST);
    journal.append(&[stopped]).unwrap();
    journal.append(&[entry(2)]).unwrap();
    // Nor is a line put between whole ones.
    Journal::new(path.clone(), MOST).append(&[entry(3)]).unwrap();
    let found = read(&path).unwrap();
    let whats: Vec<_> = found.entries.iter().map(|entry| (entry.attack, entry.what)).collect();
    let announced = |id| (Some(id), What::Announced);
    assert_eq!(whats, [announced(1), (None, What::Stopped), announced(2), announced(3)]);
    assert_eq!((found.count, fs::read_to_string(&path).unwrap().lines().count()), (1, 5));
}

#[test]
fn a_full_file_is_put_aside_and_what_matters_goes_along() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("protect.jsonl");
    let mut journal = Journal::new(path.clone(), 1_000);
    while !journal.is_full() {
        journal.append(&[entry(1)]).unwrap();
    }
    journal.rotate(&[entry(7)]).unwrap();
    journal.append(&[entry(8)]).unwrap();
    assert_eq!(read(&path).unwrap().entries, [entry(7), entry(8)]);
    assert!(read(&dir.path().join("protect.jsonl.1")).unwrap().entries.len() > 1);
    // Killed before the new file has the name: the old one has it still, and is put aside again.
    let (aside, new) = (dir.path().join("protect.jsonl.1"), dir.path().join("protect.jsonl.new"));
    fs::remove_file(&aside).unwrap();
    fs::hard_link(&path, &aside).unwrap();
    fs::write(&new, "{\"ti").unwrap();
    let mut journal = Journal::new(path.clone(), 1_000);
    journal.append(&[entry(9)]).unwrap();
    assert_eq!(read(&path).unwrap().entries, [entry(7), entry(8), entry(9)]);
    journal.rotate(&[entry(10)]).unwrap();
    assert_eq!((read(&path).unwrap().entries, read(&aside).unwrap().entries.len()), (vec![entry(10)], 3));
    assert!(!new.exists());
}

#[test]
fn what_is_put_aside_or_deleted_is_written_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let (path, aside) = (dir.path().join("protect.jsonl"), dir.path().join("protect.jsonl-20260101"));
    let mut journal = Journal::new(path.clone(), MOST);
    journal.append(&[entry(1)]).unwrap();
    assert!(!journal.is_moved());
    fs::rename(&path, &aside).unwrap();
    assert!(journal.is_moved() && !journal.is_moved());
    journal.append(&[entry(2)]).unwrap();
    assert_eq!((read(&aside).unwrap().entries, read(&path).unwrap().entries), (vec![entry(1)], vec![entry(2)]));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::remove_file(&path).unwrap();
    symlink(&aside, &path).unwrap();
    assert!(journal.is_moved() && journal.append(&[entry(3)]).is_err());
    assert_eq!(read(&aside).unwrap().entries, [entry(1)]);
    drop(journal);
    fs::remove_file(&path).unwrap();
    let writer = Writer::start(path.clone(), MOST).unwrap();
    assert!(writer.write_now(vec![entry(4)]) && !writer.is_due());
    fs::remove_file(&path).unwrap();
    assert!(writer.write_now(vec![entry(5)]) && writer.is_due());
    writer.begin(vec![entry(6)]);
    drop(writer);
    assert_eq!(read(&path).unwrap().entries, [entry(5), entry(6)]);
}

#[test]
fn links_of_others_lead_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let (path, precious) = (dir.path().join("protect.jsonl"), dir.path().join("precious"));
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, &path).unwrap();
    assert!(Journal::new(path.clone(), MOST).append(&[entry(1)]).is_err() && read(&path).is_err());
    assert_eq!(writable(&path).unwrap_err().to_string(), "it is a symbolic link. Name the file itself.");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert!(writable(&dir.path().join("nowhere/journal")).unwrap_err().to_string().starts_with("directory "));
}

/// `/dev/full` is no regular file, but a disk of which nothing is left is as easily had: a limit on the size of files is not.
#[test]
fn what_cannot_be_written_is_counted_and_nobody_waits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gone/protect.jsonl");
    let writer = Writer::start(path.clone(), MOST).unwrap();
    assert!(!writer.write_now(vec![entry(1), entry(2)]));
    assert!(writer.unwritten() == 2 && writer.is_behind());
    // It is tried again each time, and what is missing comes next, though there is no second without a line.
    fs::create_dir(dir.path().join("gone")).unwrap();
    writer.is_due();
    assert!(writer.write_now(vec![entry(3)]) && writer.is_due());
    writer.begin(vec![entry(1)]);
    assert!(writer.write_now(vec![entry(4)]) && !writer.is_behind());
    drop(writer);
    assert_eq!(read(&path).unwrap().entries, [entry(3), entry(1), entry(4)]);
}
