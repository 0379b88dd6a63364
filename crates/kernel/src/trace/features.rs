//! Which features of the kernel the programs use, and which of them this one has.

use std::fs;
use std::path::Path;

use aya::{Btf as AyaBtf, Endianness};

use super::btf::Btf;
use crate::Error;
use crate::error::During;

/// Something of the kernel that tracing needs, or is better for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// What it is: a tracepoint, its argument, a member of a struct.
    pub name: &'static str,
    /// The first kernel that has it.
    pub since: &'static str,
    /// What it is used for, hence what is missing without it.
    pub purpose: &'static str,
    /// Whether this kernel has it.
    pub present: bool,
}

enum Probe {
    Tracepoint(&'static str),
    Arguments(&'static str, usize),
    Member(&'static str, &'static str),
}

use Probe::{Arguments, Member, Tracepoint};

/// Sources: include/trace/events/{skb,sock,net}.h and their history.
const TABLE: [(&str, &str, &str, Probe); 9] = [
    ("tracepoint kfree_skb with types (tp_btf)", "5.5", "drops", Tracepoint("kfree_skb")),
    ("kfree_skb: reason", "5.17", "why a datagram was dropped", Arguments("kfree_skb", 3)),
    ("kfree_skb: rx_sk", "6.11", "which socket lost it", Arguments("kfree_skb", 4)),
    ("tracepoint sk_data_ready", "6.3", "levels of receive queues", Tracepoint("sk_data_ready")),
    ("tracepoint sock_recv_length", "6.3", "reads, and stalls of readers", Tracepoint("sock_recv_length")),
    ("udp_sock.udp_flags", "6.7", "datagrams in a read of a socket with UDP_GRO", Member("udp_sock", "udp_flags")),
    ("tracepoint netif_receive_skb", "5.5", "arrivals by interface", Tracepoint("netif_receive_skb")),
    ("tracepoint net_dev_queue", "5.5", "departures by interface", Tracepoint("net_dev_queue")),
    ("tracepoint sock_send_length", "6.3", "calls that send, and their errors", Tracepoint("sock_send_length")),
];

/// What the running kernel has of the features that tracing uses.
///
/// # Errors
/// If the kernel has no type information.
pub fn features() -> Result<Vec<Feature>, Error> {
    let types = Types::read(Path::new(super::BTF))?;
    let present = |probe: &Probe| match *probe {
        Tracepoint(name) => types.own.arguments(name).is_some(),
        Arguments(name, least) => types.own.arguments(name).is_some_and(|count| count >= least),
        Member(name, member) => types.own.has_member(name, member),
    };
    Ok(TABLE
        .iter()
        .map(|(name, since, purpose, probe)| Feature { name, since, purpose, present: present(probe) })
        .collect())
}

/// The names of this kernel's drop reasons, as [`super::Drop::reason`] has them; none before 5.17.
///
/// # Errors
/// If the kernel has no type information.
pub fn drop_reasons() -> Result<Vec<String>, Error> {
    let types = Types::read(Path::new(super::BTF))?;
    let reasons = types.own.enumerators("skb_drop_reason").unwrap_or_default().into_values();
    Ok(reasons.filter_map(|name| name.strip_prefix("SKB_DROP_REASON_").map(str::to_owned)).collect())
}

/// A kernel's type information, as the loader wants it and as we read it.
pub(super) struct Types {
    pub(super) own: Btf,
    pub(super) loader: AyaBtf,
}

impl Types {
    pub(super) fn read(path: &Path) -> Result<Types, Error> {
        let operation = || format!("read the kernel's types from {}", path.display());
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let detail = "no such file (needs a kernel from 5.5 built with CONFIG_DEBUG_INFO_BTF)";
                return Err(Error::answer(operation(), detail));
            }
            other => other.during(operation)?,
        };
        let loader = AyaBtf::parse(&bytes, Endianness::default())
            .map_err(|error| Error::answer(operation(), error.to_string()))?;
        let own = Btf::parse(bytes).map_err(|detail| Error::answer(operation(), detail))?;
        Ok(Types { own, loader })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_types_is_one_line_with_the_remedy() {
        let error = Types::read(Path::new("/nowhere/vmlinux")).err().unwrap().to_string();
        assert_eq!(
            error,
            "read the kernel's types from /nowhere/vmlinux: no such file \
             (needs a kernel from 5.5 built with CONFIG_DEBUG_INFO_BTF)"
        );
    }
}
