//! What the kernel knows of one connection (`TCP_INFO`, struct tcp_info in include/uapi/linux/tcp.h).

mod sys;

use std::io;
use std::os::fd::AsFd;

/// The state of a connection. Fields that an older kernel does not have are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time, us.
    pub rtt_us: u32,
    /// Bytes of payload that a full segment sent carries.
    pub segment_bytes: u32,
    /// Segments that may be in flight.
    pub congestion_window: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Of these, acknowledged selectively.
    pub selectively_acked: u32,
    /// Of these, taken for lost.
    pub lost: u32,
    /// Of the segments sent again, those in flight.
    pub resent_in_flight: u32,
    /// Rate at which the peer has received most recently, as the sender estimates it, bytes/s (Linux 4.9).
    pub delivery_rate: u64,
    /// Time with data under way, us (Linux 4.10).
    pub busy_us: u64,
    /// Time in which the peer's receive window held it back, us (Linux 4.10).
    pub receive_window_limited_us: u64,
    /// Time in which its own send buffer held it back, us (Linux 4.10).
    pub send_buffer_limited_us: u64,
    /// Segments sent again since the connection was made.
    pub retransmits: u32,
    /// Bytes acknowledged by the peer.
    pub acked_bytes: u64,
    /// Bytes handed to the socket that the peer has not acknowledged, in flight or never sent (SIOCOUTQ). The end of the
    /// stream counts as one. `tcpi_bytes_sent` would count twice what an interface queue of this host drops.
    pub outstanding_bytes: u32,
}

impl TcpInfo {
    /// Asks the kernel for the state of a connected socket.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut bytes = [0; LEN];
        sys::tcp_info(socket.as_fd(), &mut bytes)?;
        Ok(Self { outstanding_bytes: sys::outstanding(socket.as_fd())?, ..Self::decode(&bytes) })
    }

    /// Bytes that are thought to be on their way: the pipe of RFC 6675, in whole segments.
    pub fn in_flight_bytes(&self) -> u64 {
        let segments = u64::from(self.unacked) + u64::from(self.resent_in_flight);
        let gone = u64::from(self.selectively_acked) + u64::from(self.lost);
        segments.saturating_sub(gone) * u64::from(self.segment_bytes)
    }

    /// Bytes that may be on their way.
    pub fn congestion_window_bytes(&self) -> u64 {
        u64::from(self.congestion_window) * u64::from(self.segment_bytes)
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
            segment_bytes: u32_at(16),
            congestion_window: u32_at(80),
            unacked: u32_at(24),
            selectively_acked: u32_at(28),
            lost: u32_at(32),
            resent_in_flight: u32_at(36),
            delivery_rate: u64_at(160),
            busy_us: u64_at(168),
            receive_window_limited_us: u64_at(176),
            send_buffer_limited_us: u64_at(184),
            retransmits: u32_at(100),
            acked_bytes: u64_at(120),
            outstanding_bytes: 0,
        }
    }
}

/// Bytes of struct tcp_info up to and with `tcpi_sndbuf_limited`.
const LEN: usize = 192;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::mem::offset_of;
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
        // The acknowledged bytes count the SYN, too.
        assert_eq!((info.acked_bytes, info.unacked), (1001, 0));
        assert_eq!((info.retransmits, info.outstanding_bytes), (0, 0));
        assert!(info.congestion_window > 0 && info.rtt_us > 0);
        assert!(info.delivery_rate > 0 && info.segment_bytes >= 536, "{info:?}");
        assert_eq!(info.in_flight_bytes(), 0);
        assert_eq!(info.congestion_window_bytes(), u64::from(info.congestion_window) * u64::from(info.segment_bytes));
    }

    /// Every field at its place in include/uapi/linux/tcp.h, as the C compiler lays struct tcp_info out.
    #[test]
    fn fields_are_where_the_kernel_has_them() {
        let mut bytes = [0; LEN];
        let mut at = |offset: usize, value: &[u8]| bytes[offset..offset + value.len()].copy_from_slice(value);
        at(offset_of!(libc::tcp_info, tcpi_snd_mss), &1u32.to_ne_bytes());
        at(offset_of!(libc::tcp_info, tcpi_unacked), &20u32.to_ne_bytes());
        at(offset_of!(libc::tcp_info, tcpi_sacked), &3u32.to_ne_bytes());
        at(offset_of!(libc::tcp_info, tcpi_lost), &4u32.to_ne_bytes());
        at(offset_of!(libc::tcp_info, tcpi_retrans), &5u32.to_ne_bytes());
        at(offset_of!(libc::tcp_info, tcpi_rtt), &6u32.to_ne_bytes());
        at(offset_of!(libc::tcp_info, tcpi_snd_cwnd), &7u32.to_ne_bytes());
        at(offset_of!(libc::tcp_info, tcpi_total_retrans), &8u32.to_ne_bytes());
        let info = TcpInfo::decode(&bytes);
        let read = (info.segment_bytes, info.rtt_us, info.congestion_window, info.retransmits);
        assert_eq!((read, info.in_flight_bytes()), ((1, 6, 7, 8), 20 - 3 - 4 + 5));
    }

    #[test]
    fn tells_what_holds_a_sender_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_server, _) = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        while client.write(&[7; 65_536]).is_ok() {}
        // The peer reads nothing, so its window is what stops the sender, from now on.
        let mut info = TcpInfo::default();
        while info.receive_window_limited_us == 0 {
            info = TcpInfo::of(&client).unwrap();
        }
        assert!(info.busy_us >= info.receive_window_limited_us, "{info:?}");
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
        let mut info = TcpInfo::of(&client).unwrap();
        assert!(info.outstanding_bytes > 0);
        // An acknowledgement may come between the two calls.
        while info.acked_bytes.saturating_sub(1) + u64::from(info.outstanding_bytes) != written {
            info = TcpInfo::of(&client).unwrap();
        }
    }

    #[test]
    fn an_udp_socket_has_none() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(TcpInfo::of(&socket).is_err());
    }
}
