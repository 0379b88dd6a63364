//! What a datagram takes of a receive buffer: its memory in the kernel, several times a small payload.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;

use anyhow::{Context, Result, ensure};
use ipnet::IpNet;
use nix::poll::{PollFd, PollFlags};
use weir_dgram::Memory;
use weir_kernel::links::{MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;
use weir_program::clock;

use super::facts::Truesize;

/// Sends a datagram of this payload over a veth pair of our own (over the loopback interface, where we may make none), and
/// looks at what it takes of the buffer that it waits in.
///
/// # Errors
/// If sockets cannot be made, or the kernel does not tell (before Linux 4.12).
pub(super) fn measure(payload: u64) -> Result<Truesize> {
    let veth = match (NetNs::create(), NetNs::create()) {
        (Ok(sender), Ok(receiver)) => Some(veth(sender, receiver)?),
        _ => None,
    };
    let (sender, receiver, address, link) = match veth {
        Some((sender, receiver)) => (sender, receiver, RECEIVER, "veth"),
        None => (NetNs::current()?, NetNs::current()?, Ipv4Addr::LOCALHOST, "loopback"),
    };
    let to = receiver.run(|| UdpSocket::bind((address, 0)))??;
    let from = sender.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
    let datagram = vec![0; usize::try_from(payload)?];
    from.send_to(&datagram, to.local_addr()?).with_context(|| format!("send a datagram of {payload} B"))?;
    clock::wait(&mut [PollFd::new(to.as_fd(), PollFlags::POLLIN)], Some(clock::now() + PATIENCE));
    let memory = Memory::of(to.as_fd()).context("read a socket's memory (needs Linux 4.12)")?;
    let bytes = memory.receive_queue.into();
    ensure!(bytes > 0, "measure what a datagram of {payload} B takes: it did not arrive over {link}");
    // What is closed unread would be found as lost.
    to.recv(&mut []).context("read the datagram")?;
    Ok(Truesize { bytes, source: format!("measured over {link}") })
}

/// Joins two namespaces. Their neighbours are known: nothing waits for an address.
fn veth(sender: NetNs, receiver: NetNs) -> Result<(NetNs, NetNs)> {
    let end = |ns, number| VethEnd { ns, name: NAME, mac: MacAddress::local(number), mtu: MTU, queue_length: 0 };
    Netlink::open(&sender)?.add_veth(&end(&sender, 1), &end(&receiver, 2))?;
    for (ns, own, other, number) in [(&sender, SENDER, RECEIVER, 2), (&receiver, RECEIVER, SENDER, 1)] {
        let mut netlink = Netlink::open(ns)?;
        let index = netlink.link(NAME)?.index;
        netlink.add_address(index, IpNet::new(own.into(), 24)?)?;
        netlink.set_up(index)?;
        netlink.add_neighbour(index, other.into(), MacAddress::local(number))?;
    }
    for ns in [&sender, &receiver] {
        Netlink::open(ns)?.wait_until_running(NAME)?;
    }
    Ok((sender, receiver))
}

const NAME: &str = "truesize";
const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// An Ethernet's.
const MTU: u32 = 1500;

/// Nanoseconds.
const PATIENCE: u64 = 2_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_takes_more_than_its_payload() {
        let [small, large, fragmented] = [64, 1400, 9000].map(|payload| measure(payload).unwrap().bytes);
        assert!((64 + 28..4096).contains(&small), "{small}");
        assert!(small < large && large < fragmented, "{small} {large} {fragmented}");
    }
}
