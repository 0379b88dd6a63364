//! Frames built by hand, also such as no kernel would send.

use std::net::SocketAddrV4;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{LinkAddr, SockaddrLike, bind};
use std::os::fd::AsRawFd;

use socket2::{Domain, Socket, Type};

use crate::network::Host;

/// Sends Ethernet frames by a host's `eth0`.
pub(super) struct FrameSender(Socket);

impl FrameSender {
    pub(super) fn open(host: &Host) -> FrameSender {
        host.run(|| {
            let socket = Socket::new(Domain::PACKET, Type::RAW, None).unwrap();
            let address = eth0();
            assert_eq!(address.len() as usize, size_of::<nix::libc::sockaddr_ll>());
            bind(socket.as_raw_fd(), &address).unwrap();
            FrameSender(socket)
        })
    }

    #[track_caller]
    pub(super) fn send(&self, frame: &[u8]) {
        assert_eq!(self.0.send(frame).unwrap(), frame.len());
    }
}

/// The link-layer address of `eth0` in the calling thread's namespace.
fn eth0() -> LinkAddr {
    let mut addresses = getifaddrs().unwrap().filter(|entry| entry.interface_name == "eth0");
    addresses.find_map(|entry| entry.address?.as_link_addr().copied()).unwrap()
}

/// A datagram as an Ethernet frame, all checksums right.
pub(super) fn frame(from: &Host, to: &Host, source_port: u16, port: u16, payload: &[u8]) -> Vec<u8> {
    let mac = |host: &Host| host.run(|| eth0().addr().unwrap());
    let (source, destination) = (SocketAddrV4::new(from.v4, source_port), SocketAddrV4::new(to.v4, port));
    let udp_length = u16::try_from(8 + payload.len()).unwrap();
    let mut frame = [&mac(to)[..], &mac(from), &[0x08, 0x00]].concat();
    // RFC 791: version and header length, total length, identification, time to live, protocol.
    frame.extend([0x45, 0]);
    frame.extend((20 + udp_length).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend(source.ip().octets());
    frame.extend(destination.ip().octets());
    mend_header(&mut frame);
    let mut udp = Vec::new();
    udp.extend(source.port().to_be_bytes());
    udp.extend(destination.port().to_be_bytes());
    udp.extend(udp_length.to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(payload);
    let pseudo = [&source.ip().octets()[..], &destination.ip().octets(), &[0, 17], &udp_length.to_be_bytes()].concat();
    let sum = checksum(&[&pseudo[..], &udp].concat());
    // RFC 768: 0 would say that there is none.
    udp[6..8].copy_from_slice(&(if sum == 0 { 0xffff } else { sum }).to_be_bytes());
    frame.extend(udp);
    frame
}

/// Makes the checksum of the IP header right again.
pub(super) fn mend_header(frame: &mut [u8]) {
    let header = &mut frame[IP..UDP];
    header[10..12].fill(0);
    let sum = checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap()
}

/// Where the IP header begins in a frame, and the UDP header.
pub(super) const IP: usize = 14;
pub(super) const UDP: usize = 34;
