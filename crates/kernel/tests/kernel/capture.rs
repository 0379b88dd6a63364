//! A capture whose buffer is too small: what it lost is counted, to the frame.

use std::net::UdpSocket;

use weir_kernel::capture::Tap;
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;

/// The loopback interface shows each datagram twice: as sent and as received.
#[test]
fn frames_without_room_are_counted() {
    const COUNT: u64 = 500;
    let ns = NetNs::create().unwrap();
    Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
    let socket = ns.run(|| UdpSocket::bind("127.0.0.1:5000")).unwrap().unwrap();
    // The smallest buffer that the kernel gives.
    let mut tap = Tap::open(&ns, "lo", 100, 0).unwrap();
    assert!(tap.receive_buffer() < 10_000, "{}", tap.receive_buffer());
    for number in 0..COUNT {
        socket.send_to(&[number as u8; 500], "127.0.0.1:5000").unwrap();
        assert_eq!(socket.recv(&mut [0; 600]).unwrap(), 500);
    }
    let (mut taken, mut outgoing) = (0, 0);
    let mut drain = |tap: &mut Tap| {
        while tap
            .receive(|frame| {
                assert_eq!((frame.length, frame.bytes.len()), (14 + 20 + 8 + 500, 100));
                assert!(frame.stamp > 1_700_000_000_000_000_000, "{}", frame.stamp);
                taken += 1;
                outgoing += u64::from(frame.outgoing);
            })
            .unwrap()
            > 0
        {}
        (taken, outgoing)
    };
    let (taken, _) = drain(&mut tap);
    let counts = tap.counts().unwrap();
    assert_eq!((counts.passed, counts.passed - counts.dropped), (2 * COUNT, taken));
    assert!(taken > 0 && counts.dropped > 0, "{counts:?}");
    assert_eq!(tap.counts().unwrap(), counts, "asking changes nothing");

    // With room again nothing is lost: one frame out, one in.
    let before = drain(&mut tap);
    socket.send_to(&[0; 500], "127.0.0.1:5000").unwrap();
    socket.recv(&mut [0; 600]).unwrap();
    let after = drain(&mut tap);
    assert_eq!((after.0 - before.0, after.1 - before.1), (2, 1));
    assert_eq!(tap.counts().unwrap().dropped, counts.dropped);
}
