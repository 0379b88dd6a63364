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
        unshare(CloneFlags::CLONE_NEWNS).during(operation)?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).during(operation)?;
        mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), None::<&str>).during(operation)?;
        fs::write(format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus"), mask(processor)).during(operation)
    })?
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
    }

    #[test]
    fn an_interface_is_steered_and_an_unknown_one_is_told() {
        let ns = NetNs::create().unwrap();
        Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
        receive_on(&ns, "lo", 0).unwrap();
        let error = receive_on(&ns, "nothing", 0).unwrap_err();
        assert_eq!(error.errno(), Some(nix::errno::Errno::ENOENT), "{error}");
    }
}
