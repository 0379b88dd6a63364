//! The facts about a run that a reader needs to judge its numbers.

use weir_kernel::host;
use weir_kernel::namespaces::user::Privilege;

use super::cell::Bench;
use super::scenario::Run;

/// Name and value, in the order to print them: how the lab ran, then what it ran on. `awake`: processors are kept from
/// sleeping.
pub fn facts(run: &Run, bench: &Bench, awake: bool, privilege: Privilege) -> Vec<(String, String)> {
    let scheduling = match (run.realtime, bench.realtime) {
        (_, true) => "real-time (SCHED_RR)",
        (true, false) => "ordinary: real-time was refused (needs CAP_SYS_NICE or RLIMIT_RTPRIO)",
        (false, false) => "ordinary",
    };
    let processors = if awake { "kept awake (/dev/cpu_dma_latency)" } else { "may sleep between packets" };
    let privilege = match privilege {
        Privilege::Root => "root",
        Privilege::UserNamespace => "ordinary user, in a user namespace",
    };
    let how = [
        ("weir", env!("CARGO_PKG_VERSION").to_owned()),
        ("privilege", privilege.to_owned()),
        ("scheduling", scheduling.to_owned()),
        ("processors", processors.to_owned()),
        ("data path", format!("{:?}, spin {}", run.datapath, run.spin).to_lowercase()),
    ];
    how.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(host::facts()).collect()
}
