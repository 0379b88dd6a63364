//! sock_diag(7): struct inet_diag_msg and its INET_DIAG_SKMEMINFO.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_UDP};
use netlink_packet_sock_diag::inet::nlas::{MemInfo, Nla};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use nix::errno::Errno;

use super::{Memory, UdpSocket};
use crate::Error;
use crate::netlink::Requests;

/// A netlink socket of the namespace.
#[derive(Debug)]
pub(super) struct Diag(Requests);

impl Diag {
    /// In the calling thread's network namespace.
    pub(super) fn open() -> Result<Diag, Error> {
        Requests::open(NETLINK_SOCK_DIAG).map(Diag)
    }

    pub(super) fn read(&mut self) -> Result<Vec<UdpSocket>, Error> {
        let mut sockets = self.list(AF_INET)?;
        match self.list(AF_INET6) {
            Ok(more) => sockets.extend(more),
            // A kernel without IPv6.
            Err(error) if matches!(error.errno(), Some(Errno::ENOENT | Errno::EAFNOSUPPORT)) => {}
            Err(error) => return Err(error),
        }
        Ok(sockets)
    }

    fn list(&mut self, family: u8) -> Result<Vec<UdpSocket>, Error> {
        let request = InetRequest {
            family,
            protocol: IPPROTO_UDP,
            extensions: ExtensionFlags::SKMEMINFO,
            states: StateFlags::all(),
            socket_id: if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() },
        };
        let answers = self.0.list(SockDiagMessage::InetRequest(request), || "list UDP sockets by sock_diag")?;
        let socket = |answer| match answer {
            SockDiagMessage::InetResponse(response) => udp_socket(&response),
            _ => None,
        };
        Ok(answers.into_iter().filter_map(socket).collect())
    }
}

/// `None` where the kernel did not tell the memory (before 4.7).
pub(crate) fn udp_socket(response: &InetResponse) -> Option<UdpSocket> {
    let (header, id) = (&response.header, &response.header.socket_id);
    let memory = response.nlas.iter().find_map(|nla| match nla {
        Nla::MemInfo(info) => Some(memory(info, header.recv_queue)),
        _ => None,
    })?;
    let peer = address(id.destination_address, id.destination_port, id.interface_id);
    Some(UdpSocket {
        cookie: Some(u64::from_ne_bytes(id.cookie)),
        inode: header.inode,
        local: address(id.source_address, id.source_port, id.interface_id),
        peer: (peer.port() != 0 || !peer.ip().is_unspecified()).then_some(peer),
        interface: (id.interface_id != 0).then_some(id.interface_id),
        memory,
    })
}

/// A link-local address belongs to the interface that the socket is bound to.
fn address(ip: IpAddr, port: u16, interface: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => SocketAddrV6::new(ip, port, 0, interface).into(),
        _ => SocketAddr::new(ip, port),
    }
}

fn memory(info: &MemInfo, queued: u32) -> Memory {
    Memory { rmem_alloc: info.receive_queue, queued, receive_buffer: Some(info.receive_queue_max), drops: info.drops }
}
