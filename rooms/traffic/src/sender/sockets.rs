//! The sockets of senders, with what they are asked for.

use std::net::SocketAddr;

use socket2::{Domain, Type};
use weir_dgram::Options;

use crate::error::cannot_bind;
use crate::{SenderSettings, TrafficError, Transport, congestion};

/// Connected to where it sends.
pub(super) fn datagram_socket(settings: &SenderSettings) -> Result<weir_dgram::Socket, TrafficError> {
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
pub(super) fn stream_socket(settings: &SenderSettings) -> Result<socket2::Socket, TrafficError> {
    let to = settings.to;
    let failed = |source| TrafficError::Socket { transport: Transport::Tcp, address: to, source };
    let socket = socket2::Socket::new(Domain::for_address(to), Type::STREAM, None).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    if let Some(bytes) = settings.send_buffer {
        let failed =
            |source| TrafficError::Option { option: "SO_SNDBUF", value: bytes.to_string(), hint: "".into(), source };
        socket.set_send_buffer_size(bytes).map_err(failed)?;
    }
    if let Some(name) = &settings.interface {
        let failed = |source| TrafficError::Option {
            option: "SO_BINDTODEVICE",
            value: name.clone(),
            hint: " (the interface's name, and before Linux 5.7 CAP_NET_RAW)".into(),
            source,
        };
        socket.bind_device(Some(name.as_bytes())).map_err(failed)?;
    }
    if let Some(ttl) = settings.ttl {
        let result = match to {
            SocketAddr::V4(_) => socket.set_ttl_v4(ttl.into()),
            SocketAddr::V6(_) => socket.set_unicast_hops_v6(ttl.into()),
        };
        let failed =
            |source| TrafficError::Option { option: "IP_TTL", value: ttl.to_string(), hint: "".into(), source };
        result.map_err(failed)?;
    }
    if let Some(dscp) = settings.dscp {
        let field = u32::from(dscp & 63) << 2;
        let result = match to {
            SocketAddr::V4(_) => socket.set_tos_v4(field),
            SocketAddr::V6(_) => socket.set_tclass_v6(field),
        };
        let failed =
            |source| TrafficError::Option { option: "IP_TOS", value: field.to_string(), hint: "".into(), source };
        result.map_err(failed)?;
    }
    tcp_options(&socket, settings)?;
    if let Some(address) = settings.from {
        socket.bind(&address.into()).map_err(cannot_bind(address))?;
    }
    Ok(socket)
}

fn tcp_options(socket: &socket2::Socket, settings: &SenderSettings) -> Result<(), TrafficError> {
    if let Some(name) = &settings.tcp.congestion {
        congestion::set(socket, name)?;
    }
    let nodelay = settings.tcp.nodelay;
    socket.set_tcp_nodelay(nodelay).map_err(|source| TrafficError::Option {
        option: "TCP_NODELAY",
        value: nodelay.to_string(),
        hint: "".into(),
        source,
    })?;
    if settings.from.is_some() {
        // A port that was used a minute ago may be used again.
        socket.set_reuse_address(true).map_err(|source| TrafficError::Option {
            option: "SO_REUSEADDR",
            value: "1".to_owned(),
            hint: "".into(),
            source,
        })?;
    }
    Ok(())
}
