//! Processes of this machine, and what one says of itself.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::{fs, io};

use nix::sys::signal::Signal;

use crate::Error;
use crate::error::During;

/// The numbers of all processes that we may see, ascending.
///
/// # Errors
/// Without /proc.
pub fn all() -> Result<Vec<u32>, Error> {
    let mut pids = numbers("/proc").during(|| "list /proc")?;
    pids.sort_unstable();
    Ok(pids)
}

/// The numbers of a process's children, their children and so on, as far as each has a parent that is one of them.
pub fn descendants(ancestor: u32) -> BTreeSet<u32> {
    let parents: HashMap<u32, u32> =
        all().unwrap_or_default().into_iter().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let descends = |pid: u32| {
        let mut above = parents.get(&pid).copied();
        // Numbers may be used again while they are read: no circle holds us.
        for _ in 0..DEEPEST {
            match above {
                Some(parent) if parent == ancestor => return true,
                Some(parent) => above = parents.get(&parent).copied(),
                None => return false,
            }
        }
        false
    };
    parents.keys().copied().filter(|&pid| descends(pid)).collect()
}

/// More generations than any shell makes.
const DEEPEST: usize = 1000;

/// Behind the name, which may hold anything: state and parent (proc_pid_stat(5)).
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let behind = stat.iter().rposition(|byte| *byte == b')')? + 1;
    String::from_utf8_lossy(&stat[behind..]).split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Whether there is a process of this number.
pub fn runs(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap_or(false)
}

/// The name of a process, at most 15 bytes (`comm` of proc(5)), of which it may choose any; empty: it has ended.
pub fn name(pid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

/// Whether this process ignores a signal, because whoever started it has seen to that (`nohup`) or it did so itself.
pub fn ignores(signal: Signal) -> bool {
    ignored(&own_status(), signal)
}

/// Bit n - 1 of `SigIgn`.
pub(crate) fn ignored(status: &str, signal: Signal) -> bool {
    let mask = status_field(status, "SigIgn").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    mask.is_some_and(|mask| mask >> (signal as i32 - 1) & 1 == 1)
}

/// /proc/self/status, see proc(5); empty without /proc.
pub(crate) fn own_status() -> String {
    fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// A line `Name: value` of it. procfs wants every line of a newest kernel there, and others lack some.
pub(crate) fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Entries of a directory whose names are numbers.
pub(crate) fn numbers(directory: impl AsRef<Path>) -> io::Result<Vec<u32>> {
    Ok(fs::read_dir(directory)?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_there_until_it_is_waited_for() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        // Until it is itself it has our name.
        child.stdin.as_mut().unwrap().write_all(b"!").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert!(runs(pid) && all().unwrap().contains(&pid));
        assert_eq!(name(pid), "cat");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!runs(pid) && !all().unwrap().contains(&pid));
        assert_eq!(name(pid), "");
    }

    #[test]
    fn a_name_that_is_no_text_is_told_all_the_same() {
        let script = "printf 'a\\377b' > /proc/$$/comm; echo; read line";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        shell.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert_eq!(name(shell.id()), "a\u{fffd}b");
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }

    #[test]
    fn children_of_children_descend_from_us() {
        let script = "sleep 60 & echo $!; cat; kill $!";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(shell.stdout.take().unwrap()), &mut line).unwrap();
        let sleep: u32 = line.trim().parse().unwrap();
        let own = descendants(std::process::id());
        assert!(own.contains(&shell.id()) && own.contains(&sleep) && !own.contains(&std::process::id()), "{own:?}");
        assert!(!descendants(shell.id()).contains(&shell.id()) && descendants(shell.id()).contains(&sleep));
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }

    #[test]
    fn nohup_is_seen() {
        let status = |mask: &str| format!("Name:\tweir\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\nSigCgt:\t1\n");
        assert!(ignored(&status("0000000000000001"), Signal::SIGHUP));
        assert!(!ignored(&status("0000000000001002"), Signal::SIGHUP));
        assert!(ignored(&status("0000000000001002"), Signal::SIGINT));
        assert!(!ignored("", Signal::SIGHUP) && !ignored(&status("?"), Signal::SIGHUP));
        // Rust's runtime ignores it, nobody does the other.
        assert!(ignores(Signal::SIGPIPE) && !ignores(Signal::SIGUSR2));
    }
}
