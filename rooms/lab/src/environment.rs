//! The facts about a run that a reader needs to judge its numbers.

use weir_kernel::host;
use weir_kernel::namespaces::user::Privilege;
use weir_report::record::{PROCESSORS, STANDSTILLS};

use crate::cell::Testbed;
use crate::machine::Machine;
use crate::scenario::Run;

/// Name and value, in the order to print them: how the lab ran, then what it ran on.
pub fn facts(run: &Run, testbed: &Testbed, machine: &Machine, privilege: Privilege) -> Vec<(String, String)> {
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
        (PROCESSORS, machine.choice().words()),
    ];
    let how = how.map(|(name, value)| (name.to_owned(), value));
    how.into_iter().chain(machine.facts().iter().cloned()).chain(host::facts()).collect()
}

/// Adds what is only known at the end: whether processors stayed awake, and when they stood still. Of a run that was
/// `resumed` what is there already tells of its first part, and stays.
pub fn conclude(facts: &mut Vec<(String, String)>, machine: &Machine, resumed: bool) {
    let known = [(PROCESSORS, machine.choice().words()), (STANDSTILLS, machine.since_start().words())];
    for (name, value) in known {
        match facts.iter_mut().find(|(known, _)| known == name) {
            Some((_, before)) if resumed => *before = format!("{before}; resumed: {value}"),
            Some((_, before)) => *before = value,
            None if resumed => facts.push((name.to_owned(), format!("not known of the first part; resumed: {value}"))),
            None => facts.push((name.to_owned(), value)),
        }
    }
}
