//! The one table of metrics: name, unit, and how each is computed.
//!
//! Names are sFlow-RT's where it documents one (sflow-rt.com/metrics.php): of interfaces those of the specification in lower case;
//! totals become rates a second, octets bytes a second. Fields without such a name have the specification's, in lower case, behind
//! the prefix of their structure.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use weir_wire::sflow::{Field, Kind, Meaning, Space, Structure};

use super::block::{Block, Reason};

/// A metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name, e.g. `ifinoctets`.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// The record that it is computed from.
    pub structure: &'static Structure,
    /// How.
    pub how: How,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes a second.
    BytesPerSecond,
    /// Whatever the name says, a second.
    PerSecond,
    /// Bits a second.
    BitsPerSecond,
    /// Of 100.
    Percent,
    /// Bytes.
    Bytes,
    /// Whatever the name says: a level, a number, a state.
    Plain,
    /// None: it is text.
    Text,
}

/// How a metric is computed. Fields by where they stand in the structure.
#[derive(Clone, Debug, PartialEq)]
pub enum How {
    /// How fast a total grows.
    Rate(usize),
    /// How fast totals grow together.
    Sum(Vec<usize>),
    /// The value, times this.
    Value(usize, f64),
    /// The text.
    Text(usize),
    /// How fast octets grow, of the speed: 800 x octets / ifSpeed.
    Utilization(usize),
    /// The speed of the interface, unless it has been faster.
    Speed,
    /// How fast a total grows, of all of these together.
    Share(usize, Vec<usize>),
    /// 100 less that.
    Rest(usize, Vec<usize>),
    /// How fast a total of milliseconds grows, of the time that so many processors have.
    Busy(usize, usize),
    /// What is not free, of the total.
    Used(usize, usize),
    /// One bit: `up` or `down`.
    Bit(usize, u32),
    /// One name of these, by number; others by their number.
    Name(usize, &'static [&'static str]),
}

/// The forms of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Numbers.
    Number,
    /// These names.
    Words(&'static [&'static str]),
}

impl fmt::Display for Form {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number => formatter.write_str("a number"),
            Self::Words(words) => formatter.write_str(&words.join(" or ")),
        }
    }
}

/// A metric's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number<'a> {
    /// A number.
    Number(f64),
    /// A name that we gave.
    Name(&'static str),
    /// A text that came from the agent: bytes that need be neither UTF-8 nor fit for a terminal.
    Text(&'a [u8]),
}

/// Structures, the prefix of their metrics, and what is taken off their fields' names.
const PREFIXES: &[(&str, &str, &str)] = &[
    ("if_counters", "", ""),
    ("ethernet_counters", "eth_", "dot3Stats"),
    ("tokenring_counters", "tr_", "dot5Stats"),
    ("vg_counters", "vg_", "dot12"),
    ("vlan_counters", "vlan_", ""),
    ("ieee80211_counters", "wifi_", "dot11"),
    ("lag_port_stats", "lag_", "dot3adAggPort"),
    ("slow_path_counts", "slowpath_", ""),
    ("ib_counters", "ib_", ""),
    ("sfp", "sfp_", "module_"),
    ("pfc", "pfc_", ""),
    ("processor", "processor_", ""),
    ("radio_utilization", "radio_", ""),
    ("queue_length", "queue_", "queue"),
    ("of_port", "of_", ""),
    ("port_name", "if", ""),
    ("host_descr", "", ""),
    ("host_cpu", "", ""),
    ("host_memory", "", ""),
    ("host_disk_io", "disk_", "disk_"),
    ("host_net_io", "", ""),
    ("mib2_ip_group", "ip_", "ip"),
    ("mib2_icmp_group", "icmp_", "icmp"),
    ("mib2_tcp_group", "tcp_", "tcp"),
    ("mib2_udp_group", "udp_", "udp"),
    ("virt_node", "vnode_", ""),
    ("virt_cpu", "vir_cpu_", "cpu"),
    ("virt_memory", "vir_mem_", ""),
    ("virt_disk_io", "vir_disk_", ""),
    ("virt_net_io", "vir_net_", ""),
    ("jvm_runtime", "jvm_", "vm_"),
    ("jvm_statistics", "jvm_", ""),
    ("memcached_counters", "memcache_", ""),
    ("http_counters", "http_", ""),
    ("app_operations", "app_", ""),
    ("app_resources", "app_", ""),
    ("app_workers", "app_", ""),
    ("vdi_counters", "vdi_", ""),
    ("ovs_dp_stats", "ovs_dp_", ""),
    ("energy", "energy_", ""),
    ("temperature", "temperature_", ""),
    ("humidity", "humidity_", ""),
    ("fans", "fans_", ""),
    ("bst_device_buffers", "bst_device_", ""),
    ("bst_port_buffers", "bst_port_", ""),
    ("hw_tables", "hw_", ""),
    ("nvidia_gpu", "gpu_", "gpu_"),
];

/// Names other than by the rule.
const RENAMED: &[(&str, &str, &str)] = &[
    ("ethernet_counters", "dot3StatsSingleCollisionFrames", "eth_singlecollisions"),
    ("ethernet_counters", "dot3StatsMultipleCollisionFrames", "eth_multiplecollisions"),
    ("ethernet_counters", "dot3StatsDeferredTransmissions", "eth_deferredtx"),
    ("ethernet_counters", "dot3StatsLateCollisions", "eth_latecollision"),
    ("host_descr", "hostname", "host_name"),
    ("host_net_io", "packets_out", "pkts_out"),
    ("host_cpu", "interrupts", "cpu_interrupts"),
    ("host_cpu", "contexts", "cpu_contexts"),
    ("of_port", "datapath_id", "of_dpid"),
    ("of_port", "port_no", "of_port"),
    ("app_operations", "application", "app_name"),
    ("if_counters", "ifStatus", ""),
    ("if_counters", "ifDirection", ""),
    ("host_descr", "machine_type", ""),
    ("host_descr", "os_name", ""),
    ("host_cpu", "cpu_user", ""),
    ("host_cpu", "cpu_nice", ""),
    ("host_cpu", "cpu_system", ""),
    ("host_cpu", "cpu_idle", ""),
    ("host_cpu", "cpu_wio", ""),
    ("host_cpu", "cpu_intr", ""),
    ("host_cpu", "cpu_sintr", ""),
    ("host_cpu", "cpu_steal", ""),
    ("host_disk_io", "part_max_used", ""),
    ("virt_memory", "memory", "vir_mem_used"),
    ("virt_memory", "maxMemory", "vir_mem_total"),
];

/// What processors do, in ms; guests are in `cpu_user`.
const PROCESSOR: [&str; 8] =
    ["cpu_user", "cpu_nice", "cpu_system", "cpu_idle", "cpu_wio", "cpu_intr", "cpu_sintr", "cpu_steal"];
/// `machine_type` (sFlow Host Structures).
const MACHINES: &[&str] =
    &["unknown", "other", "x86", "x86_64", "ia64", "sparc", "alpha", "powerpc", "m68k", "mips", "arm", "hppa", "s390"];
/// `os_name`, likewise.
const SYSTEMS: &[&str] = &[
    "unknown",
    "other",
    "linux",
    "windows",
    "darwin",
    "hpux",
    "aix",
    "dragonfly",
    "freebsd",
    "netbsd",
    "openbsd",
    "osf",
    "solaris",
];
const DIRECTIONS: &[&str] = &["unknown", "full-duplex", "half-duplex", "in", "out"];

impl Metric {
    /// All metrics, those of interfaces first.
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<Metric>> = OnceLock::new();
        ALL.get_or_init(table)
    }

    /// The metric of a name.
    pub fn find(name: &str) -> Option<&'static Self> {
        static BY_NAME: OnceLock<HashMap<&'static str, &'static Metric>> = OnceLock::new();
        let by_name = BY_NAME.get_or_init(|| Self::all().iter().map(|metric| (metric.name.as_str(), metric)).collect());
        by_name.get(name).copied()
    }

    /// What forms its values have; `None`: any text.
    pub fn form(&self) -> Option<Form> {
        match &self.how {
            How::Text(_) => None,
            How::Bit(..) => Some(Form::Words(&["up", "down"])),
            // What has no name is shown by its number, which is hardly what is meant.
            How::Name(_, names) => Some(Form::Words(names)),
            _ => Some(Form::Number),
        }
    }

    /// Its value of a record.
    ///
    /// # Errors
    /// Why there is none.
    pub fn of<'a>(&self, block: &'a Block) -> Result<Number<'a>, Reason> {
        let value = |field: usize| block.value(field).ok_or(Reason::Unknown);
        let sum = |fields: &[usize]| fields.iter().map(|&field| block.rate(field)).sum::<Result<f64, _>>();
        // Newer agents send more fields.
        let known = |fields: &[usize]| {
            let rates = fields.iter().map(|&field| block.rate(field));
            rates.filter(|rate| *rate != Err(Reason::Unknown)).sum::<Result<f64, _>>()
        };
        let share = |part: f64, of: f64| if of > 0.0 { Ok(100.0 * part / of) } else { Err(Reason::Unknown) };
        Ok(Number::Number(match &self.how {
            How::Rate(field) => block.rate(*field)?,
            How::Sum(fields) => sum(fields)?,
            How::Value(field, unit) => value(*field)? * unit,
            How::Text(field) => return block.text(*field).map(Number::Text).ok_or(Reason::Unknown),
            How::Speed => block.speed()?,
            // Of an interface that is faster than its speed there is a rate, but no share of anything.
            How::Utilization(octets) => share(8.0 * block.rate(*octets)?, block.speed()?)?,
            How::Share(field, all) => share(block.rate(*field)?, known(all)?)?,
            How::Rest(field, all) => 100.0 - share(block.rate(*field)?, known(all)?)?,
            How::Busy(time, processors) => share(block.rate(*time)? / 1000.0, value(*processors)?)?,
            How::Used(free, total) => share(value(*total)? - value(*free)?, value(*total)?)?,
            How::Bit(field, bit) => {
                let bits = block.bits(*field).ok_or(Reason::Unknown)?;
                return Ok(Number::Name(if bits >> bit & 1 == 1 { "up" } else { "down" }));
            }
            How::Name(field, names) => {
                let number = block.bits(*field).ok_or(Reason::Unknown)?;
                match names.get(number as usize) {
                    Some(name) => return Ok(Number::Name(name)),
                    None => number as f64,
                }
            }
        }))
    }
}

fn table() -> Vec<Metric> {
    let mut metrics = Vec::new();
    for (structure, prefix, off) in PREFIXES {
        // Of two of one name the later number is the one in use.
        let named = |known: &&&Structure| known.name == *structure;
        let Some(structure) = Structure::all(Space::Counter).iter().rev().find(named).copied() else { continue };
        for (index, field) in structure.fields.iter().enumerate() {
            let name = name(structure, field, prefix, off);
            let Some((unit, how)) = plain(index, field).filter(|_| !name.is_empty()) else { continue };
            metrics.push(Metric { name, unit, structure, how });
        }
        computed(structure, &mut metrics);
    }
    metrics
}

fn name(structure: &Structure, field: &Field, prefix: &str, off: &str) -> String {
    let renamed = RENAMED.iter().find(|(known, name, _)| *known == structure.name && *name == field.name);
    match renamed {
        Some((.., name)) => (*name).to_owned(),
        None => format!("{prefix}{}", field.name.strip_prefix(off).unwrap_or(field.name)).to_lowercase(),
    }
}

/// What a field says by itself.
fn plain(index: usize, field: &Field) -> Option<(Unit, How)> {
    let name = field.name.to_lowercase();
    let bytes = ["octets", "bytes"].iter().any(|word| name.contains(word));
    let memory = [
        "memory",
        "maxmemory",
        "total_memory",
        "free_memory",
        "mem_",
        "swap_",
        "disk_",
        "heap_",
        "capacity",
        "allocation",
        "physical",
    ];
    Some(match (field.kind, field.meaning) {
        (Kind::Text(_), _) => (Unit::Text, How::Text(index)),
        (Kind::Uuid, _) => (Unit::Text, How::Text(index)),
        (Kind::U8 | Kind::U32 | Kind::I32 | Kind::U64 | Kind::F32, meaning) => match meaning {
            Meaning::Counter if bytes => (Unit::BytesPerSecond, How::Rate(index)),
            Meaning::Counter => (Unit::PerSecond, How::Rate(index)),
            _ if field.name == "ifSpeed" => (Unit::BitsPerSecond, How::Speed),
            Meaning::Gauge if bytes || memory.iter().any(|word| name.starts_with(word)) => {
                (Unit::Bytes, How::Value(index, 1.0))
            }
            _ => (Unit::Plain, How::Value(index, 1.0)),
        },
        _ => return None,
    })
}

/// What several fields say together.
fn computed(structure: &'static Structure, metrics: &mut Vec<Metric>) {
    let at = |name: &str| structure.fields.iter().position(|field| field.name == name).unwrap_or(usize::MAX);
    let mut add = |name: &str, unit, how| metrics.push(Metric { name: name.to_owned(), unit, structure, how });
    match structure.name {
        "if_counters" => {
            for (lower, way) in [("in", "In"), ("out", "Out")] {
                let of = |kind: &str| at(&format!("if{way}{kind}"));
                let utilization = How::Utilization(of("Octets"));
                add(&format!("if{lower}utilization"), Unit::Percent, utilization);
                let packets = ["UcastPkts", "MulticastPkts", "BroadcastPkts"].map(of).to_vec();
                add(&format!("if{lower}pkts"), Unit::PerSecond, How::Sum(packets));
            }
            add("ifadminstatus", Unit::Text, How::Bit(at("ifStatus"), 0));
            add("ifoperstatus", Unit::Text, How::Bit(at("ifStatus"), 1));
            add("ifdirection", Unit::Text, How::Name(at("ifDirection"), DIRECTIONS));
        }
        "host_descr" => {
            add("machine_type", Unit::Text, How::Name(at("machine_type"), MACHINES));
            add("os_name", Unit::Text, How::Name(at("os_name"), SYSTEMS));
        }
        "host_cpu" => {
            let all: Vec<usize> = PROCESSOR.iter().map(|name| at(name)).collect();
            for name in PROCESSOR {
                add(name, Unit::Percent, How::Share(at(name), all.clone()));
            }
            add("cpu_utilization", Unit::Percent, How::Rest(at("cpu_idle"), all));
        }
        "host_memory" => add("mem_utilization", Unit::Percent, How::Used(at("mem_free"), at("mem_total"))),
        "host_disk_io" => {
            add("disk_utilization", Unit::Percent, How::Used(at("disk_free"), at("disk_total")));
            add("part_max_used", Unit::Percent, How::Value(at("part_max_used"), 0.01));
        }
        "virt_cpu" => {
            add("vir_cpu_utilization", Unit::Percent, How::Busy(at("cpuTime"), at("nrVirtCpu")));
        }
        _ => {}
    }
}
