//! Which of several sockets at one address gets a datagram.

use std::net::UdpSocket;

use weir_dgram::{Inbox, Options, Socket, Steering};

use crate::network::{on_loopback, wait_readable};

/// As sFlow datagrams have it: a type, and an address of 4 or 16 bytes.
const STEERING: Steering = Steering { selector: 4, layouts: &[(1, &[8]), (2, &[8, 12, 16, 20])] };

/// One sender with one port speaks for many: the payload decides, by the kernel's program as by ours, in both families.
#[test]
fn the_payload_decides_whoever_sends_it() {
    on_loopback(|| {
        let options = Options { reuse_port: true, ..Options::default() };
        for (address, sender) in [("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0"), ("[::]:0", "127.0.0.1:0")] {
            let first = Socket::bind(address.parse().unwrap(), &options).unwrap();
            first.steer(&STEERING, 5).unwrap();
            let port = first.local_addr();
            let mut sockets = vec![first];
            sockets.extend((1..5).map(|_| Socket::bind(port, &options).unwrap()));

            let sender = UdpSocket::bind(sender).unwrap();
            let to = (sender.local_addr().unwrap().ip(), port.port());
            let mut expected = vec![Vec::new(); 5];
            let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
            let mut payloads: Vec<Vec<u8>> = (0..60).map(|host| words(&[5, 1, 0x0a00_0001 + host, 0, 99])).collect();
            payloads.extend((0..60).map(|host| words(&[5, 2, 0x2001_0db8, 0, 0, host, 0, 99])));
            // Too short, of no known layout, empty.
            payloads.extend([words(&[5, 2, 7, 7, 7]), words(&[5, 3, 7]), Vec::new()]);
            for payload in payloads {
                sender.send_to(&payload, to).unwrap();
                expected[STEERING.choose(&payload, 5) as usize].push(payload);
            }
            assert!(expected.iter().all(|share| share.len() > 5), "{expected:?}");

            for (socket, share) in sockets.iter().zip(expected) {
                let mut inbox = Inbox::new(200, 2048);
                wait_readable(socket);
                // Loopback delivers within the send.
                inbox.receive(socket).unwrap();
                let received: Vec<&[u8]> = inbox.payloads().collect();
                assert_eq!(received, share, "{address}");
            }
        }
    });
}
