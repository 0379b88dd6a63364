//! Facts about the machine, for whoever reads a result later.

use std::fs;

use nix::sys::utsname::uname;
use procfs::{Current, Meminfo};

use crate::sysctl::seen;

/// Name and value of each fact that can be found out, in the order to print them. Sizes have a unit.
pub fn facts() -> Vec<(String, String)> {
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let facts = [
        ("kernel", kernel()),
        ("cpu", field(&cpu_info, "model name")),
        ("cpus", std::thread::available_parallelism().ok().map(|count| count.to_string())),
        ("cpu governor", file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        ("virtualisation", Some(virtualisation(&cpu_info))),
        ("clock source", file("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        ("memory", memory().map(|bytes| format!("{} MiB", bytes >> 20))),
        ("load (1, 5, 15 min)", file("/proc/loadavg").map(|line| first_words(&line, 3))),
        ("tcp congestion control", seen("net/ipv4/tcp_congestion_control")),
        ("tcp congestion controls available", seen("net/ipv4/tcp_available_congestion_control")),
        ("tcp_rmem (bytes)", seen("net/ipv4/tcp_rmem").map(|sizes| first_words(&sizes, 3))),
        ("tcp_wmem (bytes)", seen("net/ipv4/tcp_wmem").map(|sizes| first_words(&sizes, 3))),
        ("rmem_default (bytes)", seen("net/core/rmem_default")),
        ("rmem_max (bytes)", seen("net/core/rmem_max")),
        ("wmem_max (bytes)", seen("net/core/wmem_max")),
        ("netdev_max_backlog (packets)", seen("net/core/netdev_max_backlog")),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The machine's memory, bytes; `None`: /proc does not tell.
pub fn memory() -> Option<u64> {
    Meminfo::current().ok().map(|memory| memory.mem_total)
}

/// What tells this boot from any other, a UUID; `None`: /proc does not tell.
pub fn boot_id() -> Option<String> {
    seen("kernel/random/boot_id").filter(|id| !id.is_empty())
}

fn kernel() -> Option<String> {
    let name = uname().ok()?;
    let words = [name.sysname(), name.release(), name.machine()].map(|word| word.to_string_lossy().into_owned());
    Some(words.join(" "))
}

/// What the kernel and the firmware say of themselves; more than a guess needs privilege.
fn virtualisation(cpu_info: &str) -> String {
    let product = file("/sys/class/dmi/id/product_name");
    let container = ["/.dockerenv", "/run/.containerenv"].iter().any(|path| fs::exists(path).unwrap_or(false));
    let hypervisor = field(cpu_info, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let machine = match (hypervisor, product) {
        (true, Some(product)) => format!("virtual machine ({product})"),
        (true, None) => "virtual machine".into(),
        (false, Some(product)) => format!("none known ({product})"),
        (false, None) => "none known".into(),
    };
    if container { format!("{machine}, container") } else { machine }
}

/// A line `name : value`.
pub(crate) fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn file(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn first_words(text: &str, count: usize) -> String {
    text.split_whitespace().take(count).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_has_a_name_and_a_value_in_one_line() {
        let facts = facts();
        for (name, value) in &facts {
            assert!(!value.is_empty() && !value.contains('\n'), "{name}: {value:?}");
        }
        let names: Vec<_> = facts.iter().map(|(name, _)| name.as_str()).collect();
        for expected in ["kernel", "cpus", "memory", "tcp congestion control"] {
            assert!(names.contains(&expected), "{expected} not in {names:?}");
        }
    }

    #[test]
    fn pieces() {
        assert_eq!(field("model\t: 6\nmodel name\t: Xeon\n", "model name"), Some("Xeon".into()));
        assert_eq!(first_words("4096\t131072\t6291456", 2), "4096 131072");
        assert_eq!(virtualisation("flags : fpu hypervisor sse\n").split([' ', ',']).next(), Some("virtual"));
    }
}
