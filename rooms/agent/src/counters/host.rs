//! Counters of the machine: host-sflow's structures, from /proc. What /proc does not tell is left out.

use std::fs;
use std::path::Path;

use nix::sys::statvfs::statvfs;
use nix::sys::utsname::uname;
use nix::unistd::gethostname;
use procfs::{Current, CurrentSI, KernelStats, LoadAverage, Meminfo, Uptime};
use weir_kernel::counters::{LinkCounters, Snmp, snmp};
use weir_kernel::namespaces::NetNs;
use weir_wire::sflow::Space;
use weir_wire::sflow::encode::{Put, Records};

use super::{put, wrapped};

/// What does not change.
#[derive(Debug)]
pub(crate) struct Host {
    name: String,
    uuid: [u8; 16],
    machine: u32,
    release: String,
    processors: u32,
    /// MHz; 0: not known.
    speed: u32,
    ns: NetNs,
}

impl Host {
    /// Reads it, of this machine and network namespace.
    pub(crate) fn new(ns: NetNs) -> Self {
        let system = uname().ok();
        let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
        let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let speed =
            cpu_info.lines().find_map(|line| line.strip_prefix("cpu MHz")?.split_once(": ")?.1.parse::<f64>().ok());
        Self {
            name: gethostname().map(|name| text(&name)).unwrap_or_default(),
            uuid: fs::read_to_string("/etc/machine-id").ok().and_then(|id| uuid(&id)).unwrap_or_default(),
            machine: machine_type(std::env::consts::ARCH),
            release: system.map(|system| text(system.release())).unwrap_or_default(),
            processors: std::thread::available_parallelism().map_or(0, |count| count.get() as u32),
            speed: speed.map_or(0, |speed| speed as u32),
            ns,
        }
    }

    /// Writes all that is known of it now. `links`: its interfaces; `None`: they cannot be listed.
    pub(crate) fn write(&self, records: &mut Records<'_>, links: Option<&[LinkCounters]>) {
        let values = [
            Put::Text(self.name.as_bytes()),
            Put::Uuid(self.uuid),
            Put::U32(self.machine),
            Put::U32(LINUX),
            Put::Text(self.release.as_bytes()),
        ];
        put(records, Space::Counter, "host_descr", &values);
        if let Some(links) = links {
            adapters(records, links);
        }
        self.processor_time(records);
        memory(records);
        disks(records);
        if let Some(links) = links {
            network(records, links);
        }
        if let Ok(counters) = snmp(&self.ns) {
            protocols(records, &counters);
        }
    }

    /// Times in milliseconds.
    fn processor_time(&self, records: &mut Records<'_>) {
        let (Ok(load), Ok(stat), Ok(uptime)) = (LoadAverage::current(), KernelStats::current(), Uptime::current())
        else {
            return;
        };
        let total = &stat.total;
        let ticks = procfs::ticks_per_second().max(1);
        let time = |ticked: u64| wrapped((u128::from(ticked) * 1000 / u128::from(ticks)) as u64);
        let maybe = |ticked: Option<u64>| time(ticked.unwrap_or(0));
        let interrupts = fs::read_to_string("/proc/stat").ok().and_then(|text| interrupts(&text)).unwrap_or(0);
        put(
            records,
            Space::Counter,
            "host_cpu",
            &[
                Put::F32(load.one),
                Put::F32(load.five),
                Put::F32(load.fifteen),
                Put::U32(load.cur),
                Put::U32(load.max),
                Put::U32(self.processors),
                Put::U32(self.speed),
                wrapped(uptime.uptime as u64),
                time(total.user),
                time(total.nice),
                time(total.system),
                time(total.idle),
                maybe(total.iowait),
                maybe(total.irq),
                maybe(total.softirq),
                wrapped(interrupts),
                wrapped(stat.ctxt),
                maybe(total.steal),
                maybe(total.guest),
                maybe(total.guest_nice),
            ],
        );
    }
}

fn memory(records: &mut Records<'_>) {
    let (Ok(memory), Ok(events)) = (Meminfo::current(), procfs::vmstat()) else { return };
    let event = |name: &str| wrapped(events.get(name).copied().unwrap_or(0) as u64);
    put(
        records,
        Space::Counter,
        "host_memory",
        &[
            Put::U64(memory.mem_total),
            Put::U64(memory.mem_free),
            Put::U64(memory.shmem.unwrap_or(0)),
            Put::U64(memory.buffers),
            Put::U64(memory.cached),
            Put::U64(memory.swap_total),
            Put::U64(memory.swap_free),
            event("pgpgin"),
            event("pgpgout"),
            event("pswpin"),
            event("pswpout"),
        ],
    );
}

/// Local file systems, each device once, and the disks themselves, not their partitions nor what is made of them.
fn disks(records: &mut Records<'_>) {
    let (mut total, mut free, mut fullest) = (0, 0, 0);
    let mut mounts = procfs::mounts().unwrap_or_default();
    mounts.retain(|mount| mount.fs_spec.starts_with("/dev/"));
    mounts.sort_by(|a, b| a.fs_spec.cmp(&b.fs_spec));
    mounts.dedup_by(|a, b| a.fs_spec == b.fs_spec);
    for mount in &mounts {
        let Ok(size) = statvfs(mount.fs_file.as_str()) else { continue };
        let (blocks, left, available) = (size.blocks(), size.blocks_free(), size.blocks_available());
        total += blocks * size.fragment_size();
        free += left * size.fragment_size();
        // As df has it, in hundredths of a percent.
        let used = blocks.saturating_sub(left);
        fullest = fullest.max((used * 10_000).checked_div(used + available).unwrap_or(0));
    }
    let mut disks = procfs::diskstats().unwrap_or_default();
    disks.retain(|disk| Path::new("/sys/block").join(disk.name.replace('/', "!")).join("device").exists());
    let sum = |value: fn(&procfs::DiskStat) -> u64| disks.iter().map(value).fold(0, u64::wrapping_add);
    put(
        records,
        Space::Counter,
        "host_disk_io",
        &[
            Put::U64(total),
            Put::U64(free),
            Put::I32(fullest as i32),
            wrapped(sum(|disk| disk.reads)),
            Put::U64(sum(|disk| disk.sectors_read) * SECTOR),
            wrapped(sum(|disk| disk.time_reading)),
            wrapped(sum(|disk| disk.writes)),
            Put::U64(sum(|disk| disk.sectors_written) * SECTOR),
            wrapped(sum(|disk| disk.time_writing)),
        ],
    );
}

/// Interfaces of hardware; in a container, which has none, those that lie on nothing of this namespace.
fn network(records: &mut Records<'_>, links: &[LinkCounters]) {
    let hardware = |link: &&LinkCounters| link.kind.is_none() && !link.loopback;
    let lowest = |link: &&LinkCounters| {
        !link.loopback
            && link.master.is_none()
            && matches!(link.kind.as_deref(), Some("veth" | "tun" | "macvlan" | "ipvlan"))
    };
    let counted: Vec<_> = match links.iter().any(|link| hardware(&link)) {
        true => links.iter().filter(hardware).collect(),
        false => links.iter().filter(lowest).collect(),
    };
    let sum = |value: fn(&LinkCounters) -> u64| counted.iter().map(|link| value(link)).fold(0, u64::wrapping_add);
    put(
        records,
        Space::Counter,
        "host_net_io",
        &[
            Put::U64(sum(|link| link.statistics.rx_bytes)),
            wrapped(sum(|link| link.statistics.rx_packets)),
            wrapped(sum(|link| link.statistics.rx_errors)),
            wrapped(sum(|link| link.statistics.rx_dropped + link.statistics.rx_missed_errors)),
            Put::U64(sum(|link| link.statistics.tx_bytes)),
            wrapped(sum(|link| link.statistics.tx_packets)),
            wrapped(sum(|link| link.statistics.tx_errors)),
            wrapped(sum(|link| link.statistics.tx_dropped)),
        ],
    );
}

/// Interfaces with an Ethernet address, the first so many.
fn adapters(records: &mut Records<'_>, links: &[LinkCounters]) {
    let with_address = links.iter().filter(|link| !link.loopback).filter_map(|link| Some((link.index, link.mac?)));
    let addresses: Vec<_> = with_address.take(MOST_ADAPTERS).map(|(index, mac)| (index, [Put::Mac(mac.0)])).collect();
    let adapters: Vec<_> = addresses.iter().map(|(index, mac)| [Put::U32(*index), Put::List(mac)]).collect();
    let adapters: Vec<_> = adapters.iter().map(|adapter| Put::Structure(adapter)).collect();
    put(records, Space::Counter, "host_adapters", &[Put::List(&adapters)]);
}

/// The groups of MIB-2 as /proc/net/snmp has them, of IPv4 (RFC 1213); names are the MIB's without its prefix.
fn protocols(records: &mut Records<'_>, counters: &Snmp) {
    for (structure, protocol, names) in MIB2 {
        let values: Vec<_> = names
            .iter()
            .map(|name| counters.get(protocol, name).map_or(ABSENT_COUNTER, |count| wrapped(count as u64)))
            .collect();
        put(records, Space::Counter, structure, &values);
    }
}

const ABSENT_COUNTER: Put<'static> = super::ABSENT;

/// Structure, protocol of the file, and its counters in the order of the structure.
const MIB2: [(&str, &str, &[&str]); 4] = [
    (
        "mib2_ip_group",
        "Ip",
        &[
            "Forwarding",
            "DefaultTTL",
            "InReceives",
            "InHdrErrors",
            "InAddrErrors",
            "ForwDatagrams",
            "InUnknownProtos",
            "InDiscards",
            "InDelivers",
            "OutRequests",
            "OutDiscards",
            "OutNoRoutes",
            "ReasmTimeout",
            "ReasmReqds",
            "ReasmOKs",
            "ReasmFails",
            "FragOKs",
            "FragFails",
            "FragCreates",
        ],
    ),
    (
        "mib2_icmp_group",
        "Icmp",
        &[
            "InMsgs",
            "InErrors",
            "InDestUnreachs",
            "InTimeExcds",
            "InParmProbs",
            "InSrcQuenchs",
            "InRedirects",
            "InEchos",
            "InEchoReps",
            "InTimestamps",
            "InAddrMasks",
            "InAddrMaskReps",
            "OutMsgs",
            "OutErrors",
            "OutDestUnreachs",
            "OutTimeExcds",
            "OutParmProbs",
            "OutSrcQuenchs",
            "OutRedirects",
            "OutEchos",
            "OutEchoReps",
            "OutTimestamps",
            "OutTimestampReps",
            "OutAddrMasks",
            "OutAddrMaskReps",
        ],
    ),
    (
        "mib2_tcp_group",
        "Tcp",
        &[
            "RtoAlgorithm",
            "RtoMin",
            "RtoMax",
            "MaxConn",
            "ActiveOpens",
            "PassiveOpens",
            "AttemptFails",
            "EstabResets",
            "CurrEstab",
            "InSegs",
            "OutSegs",
            "RetransSegs",
            "InErrs",
            "OutRsts",
            "InCsumErrors",
        ],
    ),
    (
        "mib2_udp_group",
        "Udp",
        &["InDatagrams", "NoPorts", "InErrors", "OutDatagrams", "RcvbufErrors", "SndbufErrors", "InCsumErrors"],
    ),
];

/// The total of the line `intr TOTAL ...`.
fn interrupts(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("intr ")?.split(' ').next()?.parse().ok())
}

/// 32 hexadecimal digits.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.trim().chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    bytes.try_into().ok()
}

/// `machine_type` of sflow_host.
fn machine_type(architecture: &str) -> u32 {
    match architecture {
        "x86" => 2,
        "x86_64" => 3,
        "sparc64" => 5,
        "powerpc" | "powerpc64" => 7,
        "m68k" => 8,
        "mips" | "mips64" => 9,
        "arm" | "aarch64" => 10,
        "s390x" => 12,
        _ => 1,
    }
}

/// `os_name` of sflow_host.
const LINUX: u32 = 2;

/// Bytes of a sector of /proc/diskstats, whatever the disk's is.
const SECTOR: u64 = 512;

/// As many as leave room for everything else in one datagram.
const MOST_ADAPTERS: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces() {
        assert_eq!(interrupts("cpu 1 2\nintr 4711 0 3\nctxt 5\n"), Some(4711));
        assert_eq!(
            uuid("00112233445566778899aabbccddeeff\n"),
            Some([0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff])
        );
        assert_eq!((uuid("0011"), uuid("zz")), (None, None));
        assert_eq!(machine_type("x86_64"), 3);
    }
}
