//! Who runs first, and how soon.

use std::fs::File;
use std::io::Write;

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
        Ok(Awake { _request: request })
    }
}

const LATENCY: &str = "/dev/cpu_dma_latency";

/// Above ordinary threads, below whatever a real-time system runs on purpose (1 to 99).
const PRIORITY: i32 = 5;
