//! The facts about a run that a reader needs to judge its numbers.

use weir_kernel::host;
use weir_kernel::namespaces::user::Privilege;
use weir_report::record::STANDSTILLS;

use crate::cell::Testbed;
use crate::machine::Machine;
use crate::scenario::Run;

/// Names and values in print order: how the lab ran, then the machine.
pub fn facts(run: &Run, testbed: &Testbed, privilege: Privilege) -> Vec<(String, String)> {
    let scheduling = match (run.realtime, testbed.realtime) {
        (_, true) => "real-time (SCHED_RR)",
        (true, false) => "ordinary: real-time was refused (needs CAP_SYS_NICE or RLIMIT_RTPRIO)",
        (false, false) => "ordinary",
    };
    let privilege = match privilege {
        Privilege::Root => "root",
        Privilege::UserNamespace => "ordinary user, in a user namespace",
    };
    let how = [
        ("weir", env!("CARGO_PKG_VERSION").to_owned()),
        ("privilege", privilege.to_owned()),
        ("scheduling", scheduling.to_owned()),
    ];
    let how = how.map(|(name, value)| (name.to_owned(), value));
    how.into_iter().chain(host::facts()).collect()
}

/// Adds the standstills. In a resumed run, those of its first part stay.
pub fn conclude(facts: &mut Vec<(String, String)>, machine: &Machine, resumed: bool) {
    let words = format!("{}{}", if resumed { "resumed: " } else { "" }, machine.words());
    match facts.iter_mut().find(|(name, _)| name == STANDSTILLS) {
        Some((_, before)) => *before = format!("{before}; {words}"),
        None => facts.push((STANDSTILLS.to_owned(), words)),
    }
}
