//! Who else wants the processors: the host of a virtual machine (steal), the quota of our control group, other programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use procfs::process::{MountInfo, Process};
use procfs::{Current, CurrentSI, KernelStats, ProcessCGroup};

use crate::{Error, sysctl};

/// What was taken from this process so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contention {
    /// By processor: what the host of this virtual machine took, in steps of a tick (mostly 10 ms; proc_stat(5)).
    pub stolen: Vec<Duration>,
    /// How long our control groups were stopped because their quota was used up; `None`: no quota, or no controller.
    pub throttled: Option<Duration>,
}

/// A limit on the processor time of a control group, and so of all in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// Time a period.
    pub quota: Duration,
    /// The period.
    pub period: Duration,
}

impl Quota {
    /// As many processors as it amounts to.
    pub fn processors(&self) -> f64 {
        self.quota.div_duration_f64(self.period)
    }
}

/// Reads [`Contention`] again and again: the groups are looked up once.
#[derive(Debug)]
pub struct Observer {
    groups: Vec<Group>,
}

impl Observer {
    /// Finds the control groups of this process, as far as they are mounted.
    pub fn new() -> Observer {
        Observer { groups: groups().unwrap_or_default() }
    }

    /// The tightest quota of our groups; `None`: none is set, or none is visible (that of a container's host may not be).
    pub fn quota(&self) -> Option<Quota> {
        let quotas = self.groups.iter().filter_map(Group::quota);
        quotas.min_by(|a, b| a.processors().total_cmp(&b.processors()))
    }

    /// What was taken until now.
    ///
    /// # Errors
    /// Without /proc.
    pub fn read(&self) -> Result<Contention, Error> {
        let stats = KernelStats::current().map_err(|error| Error::answer("read /proc/stat", error.to_string()))?;
        let stolen = stats.cpu_time.iter().map(|cpu| cpu.steal_duration().unwrap_or_default()).collect();
        Ok(Contention { stolen, throttled: self.groups.iter().filter_map(Group::throttled).max() })
    }
}

impl Default for Observer {
    fn default() -> Self {
        Self::new()
    }
}

/// How long, of every period, real-time threads may run (sched(7)); `None`: without limit, or not told.
pub fn realtime_bandwidth() -> Option<(Duration, Duration)> {
    // Without limit the first is -1.
    let micros = |name: &str| sysctl::seen(name)?.parse::<u64>().ok();
    let (runtime, period) = (micros("kernel/sched_rt_runtime_us")?, micros("kernel/sched_rt_period_us")?);
    Some((Duration::from_micros(runtime), Duration::from_micros(period)))
}

/// Share of the last ten seconds in which something waited for a processor (Documentation/accounting/psi.rst), 0 to 1.
///
/// # Errors
/// On a kernel without pressure stall information, or one that was started without.
pub fn pressure() -> Result<f64, Error> {
    let operation = || "read /proc/pressure/cpu".to_owned();
    let some = procfs::CpuPressure::current().map_err(|error| Error::answer(operation(), error.to_string()))?.some;
    Ok(f64::from(some.avg10) / 100.0)
}

/// The directory of a control group with a processor controller.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    dir: PathBuf,
    /// Of cgroup v1.
    legacy: bool,
}

impl Group {
    fn quota(&self) -> Option<Quota> {
        let text = |file: &str| fs::read_to_string(self.dir.join(file)).ok();
        if self.legacy {
            quota_of_two(&text("cpu.cfs_quota_us")?, &text("cpu.cfs_period_us")?)
        } else {
            let max = text("cpu.max")?;
            let (quota, period) = max.trim().split_once(' ')?;
            quota_of_two(quota, period)
        }
    }

    fn throttled(&self) -> Option<Duration> {
        self.quota()?;
        throttled(&fs::read_to_string(self.dir.join("cpu.stat")).ok()?)
    }
}

/// Microseconds each; -1 or `max`: no limit.
fn quota_of_two(quota: &str, period: &str) -> Option<Quota> {
    let micros = |text: &str| text.trim().parse().ok().map(Duration::from_micros);
    Some(Quota { quota: micros(quota)?, period: micros(period).filter(|period| !period.is_zero())? })
}

/// Of `cpu.stat`: `throttled_usec` in version 2, `throttled_time` (ns) in version 1.
fn throttled(stat: &str) -> Option<Duration> {
    stat.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_usec", value) => value.trim().parse().ok().map(Duration::from_micros),
        ("throttled_time", value) => value.trim().parse().ok().map(Duration::from_nanos),
        _ => None,
    })
}

/// Our groups and those around them, innermost first.
fn groups() -> Result<Vec<Group>, Error> {
    let operation = || "find the control groups of this process".to_owned();
    let answer = |error: procfs::ProcError| Error::answer(operation(), error.to_string());
    let own = Process::myself().map_err(answer)?;
    let (groups, mounts) = (own.cgroups().map_err(answer)?, own.mountinfo().map_err(answer)?);
    Ok(groups.0.iter().flat_map(|group| directories(group, &mounts.0)).collect())
}

/// Where a group and those around it are mounted, if it has to do with processors.
fn directories(group: &ProcessCGroup, mounts: &[MountInfo]) -> Vec<Group> {
    let legacy = !group.controllers.iter().all(String::is_empty);
    if legacy && !group.controllers.iter().any(|controller| controller == "cpu") {
        return Vec::new();
    }
    let holds = |mount: &&MountInfo| match legacy {
        true => mount.fs_type == "cgroup" && mount.super_options.contains_key("cpu"),
        false => mount.fs_type == "cgroup2",
    };
    let Some(mount) = mounts.iter().find(holds) else { return Vec::new() };
    // A container sees its part of the tree alone: the mount's root is where that begins.
    let path = Path::new(&group.pathname);
    let below = path.strip_prefix(&mount.root).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
    below.ancestors().map(|part| Group { dir: mount.mount_point.join(part), legacy }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_a_quota_and_its_account_are_read() {
        let dir = std::env::temp_dir().join(format!("weir-quota-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let group = |legacy, files: &[(&str, &str)]| {
            files.iter().for_each(|(name, text)| fs::write(dir.join(name), text).unwrap());
            let group = Group { dir: dir.clone(), legacy };
            let read = (group.quota().map(|quota| quota.processors()), group.throttled());
            files.iter().for_each(|(name, _)| fs::remove_file(dir.join(name)).unwrap());
            read
        };
        let stat = "usage_usec 7\nnr_periods 5\nnr_throttled 2\nthrottled_usec 80000\n";
        let ms = |n| Some(Duration::from_millis(n));
        assert_eq!(group(false, &[("cpu.max", "60000 100000\n"), ("cpu.stat", stat)]), (Some(0.6), ms(80)));
        assert_eq!(group(false, &[("cpu.max", "max 100000\n"), ("cpu.stat", stat)]), (None, None));
        let legacy = |quota| [("cpu.cfs_quota_us", quota), ("cpu.cfs_period_us", "100000\n"), ("cpu.stat", OLD)];
        assert_eq!(group(true, &legacy("150000\n")), (Some(1.5), ms(80)));
        assert_eq!(group(true, &legacy("-1\n")), (None, None));
        assert_eq!(group(false, &[]), (None, None));
        fs::remove_dir_all(&dir).unwrap();
    }

    const OLD: &str = "nr_periods 5\nnr_throttled 2\nthrottled_time 80000000\n";

    #[test]
    fn a_group_has_those_around_it() {
        let mounts = "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
                      31 1 0:27 /docker/c1 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
        let mounts: Vec<MountInfo> = mounts.lines().map(|line| MountInfo::from_line(line).unwrap()).collect();
        let at = |controllers: &[&str], path: &str| {
            let controllers = controllers.iter().map(|name| (*name).to_owned()).collect();
            let group = ProcessCGroup { hierarchy: 1, controllers, pathname: path.into() };
            directories(&group, &mounts).into_iter().map(|group| group.dir.display().to_string()).collect::<Vec<_>>()
        };
        let unified = ["/sys/fs/cgroup/user/one", "/sys/fs/cgroup/user", "/sys/fs/cgroup/"];
        assert_eq!(at(&[""], "/user/one"), unified);
        assert_eq!(at(&["cpu", "cpuacct"], "/docker/c1/x"), ["/sys/fs/cgroup/cpu/x", "/sys/fs/cgroup/cpu/"]);
        assert_eq!(at(&["memory"], "/docker/c1"), [""; 0]);
    }

    #[test]
    fn this_machine_tells_of_each_processor() {
        let contention = Observer::new().read().unwrap();
        assert!(!contention.stolen.is_empty());
        let (runtime, period) = realtime_bandwidth().unwrap_or_default();
        assert!(runtime <= period);
    }
}
