//! Which processor receives an interface's packets (RPS; Documentation/networking/scaling.rst).

use std::fs;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::Error;
use crate::error::During;
use crate::namespaces::NetNs;

/// Lets the packets that come in by an interface be received (IP, UDP, up to the sockets) by one processor, which the
/// others tell by an interrupt, as a card with one queue does.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN in the initial user namespace; ENOENT for an unknown interface or a kernel without RPS;
/// if the container hides parts of /sys.
pub fn receive_on(ns: &NetNs, interface: &str, processor: usize) -> Result<(), Error> {
    let operation = || format!("receive the packets of {interface} on processor {processor} (rps_cpus)");
    ns.run(|| {
        // /sys shows the interfaces of the network that it was mounted in. The thread ends, and its mounts with it.
        unshare(CloneFlags::CLONE_NEWNS).during(operation).map_err(|error| error.needs("CAP_SYS_ADMIN"))?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).during(operation)?;
        mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), None::<&str>).during(operation)?;
        fs::write(format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus"), mask(processor)).during(operation)
    })?
}

/// A receive queue of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveQueue {
    /// Its number.
    pub number: u32,
    /// How many processors it hands packets to (rps_cpus).
    pub steered_to: usize,
}

/// The receive queues of an interface of the network in which /sys was mounted, mostly the machine's first; none for one of
/// another network, told by its index.
pub fn receive_queues(interface: &str, index: u32) -> Vec<ReceiveQueue> {
    let directory = format!("/sys/class/net/{interface}");
    let shown = fs::read_to_string(format!("{directory}/ifindex")).ok();
    if shown.and_then(|text| text.trim().parse().ok()) != Some(index) {
        return Vec::new();
    }
    let queue = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.ok()?.path();
        let number = path.file_name()?.to_str()?.strip_prefix("rx-")?.parse().ok()?;
        let mask = fs::read_to_string(path.join("rps_cpus")).unwrap_or_default();
        Some(ReceiveQueue { number, steered_to: processors(&mask) })
    };
    let entries = fs::read_dir(format!("{directory}/queues")).into_iter().flatten();
    let mut queues: Vec<ReceiveQueue> = entries.filter_map(queue).collect();
    queues.sort_by_key(|queue| queue.number);
    queues
}

/// How many are in a bitmap.
fn processors(mask: &str) -> usize {
    mask.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit.count_ones() as usize).sum()
}

/// A bitmap of one processor, as the kernel writes them: groups of 32 bits in hexadecimal, the lowest last.
fn mask(processor: usize) -> String {
    format!("{:x}{}", 1_u32 << (processor % 32), ",00000000".repeat(processor / 32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::Netlink;

    #[test]
    fn masks() {
        assert_eq!((mask(0), mask(5)), ("1".into(), "20".into()));
        assert_eq!((mask(32), mask(65)), ("1,00000000".into(), "2,00000000,00000000".into()));
        assert_eq!((processors("00000000,0000000f\n"), processors("0"), processors("")), (4, 0, 0));
    }

    #[test]
    fn an_interface_is_steered_and_an_unknown_one_is_told() {
        let ns = NetNs::create().unwrap();
        Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
        receive_on(&ns, "lo", 0).unwrap();
        let (there, other) = ns
            .run(|| {
                unshare(CloneFlags::CLONE_NEWNS).unwrap();
                let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
                mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
                mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), None::<&str>).unwrap();
                (receive_queues("lo", 1), receive_queues("lo", 2))
            })
            .unwrap();
        assert_eq!(there.len(), 1);
        assert_eq!((there[0].number, other), (0, Vec::new()), "another network's");
        let error = receive_on(&ns, "nothing", 0).unwrap_err();
        assert_eq!(error.errno(), Some(nix::errno::Errno::ENOENT), "{error}");
    }
}
