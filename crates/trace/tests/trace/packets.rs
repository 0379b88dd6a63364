//! Packets are sampled and counted, and drops told, as an independent count has them.

use std::net::UdpSocket;

use weir_testbed::network;
use weir_trace::packets::{Fate, Packets, Wanted};

#[test]
fn what_passes_and_what_is_dropped_is_counted_exactly() {
    const SENT: u64 = 3000;
    const NOBODY: u64 = 40;
    let Some([one, other]) = network::cable(1500) else { return };
    let index = other.netlink().link("eth0").unwrap().index;
    let (counted, sampled, told) = other.run(|| {
        let (packets, refused) = Packets::start(Wanted { samples: true, drops: true });
        let Some(mut packets) = packets.filter(|_| refused.is_empty()) else {
            weir_testbed::skip(refused.join("; "));
            return Default::default();
        };
        assert!(packets.sample(index, 10, 1.0).unwrap());
        packets.tell_drops(15).unwrap();
        let receiver = UdpSocket::bind((other.v4, 5000)).unwrap();
        one.run(|| {
            let sender = UdpSocket::bind((one.v4, 0)).unwrap();
            for _ in 0..NOBODY {
                sender.send_to(&[8; 100], (other.v4, 5001)).unwrap();
            }
            for _ in 0..SENT {
                sender.send_to(&[7; 100], receiver.local_addr().unwrap()).unwrap();
            }
        });
        receiver.set_nonblocking(true).unwrap();
        let mut received = 0;
        while receiver.recv(&mut [0; 100]).is_ok() {
            received += 1;
        }
        // What comes late is not chosen between two readings.
        packets.stop();
        let (mut sampled, mut told) = (0, Vec::new());
        let taken = packets.take(|packet| match packet.fate {
            Fate::Sampled { interface, times } => {
                assert_eq!((interface, times), (index, 1));
                if !packet.outgoing {
                    assert_eq!((packet.length, packet.bytes.len()), (142, 128));
                }
                sampled += 1;
            }
            Fate::Discarded { input, output, reason, location } => {
                told.push((input, output, packet.length, packet.protocol, reason, location));
            }
        });
        taken.unwrap();
        packets.learn_functions(told.iter().map(|one: &(_, _, _, _, _, u64)| one.5));
        let told: Vec<_> = told
            .into_iter()
            .map(|(input, output, length, protocol, reason, location)| {
                let reason = packets.reason(reason).into_owned();
                (input, output, length, protocol, reason, packets.function(location).to_owned())
            })
            .collect();
        let counted = (packets.sampled(index).unwrap(), packets.discarded().unwrap());
        (Some((counted.0, counted.1, received)), sampled, told)
    });
    let Some((counts, (discards, missed), received)) = counted else { return };
    // Answers go out: port unreachable, as many as the kernel's limit permits.
    assert!((SENT + NOBODY..SENT + 2 * NOBODY + 10).contains(&counts.pool), "{counts:?}");
    assert_eq!((counts.chosen, counts.shed, counts.lost), (sampled, 0, 0));
    assert!((200..400).contains(&sampled), "{sampled}");
    assert_eq!(missed, 0);
    let unwanted = discards.iter().find(|one| one.reason == "NO_SOCKET").unwrap();
    assert_eq!(unwanted.packets, NOBODY, "{discards:?}");
    let full = discards.iter().find(|one| one.reason == "SOCKET_RCVBUFF").map_or(0, |one| one.packets);
    assert_eq!(received + full, SENT, "{discards:?}");
    let unwanted: Vec<_> = told.iter().filter(|one| one.4 == "NO_SOCKET").collect();
    assert!((10..=15).contains(&unwanted.len()), "{told:?}");
    for (input, output, length, protocol, _, function) in unwanted {
        assert_eq!((*input, *output, *length, *protocol), (Some(index), None, 142, 0));
        assert!(function.contains("udp"), "{function}");
    }
}
