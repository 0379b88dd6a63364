//! The machine: its processors, who else uses them, what programs cost.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// The processor of source and sinks.
pub const TRAFFIC: usize = 0;

/// The processor of the replicator where its cost is measured.
pub const REPLICATOR: usize = 1;

/// Binds the calling thread to one processor.
///
/// # Errors
/// There is no such processor.
pub fn pin_thread(processor: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(processor)?;
    sched_setaffinity(CALLER, &set).with_context(|| format!("run on processor {processor} alone (2 are needed)"))
}

/// Runs `f` bound to one processor, as are the programs it starts.
///
/// # Errors
/// There is no such processor, and those of `f`.
pub fn pinned<T>(processor: usize, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = sched_getaffinity(CALLER)?;
    pin_thread(processor)?;
    let result = f();
    sched_setaffinity(CALLER, &before)?;
    result
}

/// In the scheduler's calls: the calling thread.
const CALLER: Pid = Pid::from_raw(0);

/// CPU time of a program and all its living descendants, without the init above them (`root`).
///
/// # Errors
/// The kernel does not tell.
pub fn cpu_time(root: u32) -> Result<Duration> {
    let mut sum = Duration::ZERO;
    for id in below(root)? {
        let clock = clock_getcpuclockid(Pid::from_raw(id as i32)).context("find a program's CPU clock")?;
        sum += Duration::from(clock_gettime(clock)?);
    }
    Ok(sum)
}

/// Memory of the same that is resident, bytes.
///
/// # Errors
/// The kernel does not tell.
pub fn resident(root: u32) -> Result<u64> {
    let mut sum = 0;
    for id in below(root)? {
        let status = fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in its status")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        sum += kilobytes * 1024;
    }
    Ok(sum)
}

/// The living descendants of a process.
fn below(root: u32) -> Result<Vec<u32>> {
    let parents = parents()?;
    let is_below = |mut id: u32| {
        while let Some((_, parent)) = parents.iter().find(|(child, _)| *child == id) {
            if *parent == root {
                return true;
            }
            id = *parent;
        }
        false
    };
    Ok(parents.iter().map(|(id, _)| *id).filter(|id| is_below(*id)).collect())
}

/// Every process and its parent.
fn parents() -> Result<Vec<(u32, u32)>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may have ended meanwhile.
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        // After the name, which is in parentheses and may contain anything: state, parent.
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        parents.extend(parent.map(|parent| (id, parent)));
    }
    Ok(parents)
}

/// Watches how much of the machine others take.
pub struct Quiet {
    start: Instant,
    busy: f64,
    stolen: f64,
    ours: f64,
}

impl Quiet {
    /// From now on.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn watch() -> Result<Quiet> {
        let (busy, stolen) = machine_time()?;
        Ok(Quiet { start: Instant::now(), busy, stolen, ours: our_time()? })
    }

    /// Processors taken since by programs that are not ours, and by the hypervisor. Ours must have ended.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn others(&self) -> Result<(f64, f64)> {
        let (busy, stolen) = machine_time()?;
        let elapsed = self.start.elapsed().as_secs_f64();
        let others = (busy - self.busy) - (our_time()? - self.ours);
        Ok((others.max(0.0) / elapsed, (stolen - self.stolen) / elapsed))
    }
}

/// Seconds during which processors worked, and during which the hypervisor kept them from it.
fn machine_time() -> Result<(f64, f64)> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().context("/proc/stat is empty")?;
    // user nice system idle iowait irq softirq steal, in hundredths of a second.
    let columns: Vec<f64> = line.split_whitespace().skip(1).filter_map(|column| column.parse().ok()).collect();
    let [user, nice, system, _, _, irq, softirq, steal] = columns.first_chunk().context("/proc/stat is short")?;
    Ok(((user + nice + system + irq + softirq) / 100.0, steal / 100.0))
}

fn our_time() -> Result<f64> {
    let mut sum = 0.0;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who)?;
        for time in [usage.user_time(), usage.system_time()] {
            sum += time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        }
    }
    Ok(sum)
}
