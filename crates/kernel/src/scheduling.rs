//! Who runs first.

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

/// Above ordinary threads, below whatever a real-time system runs on purpose (1 to 99).
const PRIORITY: i32 = 5;
