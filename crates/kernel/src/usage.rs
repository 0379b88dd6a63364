//! What this process uses of the machine.

use std::time::Duration;

use procfs::process::{LimitValue, Process, Stat};
use procfs::{ProcError, ProcResult, boot_time_secs, page_size, ticks_per_second};

use crate::Error;

/// What this process uses, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of all its threads, in user space and in the kernel; to a tick of the kernel, mostly 10 ms.
    pub cpu: Duration,
    /// Memory resident in RAM, bytes.
    pub resident: u64,
    /// Memory mapped, bytes.
    pub virtual_memory: u64,
    /// File descriptors open.
    pub open_files: usize,
    /// File descriptors that it may have open (RLIMIT_NOFILE, the soft limit); `None`: no limit.
    pub most_files: Option<u64>,
    /// Threads.
    pub threads: usize,
    /// When it started, since the Unix epoch; to a second.
    pub started: Duration,
}

impl Usage {
    /// Reads it from /proc (proc_pid_stat(5)).
    ///
    /// # Errors
    /// Without /proc.
    pub fn read() -> Result<Self, Error> {
        read().map_err(|error| Error::answer("read /proc/self", error.to_string()))
    }
}

fn read() -> ProcResult<Usage> {
    let process = Process::myself()?;
    let stat = process.stat()?;
    let most_files = match process.limits()?.max_open_files.soft_limit {
        LimitValue::Value(most) => Some(most),
        LimitValue::Unlimited => None,
    };
    Ok(Usage {
        cpu: ticks(stat.utime + stat.stime),
        resident: stat.rss * page_size(),
        virtual_memory: stat.vsize,
        open_files: process.fd_count()?,
        most_files,
        threads: threads(&stat)?,
        started: Duration::from_secs(boot_time_secs()?) + ticks(stat.starttime),
    })
}

fn ticks(count: u64) -> Duration {
    Duration::from_millis(count * 1000 / ticks_per_second())
}

fn threads(stat: &Stat) -> ProcResult<usize> {
    usize::try_from(stat.num_threads).map_err(|_| ProcError::Other("a negative number of threads".into()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn open_files_and_threads_are_counted() {
        let before = Usage::read().unwrap();
        let files: Vec<File> = (0..400).map(|_| File::open("/proc/self/status").unwrap()).collect();
        let after = Usage::read().unwrap();
        // Other tests open and close files meanwhile, but not that many.
        let opened = after.open_files.saturating_sub(before.open_files);
        assert!((150..650).contains(&opened), "{before:?} {after:?}");
        drop(files);

        let status = fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        assert!(after.resident.abs_diff(field("VmRSS:") * 1024) < 64 << 20, "{after:?}");
        assert!(after.threads as u64 >= 1 && field("Threads:") >= 1);
    }
}
