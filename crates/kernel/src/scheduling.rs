//! Who runs first, how soon, and where.

use std::fs::File;
use std::io::Write;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::error::During;
use crate::{Error, sys};

/// Lets the calling thread, and threads that it starts from then on, run before all ordinary ones (SCHED_RR, lowest
/// priority but a few). For threads that mostly wait: the kernel holds real-time threads back once they have taken 95 %
/// of a second (`kernel.sched_rt_runtime_us`).
///
/// # Errors
/// EPERM without CAP_SYS_NICE in the initial user namespace, unless RLIMIT_RTPRIO allows it.
pub fn become_real_time() -> Result<(), Error> {
    sys::set_round_robin(PRIORITY).during(|| "schedule a thread as real-time (SCHED_RR)")
}

/// The same, and before those threads too: for one that tells whether they stood still, and takes next to no time itself.
///
/// # Errors
/// As [`become_real_time`].
pub fn become_watcher() -> Result<(), Error> {
    sys::set_round_robin(PRIORITY + 1).during(|| "schedule a thread as real-time (SCHED_RR)")
}

/// The processors that this process may run on, in order; empty where the kernel does not tell.
pub fn processors() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    (0..CpuSet::count()).filter(|&processor| set.is_set(processor).unwrap_or(false)).collect()
}

/// Keeps the calling thread, and threads that it starts from then on, to one processor.
///
/// # Errors
/// EINVAL for one that it may not run on.
pub fn run_on(processor: usize) -> Result<(), Error> {
    let operation = || format!("run a thread on processor {processor}");
    let mut set = CpuSet::new();
    set.set(processor).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set)).during(operation)
}

/// Keeps every processor out of its sleep states while this lives: waking one up takes tens of microseconds, in a
/// virtual machine more. Costs power, not time: waiting processors poll (Documentation/power/pm_qos_interface.rst).
#[derive(Debug)]
pub struct Awake {
    /// The kernel forgets the request when this is closed.
    _request: File,
}

impl Awake {
    /// Asks for it.
    ///
    /// # Errors
    /// For any user but root, and where the kernel has no /dev/cpu_dma_latency.
    pub fn request() -> Result<Awake, Error> {
        let operation = || format!("ask {LATENCY} to keep processors awake");
        let mut request = File::options().write(true).open(LATENCY).during(operation)?;
        request.write_all(&0_i32.to_ne_bytes()).during(operation)?;
        Ok(Awake::of(request))
    }

    /// By a request that was made: processors stay awake until `request` is closed.
    pub fn of(request: File) -> Awake {
        Awake { _request: request }
    }
}

const LATENCY: &str = "/dev/cpu_dma_latency";

/// Above ordinary threads, below whatever a real-time system runs on purpose (1 to 99).
const PRIORITY: i32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_to_its_processor() {
        let all = processors();
        let last = *all.last().unwrap();
        let inside = std::thread::spawn(move || run_on(last).map(|()| processors())).join().unwrap().unwrap();
        assert_eq!((inside, processors()), (vec![last], all));
        assert!(run_on(CpuSet::count()).is_err());
    }
}
