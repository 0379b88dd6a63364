//! What every service says of its own process, under the names that Prometheus' client libraries agreed on.

use weir_kernel::usage::Usage;

use crate::log;
use crate::metrics::{Family, Kind, Samples};

/// Every family of this module, in the order in which it is exposed.
pub(crate) const FAMILIES: [Family; 9] =
    [BUILD, LOG_LINES_LOST, CPU, RESIDENT, VIRTUAL, OPEN_FILES, MOST_FILES, THREADS, START];

/// Adds the process's samples. Where /proc cannot be read, those that come from it are absent.
pub(crate) fn metrics(samples: &mut Samples<'_>) {
    samples.family(&BUILD, [([env!("CARGO_PKG_VERSION").to_owned()], 1_u64)]);
    samples.single(&LOG_LINES_LOST, log::lost());
    let Ok(usage) = Usage::read() else { return };
    samples.single(&CPU, usage.cpu.as_secs_f64());
    samples.single(&RESIDENT, usage.resident);
    samples.single(&VIRTUAL, usage.virtual_memory);
    samples.single(&OPEN_FILES, usage.open_files);
    samples.family(&MOST_FILES, usage.most_files.map(|most| ([], most)));
    samples.single(&THREADS, usage.threads);
    samples.single(&START, usage.started.as_secs_f64());
}

const fn family(name: &'static str, unit: Option<&'static str>, kind: Kind, help: &'static str) -> Family {
    Family { name, unit, kind, help, labels: &[] }
}

const BUILD: Family =
    Family { labels: &["version"], ..family("weir_build", None, Kind::Info, "Version of the program.") };
const LOG_LINES_LOST: Family = family(
    "weir_log_lost",
    Some("lines"),
    Kind::Counter,
    "Log lines that standard error did not take: a full disk, a stuck pipe.",
);
const CPU: Family =
    family("process_cpu", Some("seconds"), Kind::Counter, "Processor time used, in user space and in the kernel.");
const RESIDENT: Family = family("process_resident_memory", Some("bytes"), Kind::Gauge, "Memory resident in RAM.");
const VIRTUAL: Family = family("process_virtual_memory", Some("bytes"), Kind::Gauge, "Memory mapped.");
const OPEN_FILES: Family = family("process_open_fds", None, Kind::Gauge, "File descriptors that are open.");
const MOST_FILES: Family =
    family("process_max_fds", None, Kind::Gauge, "File descriptors that may be open; absent: no limit.");
const THREADS: Family = family("process_threads", None, Kind::Gauge, "Threads.");
const START: Family =
    family("process_start_time", Some("seconds"), Kind::Gauge, "When the process started, as a Unix time.");

#[cfg(test)]
mod tests {
    use super::super::metrics::{Format, expose};
    use super::*;

    #[test]
    fn the_process_is_measured() {
        let text = expose(Format::Text, metrics);
        let value = |name: &str| -> f64 {
            let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
            line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
        };
        assert!(text.contains(&format!("weir_build_info{{version=\"{}\"}} 1\n", env!("CARGO_PKG_VERSION"))), "{text}");
        assert!(value("process_resident_memory_bytes") > 1e5, "{text}");
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"), "{text}");
        assert!((3.0..=value("process_max_fds")).contains(&value("process_open_fds")), "{text}");
        assert!(value("process_threads") >= 1.0, "{text}");
        // Later than January 2026, and not in the future.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((1_767_225_600.0..=now).contains(&value("process_start_time_seconds")), "{text}");

        let before = value("process_cpu_seconds_total");
        let mut spun = 0_u64;
        while Usage::read().unwrap().cpu.as_secs_f64() < before + 0.05 {
            spun = std::hint::black_box(spun + 1);
        }
        for family in FAMILIES {
            assert!(text.contains(&format!("# TYPE {} ", family.full_name())), "{family:?}");
        }
    }
}
