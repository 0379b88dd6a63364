//! What the kernel knows of one TCP connection (`TCP_INFO`, struct tcp_info in include/uapi/linux/tcp.h).

mod sys;

use std::io;
use std::os::fd::AsFd;

/// The state of a connection. Fields that an older kernel does not have are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time, us.
    pub rtt_us: u32,
    /// Segments that may be in flight.
    pub congestion_window: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Segments sent again since the connection was made.
    pub retransmits: u32,
    /// Bytes acknowledged by the peer.
    pub acked_bytes: u64,
    /// Bytes in the send buffer that were never sent.
    pub unsent_bytes: u32,
    /// Payload bytes sent, those sent again included (Linux 4.19).
    pub sent_bytes: u64,
    /// Payload bytes sent again (Linux 4.19).
    pub resent_bytes: u64,
    /// Segments that arrived out of order at this end (Linux 5.4).
    pub out_of_order: u32,
}

impl TcpInfo {
    /// Asks the kernel for the state of a connected socket.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut bytes = [0; LEN];
        sys::tcp_info(socket.as_fd(), &mut bytes)?;
        Ok(Self::decode(&bytes))
    }

    /// Bytes handed to the socket that the peer has not acknowledged: in flight or never sent.
    pub fn outstanding_bytes(&self) -> u64 {
        // The acknowledged bytes count the SYN, too, once it is acknowledged.
        let in_flight = (self.sent_bytes - self.resent_bytes.min(self.sent_bytes))
            .saturating_sub(self.acked_bytes.saturating_sub(1));
        in_flight + u64::from(self.unsent_bytes)
    }

    fn decode(bytes: &[u8; LEN]) -> Self {
        let u32_at = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| {
            let mut field = [0; 8];
            field.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(field)
        };
        Self {
            rtt_us: u32_at(68),
            congestion_window: u32_at(80),
            unacked: u32_at(24),
            retransmits: u32_at(100),
            acked_bytes: u64_at(120),
            unsent_bytes: u32_at(144),
            sent_bytes: u64_at(200),
            resent_bytes: u64_at(208),
            out_of_order: u32_at(224),
        }
    }
}

/// Bytes of struct tcp_info up to and with `tcpi_rcv_ooopack`.
const LEN: usize = 228;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn counts_the_bytes_of_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 1000]).unwrap();
        let mut received = [0; 1000];
        server.read_exact(&mut received).unwrap();
        // The answer carries the acknowledgement.
        server.write_all(&[8]).unwrap();
        client.read_exact(&mut [0]).unwrap();
        let info = TcpInfo::of(&client).unwrap();
        assert_eq!((info.sent_bytes, info.acked_bytes, info.unsent_bytes, info.unacked), (1000, 1001, 0, 0));
        assert_eq!((info.retransmits, info.outstanding_bytes()), (0, 0));
        assert!(info.congestion_window > 0 && info.rtt_us > 0);
    }

    #[test]
    fn counts_what_the_peer_does_not_take() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_server, _) = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(n) = client.write(&[7; 65_536]) {
            written += n as u64;
        }
        let info = TcpInfo::of(&client).unwrap();
        assert!(info.unsent_bytes > 0);
        assert_eq!(info.acked_bytes.saturating_sub(1) + info.outstanding_bytes(), written, "{info:?}");
    }

    #[test]
    fn an_udp_socket_has_none() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(TcpInfo::of(&socket).is_err());
    }
}
