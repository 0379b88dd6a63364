//! The sockets of senders, with their options.

use socket2::{Domain, Socket, Type};
use weir_dgram::Options;

use crate::error::{cannot_bind, cannot_set};
use crate::{SenderSettings, TrafficError, Transport, congestion};

/// A socket that is connected to its destination.
pub(crate) fn datagram_socket(settings: &SenderSettings) -> Result<weir_dgram::Socket, TrafficError> {
    let multicast = settings.to.ip().is_multicast();
    let interface = settings.interface.clone();
    let options = Options {
        send_buffer: settings.send_buffer,
        dscp: settings.dscp,
        ttl: settings.ttl,
        multicast_ttl: settings.ttl,
        multicast_interface: interface.clone().filter(|_| multicast),
        interface: interface.filter(|_| !multicast),
        gso: settings.in_runs(),
        errors: settings.reads_reports(),
        ..Options::default()
    };
    Ok(weir_dgram::Socket::connect(settings.from, settings.to, &options)?)
}

/// Not connected yet.
pub(super) fn stream_socket(settings: &SenderSettings) -> Result<Socket, TrafficError> {
    let to = settings.to;
    let failed = |source| TrafficError::Socket { transport: Transport::Tcp, address: to, source };
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    if let Some(bytes) = settings.send_buffer {
        socket.set_send_buffer_size(bytes).map_err(cannot_set("SO_SNDBUF", &bytes))?;
    }
    if let Some(name) = &settings.interface {
        socket.bind_device(Some(name.as_bytes())).map_err(cannot_set("SO_BINDTODEVICE", name))?;
    }
    if let Some(ttl) = settings.ttl {
        let result = if to.is_ipv4() { socket.set_ttl_v4(ttl.into()) } else { socket.set_unicast_hops_v6(ttl.into()) };
        result.map_err(cannot_set("IP_TTL", &ttl))?;
    }
    if let Some(dscp) = settings.dscp {
        let field = u32::from(dscp & 63) << 2;
        let result = if to.is_ipv4() { socket.set_tos_v4(field) } else { socket.set_tclass_v6(field) };
        result.map_err(cannot_set("IP_TOS", &field))?;
    }
    if let Some(name) = &settings.congestion {
        congestion::set(&socket, name)?;
    }
    let nodelay = settings.nodelay;
    socket.set_tcp_nodelay(nodelay).map_err(cannot_set("TCP_NODELAY", &nodelay))?;
    if let Some(address) = settings.from {
        // A recently used port may be used again.
        socket.set_reuse_address(true).map_err(cannot_set("SO_REUSEADDR", &1))?;
        socket.bind(&address.into()).map_err(cannot_bind(address))?;
    }
    Ok(socket)
}
