//! Who belongs to a test: all that its commands have started.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_kernel::counters::snmp;
use weir_kernel::namespaces::NetNs;
use weir_testbed::{Ended, Started, await_that};

use super::weir;

/// Everything that a marked command starts, however far it gets away: its environment tells.
pub(super) struct Family(String);

impl Family {
    pub(super) fn new() -> Family {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Family(format!("WEIR_TEST_FAMILY={}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// `weir lab ARGUMENTS`, when it has ended.
    pub(super) fn lab(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.mark(&mut weir(&[&["lab"], arguments].concat())))
    }

    /// `weir lab shell ARGUMENTS`, when it has ended.
    pub(super) fn shell(&self, arguments: &[&str]) -> Ended {
        self.lab(&[&["shell"], arguments].concat())
    }

    /// `weir lab shell ARGUMENTS`, whose program has printed its first line, which is returned.
    #[track_caller]
    pub(super) fn enter(&self, arguments: &[&str]) -> (Started, String) {
        let mut shell = self.spawn(weir(&[&["lab", "shell"], arguments].concat()));
        let line = shell.next_line().unwrap_or_else(|| panic!("it has ended: {:?}", shell.said()));
        (shell, line)
    }

    #[track_caller]
    pub(super) fn spawn(&self, mut command: Command) -> Started {
        self.mark(&mut command);
        Started::spawn(command)
    }

    pub(super) fn mark<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let (key, value) = self.0.split_once('=').unwrap();
        command.env(key, value)
    }

    /// Process directories of members with a word in their command line.
    pub(super) fn processes(&self, word: &str) -> Vec<PathBuf> {
        let is_ours = |dir: &PathBuf| {
            let read = |file| fs::read(dir.join(file)).unwrap_or_default();
            let has = |bytes: &[u8], wanted: &str| bytes.split(|&byte| byte == 0).any(|part| part == wanted.as_bytes());
            has(&read("environ"), &self.0) && (word.is_empty() || has(&read("cmdline"), word))
        };
        processes().filter(is_ours).collect()
    }

    /// Network namespaces of members, entered or held, without our own.
    pub(super) fn networks(&self) -> BTreeSet<String> {
        let own = link(Path::new("/proc/self/ns/net"));
        self.processes("")
            .iter()
            .flat_map(|dir| networks(dir))
            .filter(|network| Some(network) != own.as_ref())
            .collect()
    }

    /// The largest value of a protocol counter in the networks that members hold.
    pub(super) fn counted(&self, protocol: &str, name: &str) -> u64 {
        let own = link(Path::new("/proc/self/ns/net"));
        let descriptors = |dir: PathBuf| fs::read_dir(dir.join("fd")).into_iter().flatten();
        let held = self.processes("").into_iter().flat_map(descriptors).filter_map(|entry| {
            let path = entry.ok()?.path();
            let target = link(&path).filter(|target| target.starts_with("net:[") && Some(target) != own.as_ref())?;
            Some((target, path))
        });
        let held: BTreeMap<String, PathBuf> = held.collect();
        let value = |path: &PathBuf| {
            let network = NetNs::from_fd(File::open(path).ok()?.into());
            snmp(&network).ok()?.get(protocol, name)?.try_into().ok()
        };
        held.values().filter_map(value).max().unwrap_or(0)
    }

    /// Waits until the last member has ended. There is no event for the end of somebody else's process.
    #[track_caller]
    pub(super) fn await_end(&self) {
        await_that("all to end", || self.processes("").is_empty());
    }
}

impl Drop for Family {
    /// A test that failed leaves nothing behind either.
    fn drop(&mut self) {
        for dir in self.processes("") {
            if let Some(number) = dir.file_name().and_then(|name| name.to_str()?.parse().ok()) {
                let _ = kill(Pid::from_raw(number), Signal::SIGKILL);
            }
        }
    }
}

pub(super) fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    entries.filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit()))
}

/// Network namespaces that a process is in or holds a descriptor of.
pub(super) fn networks(process: &Path) -> Vec<String> {
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten();
    let held = descriptors.filter_map(|entry| link(&entry.ok()?.path())).filter(|target| target.starts_with("net:["));
    held.chain(link(&process.join("ns/net"))).collect()
}

fn link(path: &Path) -> Option<String> {
    Some(fs::read_link(path).ok()?.to_str()?.to_owned())
}
