//! The receive path of each CPU, as in /proc/net/softnet_stat.

use crate::Error;
use crate::proc::read;

/// Counters of one CPU's receive path since boot, over all network namespaces (net/core/net-procfs.c). They wrap at
/// 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Softnet {
    /// Number of the CPU; its place among those online where the kernel does not tell (before 5.10).
    pub cpu: u32,
    /// Packets taken from queues.
    pub processed: u32,
    /// Packets dropped because `net.core.netdev_max_backlog` of them waited already. Loopback and veth pass here.
    pub dropped: u32,
    /// How often the CPU had to stop with packets still waiting (`net.core.netdev_budget`).
    pub squeezed: u32,
    /// Packets dropped because their flow took more than its share of a filling backlog
    /// (`net.core.flow_limit_cpu_bitmap`); `None`: the kernel does not tell (before 3.11).
    pub flow_limited: Option<u32>,
    /// Packets that wait in its backlog now; `None`: the kernel does not tell (before 5.10).
    pub backlog: Option<u32>,
}

/// Reads the receive paths of all CPUs that are online.
///
/// # Errors
/// If /proc cannot be read.
pub fn softnet() -> Result<Vec<Softnet>, Error> {
    read("softnet_stat").map(|text| parse(&text))
}

/// A line a CPU, columns in hexadecimal.
pub(crate) fn parse(text: &str) -> Vec<Softnet> {
    let row = |(place, line): (usize, &str)| {
        let columns: Vec<u32> =
            line.split_whitespace().map(|column| u32::from_str_radix(column, 16).ok()).collect::<Option<_>>()?;
        let [processed, dropped, squeezed] = *columns.first_chunk()?;
        let cpu = columns.get(CPU).copied().unwrap_or(u32::try_from(place).ok()?);
        let (flow_limited, backlog) = (columns.get(FLOW_LIMITED).copied(), columns.get(BACKLOG).copied());
        Some(Softnet { cpu, processed, dropped, squeezed, flow_limited, backlog })
    };
    text.lines().enumerate().filter_map(row).collect()
}

/// Columns, from 0.
const FLOW_LIMITED: usize = 10;
const BACKLOG: usize = 11;
const CPU: usize = 12;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_kernels_write() {
        let new = "00002cb4 00000001 0000000a 0 0 0 0 0 0 0 00000005 00000002 00000003 0 0\n";
        assert_eq!(
            parse(new),
            [Softnet { cpu: 3, processed: 0x2cb4, dropped: 1, squeezed: 10, flow_limited: Some(5), backlog: Some(2) }]
        );
        let old = "1 0 0 0 0\n2 0 0 0 0\n";
        assert_eq!(
            parse(old)[1],
            Softnet { cpu: 1, processed: 2, dropped: 0, squeezed: 0, flow_limited: None, backlog: None }
        );
        assert!(!softnet().unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn lines_that_look_otherwise_are_left_out(strange in "\\PC{0,24}", counts: [u32; 3], cpu: u32) {
            let [processed, dropped, squeezed] = counts;
            let line = format!("{processed:x} {dropped:x} {squeezed:x} 0 0 0 0 0 0 0 5 2 {cpu:x} 0 0");
            // A word that is no number.
            let text = format!("g{strange}\n{line}\n{strange} g\n");
            let sound = Softnet { cpu, processed, dropped, squeezed, flow_limited: Some(5), backlog: Some(2) };
            prop_assert_eq!(parse(&text), [sound]);
        }
    }
}
